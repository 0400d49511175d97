"""Looking inside: why a gradient is zero, where a NaN comes from, what compiling changes, which
rules ran, how tensors are laid out, and why devices communicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.sharding.explain import explain_sharding
from pullback.sharding.show import show_sharding
from pullback.transforms.call_rules import rules_applied

if TYPE_CHECKING:
    from pullback.debug.audit import audit
    from pullback.debug.explain_grad import explain_grad
    from pullback.debug.trace_nan import trace_nan

__all__ = [
    "audit", "explain_grad", "explain_sharding", "rules_applied", "show_sharding", "trace_nan",
]  # fmt: skip
_LAZY = ("audit", "explain_grad", "trace_nan")  # only those who look inside need them


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    import importlib

    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
