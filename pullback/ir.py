"""The static IR: programs as text that can be read, verified, differentiated and run.

The implementation, `pullback.static`, is loaded at the first use of a name: most programs do not
need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pullback.static  # noqa: F401  (sets Graph.__str__)

if TYPE_CHECKING:
    from pullback.static.public import (
        CATALOGUE,
        Gradient,
        GradientOptions,
        Module,
        autodiff,
        canonicalise,
        extensions,
        fingerprint,
        from_function,
        from_stablehlo,
        parse,
        run,
        to_function,
        to_stablehlo,
        verify,
    )

__all__ = [
    "CATALOGUE",
    "Gradient",
    "GradientOptions",
    "Module",
    "autodiff",
    "canonicalise",
    "extensions",
    "fingerprint",
    "from_function",
    "from_stablehlo",
    "parse",
    "run",
    "to_function",
    "to_stablehlo",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from pullback.static import public  # heavy

    value = globals()[name] = getattr(public, name)
    return value


def __dir__() -> list[str]:
    return __all__
