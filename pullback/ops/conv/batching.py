"""Batching rules of convolutions: the mapped axis becomes part of another dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pullback.ops.prelude import Axis, Node, Op, Type
from pullback.ops.shape.movement import Reshape, moved

if TYPE_CHECKING:
    from pullback.ops.conv.geometry import Convolving


def batch_one(
    op: Op, like: Convolving, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]
) -> Node:
    """Batch `op`, a convolution with the geometry of `like`, where one operand is mapped."""
    side = mapped.index(True)
    source, target = like.folds[side]
    operands = list(xs)
    operands[side] = fold(xs[side], source, like.groups if source == -1 else 1)
    return unfold(op(*operands), target, like.groups if target == -1 else 1, axis.size)


def example_types(xs: Sequence[Node], mapped: Sequence[bool]) -> list[Type]:
    """The operands' types without the mapped axis."""
    types = [x.type for x in xs]
    return [t.with_shape(t.shape[1:]) if has else t for t, has in zip(types, mapped, strict=True)]


def fold(x: Node, dim: int, groups: int) -> Node:
    """Merge dimension 0 into dimension `dim` of the rest, inside each of its groups."""
    count, *shape = x.type.shape
    at = dim % len(shape)
    before, (n, *after) = shape[:at], shape[at:]
    if groups > 1:
        x = Reshape((count, *before, groups, n // groups, *after))(x)
    return Reshape((*before, count * n, *after))(moved(x, 0, at + (groups > 1)))


def unfold(x: Node, dim: int, groups: int, count: int) -> Node:
    """Undo `fold`."""
    shape = x.type.shape
    at = dim % len(shape)
    before, (n, *after) = shape[:at], shape[at:]
    grouped = (groups,) if groups > 1 else ()
    x = Reshape((*before, *grouped, count, n // count // groups, *after))(x)
    x = moved(x, at + len(grouped), 0)
    return Reshape((count, *before, n // count, *after))(x) if grouped else x
