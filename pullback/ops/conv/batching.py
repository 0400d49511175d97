"""Examples, which stand first, as part of another dimension: how convolutions are batched."""

from __future__ import annotations

from pullback.ops.prelude import Node
from pullback.ops.shape.movement import Reshape, moved


def fold(x: Node, place: int, groups: int) -> Node:
    """The examples, dimension 0, as part of dimension `place`: inside each of its groups."""
    count, *shape = x.type.shape
    at = place % len(shape)
    before, (n, *after) = shape[:at], shape[at:]
    if groups > 1:
        x = Reshape((count, *before, groups, n // groups, *after))(x)
    return Reshape((*before, count * n, *after))(moved(x, 0, at + (groups > 1)))


def unfold(x: Node, place: int, groups: int, count: int) -> Node:
    """Undo `fold`."""
    shape = x.type.shape
    at = place % len(shape)
    before, (n, *after) = shape[:at], shape[at:]
    apart = (groups,) if groups > 1 else ()
    x = Reshape((*before, *apart, count, n // count // groups, *after))(x)
    x = moved(x, at + len(apart), 0)
    return Reshape((count, *before, n // count, *after))(x) if apart else x
