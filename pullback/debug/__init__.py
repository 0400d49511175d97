"""Inspecting what ran, and why."""

from pullback.sharding.explain import explain_sharding as explain_sharding
from pullback.sharding.show import show_sharding as show_sharding
from pullback.transforms.call_rules import rules_applied as rules_applied

__all__ = ["explain_sharding", "rules_applied", "show_sharding"]


def __dir__() -> list[str]:
    return __all__
