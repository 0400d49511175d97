"""Softmax as users write it, the logarithm of its sum, and their gradients, as ops with kernels."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.errors import ShapeError
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import guarded, where
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.prelude import Composite, Node, Text, Type, batch_along, same_dtype
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.row_kernel_calls import row_kernel_call
from pullback.ops.samples import real
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.traits import HasKernel


class FusedSoftmaxOp(Composite, HasKernel, abstract=True):
    """An op along `axes` (non-negative, ascending), with a kernel if they are the last ones."""

    axes: tuple[int, ...]
    text = Text(("axes",))
    batch = batch_along
    kernel_name: ClassVar[str]
    kernel_flags: ClassVar[int] = 0

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        return row_kernel_call(
            b, self.kernel_name, *xs, out=out, axes=self.axes, flags=self.kernel_flags
        )


class SoftmaxGradient(FusedSoftmaxOp):
    """The cotangent of softmax's operand, from those of its result `y` along `axes`."""

    kernel_name = "softmax_gradient"

    def infer(self, g: Type, y: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, g, y), "f")
        if g.shape != y.shape:
            raise ShapeError(f"operands must have the same shape, got {g} and {y}", code="E3001")
        check_axes(self.axes, y.rank)
        return y

    def expand(self, g: Node, y: Node) -> Node:
        weighted = guarded(g, y)
        return weighted - guarded(Sum(self.axes, True)(weighted), y)

    @classmethod
    def samples(cls) -> Any:
        yield cls((1,)), (real(3, 4), real(3, 4, salt=1))
        yield cls((0, 2)), (real(2, 3, 2), real(2, 3, 2, salt=1))


class LogSoftmaxGradient(SoftmaxGradient):
    """The cotangent of log-softmax's operand, from those of its result `y` along `axes`."""

    kernel_name = "log_softmax_gradient"

    def expand(self, g: Node, y: Node) -> Node:
        return g - guarded(Sum(self.axes, True)(g), Exp()(y))


class BareSoftmax(FusedSoftmaxOp):
    """exp(x - max(x)) over its sum along axes; NaN where the largest element is infinite."""

    kernel_name = "softmax"
    kernel_flags = 1

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, "f")
        check_axes(self.axes, x.rank)
        return x

    def expand(self, x: Node) -> Node:
        weights = Exp()(x - Max(self.axes, True)(x))
        return weights / Sum(self.axes, True)(weights)

    @classmethod
    def samples(cls) -> Any:
        yield cls((1,)), (real(3, 4),)
        yield cls((0, 2)), (real(2, 3, 2),)


class BareLogSoftmax(BareSoftmax):
    """x - max(x) less the logarithm of the sum of its exponentials along axes."""

    kernel_name = "log_softmax"

    def expand(self, x: Node) -> Node:
        shifted = x - Max(self.axes, True)(x)
        return shifted - Log()(Sum(self.axes, True)(Exp()(shifted)))


class LogSumExp(FusedSoftmaxOp):
    """log(sum(exp(x))) along axes, which are kept with size 1; and what it is the sum of.

    These are a shift, the largest element, and the logarithm of the sum of exp(x - shift). The
    shift is 0 where the largest element is infinite, unless `bare`.
    """

    bare: bool = False
    kernel_name = "logsumexp"

    @property
    def kernel_flags(self) -> int:  # type: ignore[override]
        return int(self.bare)

    def infer(self, x: Type) -> tuple[Type, ...]:
        check_elementwise_kind(x.dtype, "f")
        check_axes(self.axes, x.rank)
        one = x.with_shape(tuple([1 if i in self.axes else n for i, n in enumerate(x.shape)]))
        return one, one, one

    def expand(self, x: Node) -> tuple[Node, ...]:
        shift = Max(self.axes, True)(x)
        if not self.bare:
            shift = where(IsFinite()(shift), shift, 0)
        log_sum = Log()(Sum(self.axes, True)(Exp()(x - shift)))
        return log_sum + shift, shift, log_sum

    @classmethod
    def samples(cls) -> Any:
        yield cls((1,)), (real(3, 4),)
        yield cls((0, 2), True), (real(2, 3, 2),)


class LogSumExpGradient(FusedSoftmaxOp):
    """The cotangent of x in LogSumExp, from that of its first result and the other two."""

    kernel_name = "logsumexp_gradient"

    def infer(self, x: Type, shift: Type, log_sum: Type, g: Type) -> Type:
        return x

    def expand(self, x: Node, shift: Node, log_sum: Node, g: Node) -> Node:
        return guarded(g, Exp()((x - shift) - log_sum))

    @classmethod
    def samples(cls) -> Any:
        for op, (x,) in LogSumExp.samples():
            shape = [1 if i in op.axes else n for i, n in enumerate(x.shape)]
            yield cls(op.axes), (x, *[real(*shape, salt=i) for i in range(3)])
