"""Examples that do not all do the same: words for batching what a value decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.graph.node import Node
from pullback.ops.control.holder import hold
from pullback.ops.elementwise.base import where
from pullback.ops.prelude import TABLE, Axis, Op, results
from pullback.ops.sources import placeholder

if TYPE_CHECKING:
    from pullback.ops.control.scan import Scan


def one_after_the_other(op: Op, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]) -> Any:
    """An op without a batching rule, applied to each example in turn."""
    rows = [x for x, has in zip(xs, mapped, strict=True) if has]
    constants = [x for x, has in zip(xs, mapped, strict=True) if not has]
    inputs = [_example(x, has) for x, has in zip(xs, mapped, strict=True)]
    made = op(*inputs)
    several = isinstance(made.type, tuple)
    outputs = results(made) if several else (made,)
    ordered = [x for x, has in zip(inputs, mapped) if has]
    ordered += [x for x, has in zip(inputs, mapped) if not has]
    scan: type[Scan] = TABLE["Scan"]
    loop = scan(hold(ordered, outputs), 0, len(rows), axis.size)
    found = results(loop(*rows, *constants))
    return found if several else found[0]


def _example(x: Node, has_axis: bool) -> Node:
    type = x.type.with_shape(x.type.shape[1:]) if has_axis else x.type
    return placeholder("x", type)


def chosen(taken: Node, x: Node, y: Node) -> Node:
    """The examples of `x` where `taken`, the others of `y`; all have the axis first."""
    if x.type.rank > 1:
        taken = TABLE["Reshape"]((taken.type.shape[0], *[1] * (x.type.rank - 1)))(taken)
    return where(taken, x, y)


def masked(taken: Node, x: Node) -> Node:
    """The examples `x`; those not `taken` get no derivative, also none that is not a number."""
    return chosen(taken, x, TABLE["StopGradient"]()(x)) if x.type.inexact else x


def borrowed(taken: Node, x: Node) -> Node:
    """The examples `x` where `taken`, elsewhere the first that is: it can do what they cannot."""
    if not x.type.size:
        return x
    first = TABLE["ArgMax"](0)(taken)
    row = (1, *x.type.shape[1:])
    lent = TABLE["TakeAlongAxis"](0, True)(x, TABLE["Broadcast"](row)(first))
    return chosen(taken, x, TABLE["StopGradient"]()(lent))
