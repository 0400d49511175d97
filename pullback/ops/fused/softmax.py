"""The gradient of softmax as one op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.errors import ShapeError
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Sub
from pullback.ops.elementwise.base import check_elementwise_kind
from pullback.ops.fused.spelling import Operands, Spelling, spelling
from pullback.ops.prelude import Composite, Node, Text, batch_along, same_dtype
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import Softmax
from pullback.ops.samples import real
from pullback.ops.shape.axes import check_axes


class SoftmaxGradient(Composite):
    """The cotangent of softmax's operand, from those of its result `y` along `axes`."""

    axes: tuple[int, ...]
    text = Text(("axes",))
    batch = batch_along

    def infer(self, g: Type, y: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, g, y), "f")
        if g.shape != y.shape:
            raise ShapeError(f"operands must have the same shape, got {g} and {y}", code="E3001")
        check_axes(self.axes, y.rank)
        return y

    def expand(self, g: Node, y: Node) -> Node:
        weighted = g * y
        return weighted - y * Sum(self.axes, True)(weighted)

    @classmethod
    def samples(cls) -> Any:
        yield cls((1,)), (real(3, 4), real(3, 4, salt=1))
        yield cls((0, 2)), (real(2, 3, 2), real(2, 3, 2, salt=1))


def _rows(node: Node) -> Iterator[Operands]:
    if node.type.dtype.is_float and node.type.rank:
        yield Type(node.type.shape, node.type.dtype), Type(node.type.shape, node.type.dtype)


def _last(y: Node) -> tuple[int, ...]:
    return (y.type.rank - 1,)


def _softmax_gradient(g: Node, y: Node) -> Node | None:
    axes = _last(y)
    return SoftmaxGradient(axes)(g, y) if y.op is Softmax(axes) else None


spelling(
    Spelling(
        name="softmax gradient",
        last=Sub,
        formula=lambda g, y: g * y - y * Sum(_last(y), True)(g * y),
        operands=_rows,
        fused=_softmax_gradient,
    )
)
