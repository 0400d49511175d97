"""The static IR: programs as text that can be read, verified, compared, differentiated and run.

Names are fetched when they are first used: some of them live above this package, and a program
that needs none of them does not wait for them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "CATALOGUE": "pullback.ir.catalogue",
    "Gradient": "pullback.module.autodiff",
    "GradientOptions": "pullback.module.autodiff",
    "Module": "pullback.ir.module",
    "autodiff": "pullback.module.autodiff",
    "canonicalise": "pullback.ir.module",
    "extensions": "pullback.module.extensions",
    "fingerprint": "pullback.ir.module",
    "from_function": "pullback.module.functions",
    "from_stablehlo": "pullback.module.stablehlo",
    "parse": "pullback.ir.syntax",
    "run": "pullback.module.run",
    "to_function": "pullback.module.functions",
    "to_stablehlo": "pullback.module.stablehlo",
    "verify": "pullback.ir.module",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PUBLIC[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
