"""The static IR: programs as text that can be read, verified, differentiated and run.

The implementation, `pullback.static`, is loaded at the first use of a name: most programs do not
need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pullback.static  # noqa: F401  (sets Graph.__str__)
from pullback.graph.boundary import unknown_name_at_boundary

if TYPE_CHECKING:
    from pullback.static.public import *  # noqa: F403


def __getattr__(name: str) -> object:
    if not name.startswith("_") or name == "__all__":
        from pullback.static import public  # heavy

        if name in public.__all__ or name == "__all__":
            value = globals()[name] = getattr(public, name)
            return value
    raise unknown_name_at_boundary(__name__, name)


def __dir__() -> list[str]:
    from pullback.static import public  # heavy

    return public.__all__
