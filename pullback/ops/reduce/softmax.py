"""Softmax and its logarithm, with their well-known short derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import guarded, where
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.prelude import TABLE, Composite, Node, Text, Type, batch_along
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.row_kernel_calls import row_kernel_call
from pullback.ops.samples import real
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.traits import HasKernel
from pullback.sharding.propagate import propagate_by_rule


class SoftmaxNormalisation(Composite, abstract=True):
    """A normalisation along `axes` (non-negative, ascending); it keeps the operand's type."""

    axes: tuple[int, ...]
    kinds: ClassVar[str] = "f"
    text = Text(("axes",))
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes(self.axes, x.rank)
        return x

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        """As the operand: devices combine their sums along the axes."""
        return propagate_by_rule("... -> ...", xs, ys, mesh).shardings

    def total(self, x: Node) -> Node:
        """The sum along the axes, which are kept with size 1."""
        return Sum(self.axes, True)(x)

    def shifted(self, x: Node) -> Node:
        """x minus its largest element along the axes, so that exp cannot overflow."""
        if any(x.type.shape[i] == 0 for i in self.axes):
            return x
        top = TABLE["StopGradient"]()(Max(self.axes, True)(x))
        return x - where(IsFinite()(top), top, 0)

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,)), (real(5),)
        yield cls((1,)), (real(3, 4),)
        yield cls((0, 2)), (real(2, 3, 2),)
        yield cls(()), (real(3),)
        yield cls((1,)), (real(2, 0),)


class Softmax(SoftmaxNormalisation, HasKernel):
    """exp(x) over its sum along axes."""

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        return row_kernel_call(b, "softmax", x, out=out, axes=self.axes)

    def expand(self, x: Node) -> Node:
        weights = Exp()(self.shifted(x))
        return weights / self.total(weights)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        weighted = guarded(g, out)  # rows without a cotangent have none, even if they are NaN
        return [weighted - guarded(self.total(weighted), out)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self.vjp(ts[0], out, xs, (True,))[0]  # it is symmetric


class LogSoftmax(SoftmaxNormalisation, HasKernel):
    """x minus the logarithm of the sum of exp(x) along axes."""

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        return row_kernel_call(b, "log_softmax", x, out=out, axes=self.axes)

    def expand(self, x: Node) -> Node:
        shifted = self.shifted(x)
        return shifted - Log()(self.total(Exp()(shifted)))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [g - guarded(self.total(g), Exp()(out))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        t = ts[0]
        return None if t is None else t - self.total(Exp()(out) * t)
