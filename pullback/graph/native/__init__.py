"""The hot paths of recording, reverse mode and compiled calls, in C++.

They are compiled when pullback is installed. Without a C++ compiler, or with `PULLBACK_NATIVE=0`,
`native` is None, and functions in Python do the same. Each of these is beside its use, so that
`native` changes how long something takes, and nothing else.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any


def _load_native() -> ModuleType | None:
    if os.environ.get("PULLBACK_NATIVE", "").strip().lower() in ("0", "false", "off", "no"):
        return None
    try:
        from pullback.graph.native import _native  # type: ignore[attr-defined]
    except ImportError:  # it was not compiled
        return None
    return _native


native: Any = _load_native()
_plain_values: list[type] = []


def bind_native(**objects: Any) -> None:
    """Set objects that functions in C++ use, by the names in `Bound` of native.h."""
    if native is not None:
        native.bind(**objects)


def plain_values(*classes: type) -> None:
    """Add classes of values that refer to nothing that could lead back to a node."""
    _plain_values.extend(classes)
    bind_native(plain_values=tuple(_plain_values))
