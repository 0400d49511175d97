"""Rotation of the elements along an axis by a number that only the running program knows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import int64
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.helpers import jvp_in_first
from pullback.ops.prelude import TABLE, Axis, Node, Op, Parts, Text, Type, op_functions, spread
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.movement import Broadcast, Reshape
from pullback.ops.shape.squeeze_flip_axes import check_axes

mod, sub = op_functions("Mod", "Sub")


class Roll(Op):
    """The elements of x moved by `shift` (i64, rank 0) places along `axis`; those past the end
    reappear at the start.

    The shift is an operand, so one program serves all shifts.
    """

    axis: int
    text = Text(("axis",))
    kinds: ClassVar[str] = "biufc"
    parts = Parts(linear_in=(0,))
    jvp = jvp_in_first

    def infer(self, x: Type, shift: Type) -> Type:
        check_axes((self.axis,), x.rank)
        if shift.dtype is not int64:
            raise DTypeError(f"the shift must be i64, got {shift}", code="E2005")
        if shift.shape:
            raise ShapeError(f"the shift must have rank 0, got {shift}", code="E3002")
        return x.with_shape(x.shape)

    def numpy(self, x: np.ndarray, shift: np.ndarray) -> np.ndarray:
        return np.roll(x, int(shift), self.axis)

    def hlo(self, b: Any, out: Type, x: Any, shift: Any) -> Any:
        n = out.shape[self.axis]
        if n < 2 or not out.size:
            return x
        twice = tuple([2 * m if i == self.axis else m for i, m in enumerate(out.shape)])
        pair = b.op("stablehlo.concatenate", x, x, out=out.with_shape(twice), dimension=self.axis)
        zero, size = b.constant(0, int64), b.constant(n, int64)
        # The remainder has the sign of the shift: between -n and n.
        by = b.op("stablehlo.remainder", shift, size, out=shift.type)
        begin = b.op("stablehlo.subtract", size, by, out=shift.type)
        over = b.compare("LT", by, zero)
        begin = b.select(over, b.op("stablehlo.negate", by, out=shift.type), begin)
        starts = [begin if i == self.axis else zero for i in range(out.rank)]
        return b.op("stablehlo.dynamic_slice", pair, *starts, out=out, slice_sizes=out.shape)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self(g, -xs[1]), None]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        x, shift = xs
        if not mapped[1]:
            return Roll(self.axis + 1)(x, shift)
        x = x if mapped[0] else spread(x, axis)
        if not x.type.shape[self.axis + 1]:
            return x
        return TABLE["TakeAlongAxis"](self.axis + 1)(x, self._sources(x.type, shift))

    def _sources(self, x: Type, shifts: Node) -> Node:
        """Return the index, for each element of examples `x`, of the element that moves there."""
        along = self.axis + 1
        beside = (*x.shape[:1], *(1,) * (x.rank - 1))
        place = sub(Iota(x.shape, along, int64)(), Broadcast(x.shape)(Reshape(beside)(shifts)))
        return mod(place, x.shape[along])

    def factors(self, x: Type, shift: Type) -> str:
        dims = factor_rule_names(x.rank, (self.axis,))
        return factor_rule([dims, []], [dims])

    @classmethod
    def samples(cls) -> Any:
        for shift in (0, 2, -1, 9, -8, 5):
            yield cls(0), (real(5), np.int64(shift))
        yield cls(1), (real(2, 4, 3), np.int64(3))
        yield cls(0), (real(1, 2), np.int64(1))
        yield cls(1), (real(2, 0), np.int64(1))
        yield cls(0), (integer_samples(4), np.int64(-3))
