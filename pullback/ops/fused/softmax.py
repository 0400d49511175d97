"""Softmax as users write it, the logarithm of its sum, and their gradients, as ops with kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from pullback.errors import ShapeError
from pullback.ops.elementwise.arithmetic import Sub
from pullback.ops.elementwise.base import check_elementwise_kind
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import where
from pullback.ops.elementwise.rounding import IsFinite
from pullback.ops.fused.spelling import Operands, Spelling, spelling
from pullback.ops.prelude import Composite, Node, Text, Type, batch_along, same_dtype
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import LogSoftmax, Softmax
from pullback.ops.row_kernels import row_kernel
from pullback.ops.samples import real
from pullback.ops.shape.axes import check_axes
from pullback.ops.traits import HasKernel


class RowOp(Composite, HasKernel, abstract=True):
    """An op along `axes` (non-negative, ascending), with a kernel if they are the last ones."""

    axes: tuple[int, ...]
    text = Text(("axes",))
    batch = batch_along
    kernel_name: ClassVar[str]

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        return row_kernel(b, self.kernel_name, *xs, out=out, axes=self.axes)


class SoftmaxGradient(RowOp):
    """The cotangent of softmax's operand, from those of its result `y` along `axes`."""

    kernel_name = "softmax_gradient"

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


class LogSoftmaxGradient(SoftmaxGradient):
    """The cotangent of log-softmax's operand, from those of its result `y` along `axes`."""

    kernel_name = "log_softmax_gradient"

    def expand(self, g: Node, y: Node) -> Node:
        return g - Exp()(y) * Sum(self.axes, True)(g)


class LogSumExp(RowOp):
    """log(sum(exp(x))) along axes, which are kept with size 1; without overflow."""

    kernel_name = "logsumexp"

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, "f")
        check_axes(self.axes, x.rank)
        return x.with_shape(tuple([1 if i in self.axes else n for i, n in enumerate(x.shape)]))

    def expand(self, x: Node) -> Node:
        top = Max(self.axes, True)(x)
        top = where(IsFinite()(top), top, 0)
        return Log()(Sum(self.axes, True)(Exp()(x - top))) + top

    @classmethod
    def samples(cls) -> Any:
        yield cls((1,)), (real(3, 4),)
        yield cls((0, 2)), (real(2, 3, 2),)


def _rows(node: Node) -> Iterator[Operands]:
    if node.type.dtype.is_float and node.type.rank:
        yield Type(node.type.shape, node.type.dtype), Type(node.type.shape, node.type.dtype)


def _last(y: Node) -> tuple[int, ...]:
    return (y.type.rank - 1,)


def _softmax_gradient(g: Node, y: Node) -> Node | None:
    axes = _last(y)
    return SoftmaxGradient(axes)(g, y) if y.op is Softmax(axes) else None


def _log_softmax_gradient(g: Node, y: Node) -> Node | None:
    axes = _last(y)
    return LogSoftmaxGradient(axes)(g, y) if y.op is LogSoftmax(axes) else None


spelling(
    Spelling(
        name="softmax gradient",
        last=Sub,
        formula=lambda g, y: g * y - y * Sum(_last(y), True)(g * y),
        operands=_rows,
        fused=_softmax_gradient,
    )
)
spelling(
    Spelling(
        name="log-softmax gradient",
        last=Sub,
        formula=lambda g, y: g - Exp()(y) * Sum(_last(y), True)(g),
        operands=_rows,
        fused=_log_softmax_gradient,
        stage=1,
    )
)
