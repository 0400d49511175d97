"""Ops of weighted choices. Outcomes do not depend on how an engine rounds."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import float64, int32, int64
from pullback.graph.types import show
from pullback.ops.elementwise.base import Binary, check_elementwise_kind
from pullback.ops.factor_rules import alike_factor_rule, factor_rule, named_factors
from pullback.ops.index.lowering import gather
from pullback.ops.prelude import Op, Type, batch_along, broadcast_types
from pullback.ops.random.formulas import exp_formula
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.samples import integers, positive, real
from pullback.ops.shape.axes import check_axes


class RelativeWeights(Op):
    """exp(x - max(x)) along `axis` in f64, with the same bits in every engine.

    If the maximum is infinite, elements equal to it have weight 1, all others 0. NaN has weight 0.
    """

    axis: int
    kinds = "f"
    differentiable: ClassVar[bool] = False
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        return x.with_dtype(float64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        x = np.nan_to_num(x.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        top = x.max(self.axis, keepdims=True, initial=-np.inf)
        return np.asarray(_choice_weight(NUMPY, x, np.broadcast_to(top, x.shape)))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        x, least = b.convert(x, float64), b.full(out, -math.inf)
        x = b.select(b.compare("GE", x, least), x, least)
        top = b.reduce("maximum", x, -math.inf, (self.axis,))
        kept = [i for i in range(out.rank) if i != self.axis]
        return lifted_stepwise(b, _choice_weight, x, b.broadcast_in_dim(top, out.shape, kept))

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, (self.axis,))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(7, low=-50, high=3),)
        yield cls(1), (real(2, 5, 3),)
        yield cls(0), (real(0, 2),)
        hard = np.array([[np.inf, 1, np.inf], [-np.inf] * 3, [np.nan, 0, -800], [0, -np.inf, 5]])
        yield cls(1), (hard,)


def _choice_weight(m: Any, x: Any, top: Any) -> Any:
    return exp_formula(m, m.where(x < top, x - top, 0.0))


class Arrival(Binary):
    """time / weight in f64, with the same bits in every engine."""

    kinds = ""
    differentiable: ClassVar[bool] = False

    def infer(self, *xs: Type) -> Type:
        if any(x.dtype is not float64 for x in xs):
            raise DTypeError(f"operands must be f64, got {show(xs)}", code="E2005")
        return Type(broadcast_types(*xs), float64)

    def numpy(self, time: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(time * (1.0 / weight))

    def lower(self, b: Any, out: Type, time: Any, weight: Any) -> Any:
        return lifted_stepwise(b, lambda m, t, w: t * (1.0 / w), time, weight, unbounded=True)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(2, 4), np.array([0.0, 1e-300, 0.3, 1.0]))


class CountUpTo(Op):
    """The number of elements of sorted rows i64[..., n] that are <= each of numbers i64[..., k]."""

    differentiable: ClassVar[bool] = False
    batch = batch_along

    def infer(self, rows: Type, numbers: Type) -> Type:
        for x in (rows, numbers):
            if x.dtype is not int64 or not x.rank or x.shape[:-1] != rows.shape[:-1]:
                what = f"operands must be i64[...,n] and i64[...,k], got {rows} and {numbers}"
                raise ShapeError(what)
        return numbers

    def numpy(self, rows: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        made = np.zeros_like(numbers)
        for i in np.ndindex(rows.shape[:-1]):
            made[i] = np.searchsorted(rows[i], numbers[i], side="right")
        return made

    def hlo(self, b: Any, out: Type, rows: Any, numbers: Any) -> Any:
        """Find the bits of the count from the highest by bisection, in a loop: XLA takes five times
        as long if the steps are unrolled."""
        n, lists = rows.shape[-1], math.prod(out.shape[:-1])
        if not out.size or not n:
            return b.full(out, 0)
        index = int32 if lists * n < 2**31 else int64
        flat = Type((lists, out.shape[-1]), index)
        numbers, rows = b.reshape(numbers, flat.shape), b.reshape(rows, (lists * n,))
        row = b.iota(flat.shape, index, 0)

        def condition(step: Any, count: Any) -> Any:
            return b.compare("GT", step, b.constant(0, index))

        def body(step: Any, count: Any) -> list:
            def position(m: Any, step: Any, count: Any, row: Any) -> Any:
                at = count + step
                return row * n + m.where(at < n, at, n) - 1

            def counted(m: Any, step: Any, count: Any, element: Any, numbers: Any) -> Any:
                fits = (element <= numbers) & (count + step <= n)
                return m.where(fits, count + step, count)

            wide = b.broadcast(step, flat.shape)
            at = lifted_stepwise(b, position, wide, count, row)
            element = gather(b, numbers.type, rows, [at], [0])
            count = lifted_stepwise(b, counted, wide, count, element, numbers)
            return [lifted_stepwise(b, lambda m, s: s >> 1, step), count]

        start = b.constant(1 << (n.bit_length() - 1), index), b.full(flat, 0)
        count = b.loop(start, condition, body, stops=False)[1]
        return b.reshape(b.convert(count, int64), out.shape)

    def factors(self, rows: Type, numbers: Type) -> str:
        dims = named_factors(numbers.rank)
        return factor_rule([[*dims[:-1], "_"], dims], [dims])

    @classmethod
    def samples(cls) -> Any:
        numbers = np.array([-5, 0, 1, 3, 6, 99, 4, 7])
        yield cls(), (np.array([0, 1, 1, 3, 4, 4, 7]), numbers)
        yield cls(), (np.array([3]), numbers)
        yield cls(), (np.zeros(0, np.int64), numbers)
        rows = np.sort(integers(2, 3, 20, high=30), -1)
        yield cls(), (rows, integers(2, 3, 5, high=30))
