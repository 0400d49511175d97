"""Looking inside: why a gradient is zero, where a NaN comes from, where time goes, what compiling
changes, which rules ran, how tensors are laid out, and why devices communicate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.graph.boundary import publish
from pullback.sharding.explain import explain_sharding
from pullback.sharding.show import show_sharding
from pullback.transforms.call_rules import rules_applied

if TYPE_CHECKING:
    from pullback.debug.gradient_explanation import explain_grad
    from pullback.debug.nan_tracing import trace_nan
    from pullback.debug.printing import print
    from pullback.debug.profiling import profile
    from pullback.debug.ulp_audit import audit

__all__ = [
    "audit", "explain_grad", "explain_sharding", "print", "profile", "rules_applied",
    "show_sharding", "trace_nan",
]  # fmt: skip
# The modules of names that are loaded at their first use: few programs need them
_LAZY = {
    "audit": "ulp_audit", "explain_grad": "gradient_explanation", "print": "printing",
    "profile": "profiling", "trace_nan": "nan_tracing",
}  # fmt: skip


def __getattr__(name: str) -> object:
    import importlib  # most programs do not get here

    module = importlib.import_module(f"{__name__}.{_LAZY[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__


publish(__name__)
