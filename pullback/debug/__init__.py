"""Looking inside: what ran, and why."""

from pullback.transforms.rules import rules_applied as rules_applied

__all__ = ["rules_applied"]
