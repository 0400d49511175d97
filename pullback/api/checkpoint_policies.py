"""Policies: which values a checkpoint keeps for the backward pass. Combine them with `|`.

>>> policy = pb.checkpoint_policies.dots_saved | pb.checkpoint_policies.names_saved("mask")
>>> policy.dots, policy.names
(True, ('mask',))
"""

from __future__ import annotations

from dataclasses import dataclass

from pullback.errors import ArgumentError


@dataclass(frozen=True)
class CheckpointPolicy:
    """The values to keep: results of products and convolutions, and values with a name."""

    dots: bool = False
    names: tuple[str, ...] = ()

    def __or__(self, other: CheckpointPolicy) -> CheckpointPolicy:
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return CheckpointPolicy(self.dots or other.dots, names)


nothing_saved = CheckpointPolicy()
dots_saved = CheckpointPolicy(dots=True)


def names_saved(*names: str) -> CheckpointPolicy:
    """Keep the values that `pb.checkpoint_name(x, name)` marked with one of `names`.

    >>> pb.checkpoint_policies.names_saved("mask", "scores").names
    ('mask', 'scores')
    """
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"names_saved: names must be strings, got {type(name).__name__}")
    return CheckpointPolicy(names=names)
