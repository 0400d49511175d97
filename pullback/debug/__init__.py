"""Looking inside: which rules ran, how tensors are laid out, and why devices communicate."""

from pullback.sharding.explain import explain_sharding
from pullback.sharding.show import show_sharding
from pullback.transforms.call_rules import rules_applied

__all__ = ["explain_sharding", "rules_applied", "show_sharding"]


def __dir__() -> list[str]:
    return __all__
