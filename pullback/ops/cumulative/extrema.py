"""Running extremes: the largest or smallest so far, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import int64
from pullback.ops.cumulative.cumulative import Cumulative
from pullback.ops.cumulative.lowering import prefixes, shifted
from pullback.ops.prelude import (
    TABLE,
    Node,
    Type,
)
from pullback.ops.reduce.extrema import Extreme, Max, Min
from pullback.ops.reduce.reductions import widened


class CumExtreme(Cumulative, abstract=True):
    """The extreme of the elements up to each one; NaN wins from where it occurs.

    The derivative goes to the element that holds the record; of equal ones the first in the
    direction of the scan holds it.
    """

    kinds = "biuf"
    of: ClassVar[type[Extreme]]

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return self.along(self.of.ufunc.accumulate, widened(x)).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        identity = self.of.identity(x.dtype)
        return prefixes(b, self.of.stablehlo, identity, x, self.axis, self.reverse)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        put = TABLE["PutAlongAxisAdd"](self.axis, xs[0].type.shape[self.axis], True)
        return [put(g, self.holders(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        return TABLE["TakeAlongAxis"](self.axis, True)(ts[0], self.holders(xs[0]))

    def holders(self, x: Node) -> Node:
        return TABLE[f"CumArg{self.of.name}"](self.axis, self.reverse)(x)


class CumMax(CumExtreme):
    """The largest of the elements up to each one."""

    of = Max


class CumMin(CumExtreme):
    """The smallest of the elements up to each one."""

    of = Min


class CumArgExtreme(Cumulative, abstract=True):
    """The index of the extreme of the elements up to each one: the first, if several are equal."""

    kinds = "biuf"
    differentiable: ClassVar[bool] = False
    of: ClassVar[type[Extreme]]

    def infer(self, x: Type) -> Type:
        return super().infer(x).with_dtype(int64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        n = x.shape[self.axis]
        made = self.along(self._holders, widened(x))
        return n - 1 - made if self.reverse else made

    def _holders(self, x: np.ndarray) -> np.ndarray:
        held = np.zeros(x.shape, np.int64)
        best = np.array(x[:1])
        for i in range(1, len(x)):
            beats = x[i] > best[0] if self.of is Max else x[i] < best[0]
            beats = beats | ((x[i] != x[i]) & (best[0] == best[0]))
            best[0] = np.where(beats, x[i], best[0])
            held[i] = np.where(beats, i, held[i - 1])
        return held

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        """A record is an element that the record before it does not equal or beat."""
        if out.size == 0:
            return b.full(out, 0)
        axis, reverse = self.axis, self.reverse
        identity = self.of.identity(x.dtype)
        records = prefixes(b, self.of.stablehlo, identity, x, axis, reverse)
        before = shifted(b, records, axis, identity, reverse)
        new = b.compare("GT" if self.of is Max else "LT", x, before)
        if x.dtype.is_float:
            nan, had = b.compare("NE", x, x), b.compare("EQ", before, before)
            both = b.op("stablehlo.and", nan, had, out=new.type)
            new = b.op("stablehlo.or", new, both, out=new.type)
        # the index of the latest record: it only grows in the direction of the scan
        start = x.shape[axis] - 1 if reverse else 0
        index = b.select(new, b.iota(x.shape, int64, axis), b.full(out, start))
        return prefixes(b, "minimum" if reverse else "maximum", start, index, axis, reverse)


class CumArgMax(CumArgExtreme):
    """The index of the largest of the elements up to each one."""

    of = Max


class CumArgMin(CumArgExtreme):
    """The index of the smallest of the elements up to each one."""

    of = Min
