"""Helpers for batching control flow where examples take different paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.graph.node import Node
from pullback.ops.control.holder import held_row, hold
from pullback.ops.elementwise.functions import where
from pullback.ops.prelude import TABLE, Axis, Op, result_nodes
from pullback.ops.sources import placeholder

if TYPE_CHECKING:
    from pullback.ops.control.scan import Scan


def masked_one_by_one(op: Op, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]) -> Any:
    """Apply an op without a batching rule to each example in turn, in a scan."""

    def mapped_first(nodes: Sequence[Node]) -> list[Node]:
        pairs = list(zip(nodes, mapped, strict=True))
        return [x for x, has in pairs if has] + [x for x, has in pairs if not has]

    types = [held_row(x.type) if has else x.type for x, has in zip(xs, mapped, strict=True)]
    inputs = [placeholder("x", t) for t in types]
    node = op(*inputs)
    several = isinstance(node.type, tuple)
    body = hold(mapped_first(inputs), result_nodes(node) if several else (node,))
    scan: type[Scan] = TABLE["Scan"]
    found = result_nodes(scan(body, 0, sum(mapped), axis.size)(*mapped_first(xs)))
    return found if several else found[0]


def select_masked_examples(active: Node, x: Node, y: Node) -> Node:
    """Return the examples of `x` that are `active`, the others of `y`; the axis comes first."""
    if x.type.rank > 1:
        active = TABLE["Reshape"]((active.type.shape[0], *[1] * (x.type.rank - 1)))(active)
    return where(active, x, y)


def detach_masked(active: Node, x: Node) -> Node:
    """Return `x`, where examples that are not `active` get no derivative, not even a NaN."""
    return select_masked_examples(active, x, TABLE["StopGradient"]()(x)) if x.type.inexact else x


def replace_masked_examples(active: Node, x: Node) -> Node:
    """Replace examples that are not `active` by the first that is, on which an op may not fail."""
    if not x.type.size:
        return x
    first = TABLE["Broadcast"]((1, *x.type.shape[1:]))(TABLE["ArgMax"](0)(active))
    substitute = TABLE["TakeAlongAxis"](0, True)(x, first)
    return select_masked_examples(active, x, TABLE["StopGradient"]()(substitute))
