"""Cumulative extrema: the largest or smallest element up to each one, and its index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import int64
from pullback.ops.cumulative.cumulative import Cumulative
from pullback.ops.cumulative.lowering import lower_cumulative, lower_cumulative_shifted
from pullback.ops.index.along_axis import PutAlongAxisAdd, TakeAlongAxis
from pullback.ops.prelude import Node, Type
from pullback.ops.reduce.extrema import MAXIMUM, MINIMUM, Extremum
from pullback.ops.reduce.reductions import widened_reduction_operand


class CumExtremum(Cumulative, abstract=True):
    """The extremum of the elements up to each one; NaN wins from where it occurs. The derivative
    goes to the element that holds the record; of equal ones the first in the direction of the scan
    holds it."""

    kinds = "biuf"
    of: ClassVar[Extremum]

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        identity = self.of.identity(x.dtype)
        return lower_cumulative(b, self.of.stablehlo, identity, x, self.axis, self.reverse)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        put = PutAlongAxisAdd(self.axis, xs[0].type.shape[self.axis], True)
        return [put(g, self.holders(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        return TakeAlongAxis(self.axis, True)(ts[0], self.holders(xs[0]))

    def holders(self, x: Node) -> Node:
        """The index of the element that holds the record, for each element."""
        index = CumArgMax if self.of is MAXIMUM else CumArgMin
        return index(self.axis, self.reverse)(x)


class CumMax(CumExtremum):
    """The largest of the elements up to each one."""

    of, ufunc = MAXIMUM, np.maximum


class CumMin(CumExtremum):
    """The smallest of the elements up to each one."""

    of, ufunc = MINIMUM, np.minimum


class CumArgExtremum(Cumulative, abstract=True):
    """The index of the extremum of the elements up to each one: of the first of equal ones."""

    kinds = "biuf"
    differentiable: ClassVar[bool] = False
    of: ClassVar[Extremum]

    def infer(self, x: Type) -> Type:
        return super().infer(x).with_dtype(int64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        indices = self.along(self._holders, widened_reduction_operand(x))
        return x.shape[self.axis] - 1 - indices if self.reverse else indices

    def _holders(self, x: np.ndarray) -> np.ndarray:
        best = self.of.ufunc.accumulate(x)
        new = np.zeros(x.shape, bool)
        new[1:] = (best[1:] != best[:-1]) & (best[:-1] == best[:-1])  # NaN stays the record
        index = np.arange(len(x)).reshape(-1, *[1] * (x.ndim - 1))
        return np.maximum.accumulate(np.where(new, index, 0))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        """A record is an element that beats the record before it."""
        if out.size == 0:
            return b.full(out, 0)
        axis, reverse = self.axis, self.reverse
        identity = self.of.identity(x.dtype)
        records = lower_cumulative(b, self.of.stablehlo, identity, x, axis, reverse)
        before = lower_cumulative_shifted(b, records, axis, identity, reverse)
        new = self.of.beats(b, x, before)
        # The index of the latest record: it only moves in the direction of the scan.
        start = x.shape[axis] - 1 if reverse else 0
        index = b.select(new, b.iota(x.shape, int64, axis), b.full(out, start))
        return lower_cumulative(b, "minimum" if reverse else "maximum", start, index, axis, reverse)


class CumArgMax(CumArgExtremum):
    """The index of the largest of the elements up to each one."""

    of = MAXIMUM


class CumArgMin(CumArgExtremum):
    """The index of the smallest of the elements up to each one."""

    of = MINIMUM
