"""Counts of sorted elements up to a number."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import int32, int64
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.index.index_lowering import gather
from pullback.ops.prelude import Op, Type, batch_along
from pullback.ops.random.stepwise import lifted_stepwise
from pullback.ops.samples import integer_samples


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
        dims = factor_rule_names(numbers.rank)
        return factor_rule([[*dims[:-1], "_"], dims], [dims])

    @classmethod
    def samples(cls) -> Any:
        numbers = np.array([-5, 0, 1, 3, 6, 99, 4, 7])
        yield cls(), (np.array([0, 1, 1, 3, 4, 4, 7]), numbers)
        yield cls(), (np.array([3]), numbers)
        yield cls(), (np.zeros(0, np.int64), numbers)
        rows = np.sort(integer_samples(2, 3, 20, high=30), -1)
        yield cls(), (rows, integer_samples(2, 3, 5, high=30))
