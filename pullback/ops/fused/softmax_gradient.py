"""Gradients of softmax and its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import where
from pullback.ops.elementwise.rounding import IsFinite
from pullback.ops.prelude import Composite, Node, Text, Type, batch_along
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.row_kernels import row_kernel
from pullback.ops.samples import real
from pullback.ops.traits import HasKernel


class RowOp(Composite, HasKernel, abstract=True):
    """An op along `axes` (non-negative, ascending) with a kernel for the last axes."""

    axes: tuple[int, ...]
    kinds: ClassVar[str] = "f"
    text = Text(("axes",))
    batch = batch_along
    kernel_name: ClassVar[str]

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        return row_kernel(b, self.kernel_name, *xs, out=out, axes=self.axes)

    def total(self, x: Node) -> Node:
        return Sum(self.axes, True)(x)


class SoftmaxGradient(RowOp):
    """The cotangent of the operand of Softmax, from that of its result y: y (g - sum(g y))."""

    kernel_name = "softmax_gradient"

    def infer(self, g: Type, y: Type) -> Type:
        return y

    def expand(self, g: Node, y: Node) -> Node:
        weighted = g * y
        return weighted - y * self.total(weighted)

    @classmethod
    def samples(cls) -> Any:
        for axes, shape in (((0,), (5,)), ((1,), (3, 4)), ((1, 2), (2, 3, 2)), ((0,), (3, 2))):
            yield cls(axes), (real(*shape), real(*shape, salt=1))


class LogSoftmaxGradient(SoftmaxGradient):
    """The cotangent of the operand of LogSoftmax, from that of its result y: g - exp(y) sum(g)."""

    kernel_name = "log_softmax_gradient"

    def expand(self, g: Node, y: Node) -> Node:
        return g - Exp()(y) * self.total(g)


class LogSumExp(RowOp):
    """log(sum(exp(x))) along axes, which are kept with size 1; without overflow."""

    kernel_name = "logsumexp"

    def expand(self, x: Node) -> Node:
        top = Max(self.axes, True)(x)
        top = where(IsFinite()(top), top, 0)
        return Log()(self.total(Exp()(x - top))) + top

    @classmethod
    def samples(cls) -> Any:
        for axes, shape in (((0,), (5,)), ((1,), (3, 4)), ((1, 2), (2, 3, 2)), ((0,), (3, 2))):
            yield cls(axes), (real(*shape),)
