"""Cumulative ops: the combination of all elements up to each one, along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.cumulative.lowering import lower_cumulative, lower_cumulative_scan
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import cast, equal, where
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.helpers import batch_along, conjugate, same_dtype, zeros
from pullback.ops.prelude import TABLE, Composite, Node, Op, Type
from pullback.ops.reduce.reductions import reduction_accumulator, widened_reduction_operand
from pullback.ops.samples import real
from pullback.ops.shape.concat_pad import shift_by_pad
from pullback.ops.shape.squeeze_flip_axes import check_axes


class Cumulative(Op, abstract=True):
    """Combines along `axis` from its start, or from its end if `reverse`."""

    axis: int
    reverse: bool
    kinds: ClassVar[str] = "iufc"
    ufunc: ClassVar[np.ufunc]
    stablehlo: ClassVar[str]
    identity: ClassVar[Any]  # the value that a scan starts with
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        wide = widened_reduction_operand(x)
        return self.along(lambda v: self.ufunc.accumulate(v, dtype=v.dtype), wide).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return lower_cumulative(b, self.stablehlo, self.identity, x, self.axis, self.reverse)

    def factors(self, *xs: Type) -> str:
        return alike_factor_rule(xs[0].rank, (self.axis,), len(xs))

    def along(self, f: Callable[..., np.ndarray], *xs: np.ndarray) -> np.ndarray:
        """Apply a NumPy function that scans axis 0 forward."""
        step = -1 if self.reverse else 1
        forward = f(*[np.moveaxis(x, self.axis, 0)[::step] for x in xs])
        return np.moveaxis(forward[::step], 0, self.axis)

    @classmethod
    def samples(cls) -> Any:
        yield cls(0, False), (real(5),)
        yield cls(1, True), (real(2, 4, 3),)
        yield cls(0, False), (real(3, 2),)
        yield cls(0, True), (real(0, 2),)
        yield cls(1, False), (real(2, 1),)


class CumSum(Cumulative):
    """Sums of the elements up to each one."""

    ufunc, stablehlo, identity = np.add, "add", 0
    linear: ClassVar[bool] = True

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [CumSum(self.axis, not self.reverse)(g)]

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls(1, False), (real(2, 300),)


class CumProd(Cumulative):
    """Products of the elements up to each one; the derivatives are exact where elements are 0."""

    ufunc, stablehlo, identity = np.multiply, "multiply", 1

    # y_i = x_i y_{i-1}, so its tangent is a linear recurrence with the same coefficients.

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        before = shift_by_pad(out, self.axis, self.reverse, 1)
        return [_cumulative_adjoint(g, xs[0], self.axis, self.reverse) * conjugate(before)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        before = shift_by_pad(out, self.axis, self.reverse, 1)
        return LinearRecurrence(self.axis, self.reverse)(xs[0], before * ts[0])

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls(0, False), (np.array([2.0, 0.0, 3.0, 0.0, 4.0]),)
        yield cls(0, True), (real(130, low=0.8, high=1.2),)


class LinearRecurrence(Cumulative):
    """h_i = a_i h_{i-1} + b_i along an axis, from h = 0: the first coefficient has no effect.

    Where h_{i-1} is 0 the product is 0 for any coefficient, also infinity (see MulNoNan).
    """

    kinds = "fc"

    def infer(self, a: Type, b: Type) -> Type:
        same_dtype(self.title, a, b)
        if a.shape != b.shape:
            raise ShapeError(f"operands must have the same shape, got {a} and {b}", code="E3001")
        return super().infer(a)

    def numpy(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.along(
            _cumulative_recurrence, widened_reduction_operand(a), widened_reduction_operand(b)
        ).astype(b.dtype)

    def hlo(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        def combine(p: Sequence, q: Sequence) -> list:
            zero = b.full(p[1].type, 0)
            carried = b.op("stablehlo.multiply", q[0], p[1], out=p[1].type)
            carried = b.select(b.compare("EQ", p[1], zero), zero, carried)
            return [b.op("stablehlo.multiply", p[0], q[0], out=p[0].type),
                    b.op("stablehlo.add", carried, q[1], out=p[1].type)]  # fmt: skip

        wide = [b.convert(v, reduction_accumulator(v.dtype)) for v in (x, y)]
        _, h = lower_cumulative_scan(b, combine, (1, 0), wide, self.axis, self.reverse)
        return b.convert(h, out.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        lam = _cumulative_adjoint(g, xs[0], self.axis, self.reverse)
        before = shift_by_pad(out, self.axis, self.reverse, 0)
        return [lam * conjugate(before) if need[0] else None, lam]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        da, db = ts
        if da is not None:
            change = da * shift_by_pad(out, self.axis, self.reverse, 0)
            db = change if db is None else change + db
        return self(xs[0], db)

    @classmethod
    def samples(cls) -> Any:
        for op, (x,) in super().samples():
            yield op, (x, real(*x.shape, salt=1))
        yield cls(1, False), (real(2, 150), real(2, 150, salt=1))


def _cumulative_recurrence(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    h = np.array(b)
    for i in range(1, len(h)):
        h[i] = np.where(h[i - 1] == 0, 0, a[i] * h[i - 1]) + b[i]
    return h


def _cumulative_adjoint(g: Node, a: Node, axis: int, reverse: bool) -> Node:
    """The cotangents of all h in h_i = a_i h_{i-1} + b_i: the same recurrence, backwards."""
    following = shift_by_pad(conjugate(a), axis, not reverse, 0)
    return LinearRecurrence(axis, not reverse)(following, g)


class CumLogSumExp(Cumulative):
    """log of the sums of exp of the elements up to each one, without overflow.

    Not a Composite: expanded on a mesh, each of its scans would gather the dimension.
    """

    kinds = "f"
    ufunc = np.logaddexp

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.inline(Composite.expansion(self, [x.type]), [x])[0]  # type: ignore[arg-type]

    def expand(self, x: Node) -> Node:
        """Sums relative to the running maximum, rescaled whenever it changes."""
        exp, axis, reverse = Exp(), self.axis, self.reverse
        dtype = x.type.dtype
        x = cast(x, reduction_accumulator(dtype))
        top = TABLE["CumMax"](axis, reverse)(x)
        top = _zero_cumulative_where(_zero_cumulative_where(top, -np.inf), np.inf)
        scale = exp(shift_by_pad(top, axis, reverse, 0) - top)
        total = LinearRecurrence(axis, reverse)(scale, exp(x - top))
        return cast(top + Log()(total), dtype)

    # dy_i = exp(x_i - y_i) dx_i + exp(y_{i-1} - y_i) dy_{i-1}, with weights in [0, 1].

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        own, before = self.weights(out, xs[0])
        return [own * _cumulative_adjoint(g, before, self.axis, self.reverse)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        own, before = self.weights(out, xs[0])
        return LinearRecurrence(self.axis, self.reverse)(before, own * ts[0])

    def weights(self, y: Node, x: Node) -> tuple[Node, Node]:
        """The weights of the newest element and of all before it."""
        exp, safe = Exp(), _zero_cumulative_where(y, -np.inf)
        return exp(x - safe), exp(shift_by_pad(y, self.axis, self.reverse, -np.inf) - safe)


def _zero_cumulative_where(x: Node, value: float) -> Node:
    """0 where an element is `value`: subtracting an infinity from itself would be NaN."""
    return where(equal(x, value), zeros(x.type), x)
