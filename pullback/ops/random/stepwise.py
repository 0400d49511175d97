"""Arithmetic with one rounding a step, the same to the last bit in every engine.

A formula is written once, over values with NumPy's operators, and is run by NumPy (`NUMPY`) or
written as StableHLO (`Hlo`). XLA may round `x * y + z` once where NumPy rounds twice, and gathers
constants in products and in sums. Both are kept from happening by a comparison with a number
that is never reached: `select(p < limit, p, limit)`, one instruction on every machine. Functions
such as `log`, whose last bit every library has its own idea of, are left out; the ones that random
numbers need are in `functions.py`. There is no division: see `__rtruediv__`.

What is rounded alike everywhere: f32 and f64 sums, differences and products, f64 reciprocals and
square roots (GPUs have faster ones in f32), conversions, and all of integer arithmetic. Values
stay below the limit, or are handled as `unbounded`, which costs two instructions more; and clear
of subnormal numbers, which XLA takes for 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.graph.dtypes import DType, dtype, float32

LIMIT = {32: 2.0**100, 64: 2.0**1000}  # of magnitudes, by the number of bits

# What a value is, as far as compilers like to rewrite it together with its users: a product in a
# sum is contracted, and in chains of sums or of products those that turn out constant are gathered.
PLAIN, SUM, PRODUCT = "plain", "sum", "product"


class NumPy:
    """The words of formulas that are no operators, in NumPy."""

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Any:
        return np.where(condition, x, y)

    @staticmethod
    def convert(x: Any, to: DType) -> Any:
        return x.astype(to.numpy)

    @staticmethod
    def bitcast(x: Any, to: DType) -> Any:
        return x.view(to.numpy)

    @staticmethod
    def sqrt(x: Any) -> Any:
        return np.sqrt(x)


class Hlo:
    """The same in StableHLO: `lift` makes a value with operators, `settled` a finished one."""

    def __init__(self, b: Any, unbounded: bool = False) -> None:
        self.b, self.unbounded = b, unbounded

    def lift(self, value: Any) -> Steps:
        return Steps(self, value)

    def settled(self, x: Steps) -> Any:
        return x.settled().value

    def where(self, condition: Steps, x: Any, y: Any) -> Steps:
        given = x if isinstance(x, Steps) else y
        x, y = given.like(x).settled(), given.like(y).settled()
        return self.lift(self.b.select(condition.value, x.value, y.value))

    def convert(self, x: Steps, to: DType) -> Steps:
        return self.lift(self.b.convert(x.settled().value, to))

    def bitcast(self, x: Steps, to: DType) -> Steps:
        value = x.settled().value
        out = value.type.with_dtype(to)
        return self.lift(self.b.op("stablehlo.bitcast_convert", value, out=out))

    def sqrt(self, x: Steps) -> Steps:
        value = x.settled().value
        return Steps(self, self.b.op("stablehlo.sqrt", value, out=value.type), PRODUCT)


NUMPY = NumPy()


def _integer(name: str) -> Callable[[Steps, Any], Steps]:
    """An operator on integers, which are exact whatever a compiler does."""

    def apply(self: Steps, other: Any) -> Steps:
        return self._made(name, self, self.like(other))

    return apply


def _comparison(direction: str) -> Callable[[Steps, Any], Steps]:
    def apply(self: Steps, other: Any) -> Steps:
        x, y = self.settled(), self.like(other).settled()
        return self.m.lift(self.m.b.compare(direction, x.value, y.value))

    return apply


class Steps:
    """A value of a StableHLO program, with operators that round one by one."""

    __slots__ = ("kind", "m", "value")

    def __init__(self, m: Hlo, value: Any, kind: str = PLAIN) -> None:
        self.m, self.value, self.kind = m, value, kind

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype.numpy

    def like(self, other: Any) -> Steps:
        """An operand: a number becomes a constant of this value's type."""
        return other if isinstance(other, Steps) else self.m.lift(self._full(other))

    def _full(self, number: Any) -> Any:
        return self.m.b.full(self.value.type, number)

    def settled(self) -> Steps:
        """The value itself, kept apart from how it was made."""
        if self.kind == PLAIN or not self.value.dtype.is_float:
            return self
        b, limit = self.m.b, self._full(LIMIT[self.value.dtype.bits])
        below = b.compare("LT", self.value, limit)
        other = limit
        if self.m.unbounded:  # what is larger does not change when 1 is added, nor does NaN
            other = b.op("stablehlo.add", self.value, self._full(1), out=self.value.type)
        return self.m.lift(b.select(below, self.value, other))

    def _made(self, name: str, x: Steps, y: Steps, kind: str = PLAIN) -> Steps:
        made = self.m.b.op(f"stablehlo.{name}", x.value, y.value, out=x.value.type)
        return Steps(self.m, made, kind)

    def _sum(self, name: str, x: Any, y: Any) -> Steps:
        x, y = (self.like(v).settled() for v in (x, y))
        return self._made(name, x, y, SUM)

    def __add__(self, other: Any) -> Steps:
        return self._sum("add", self, other)

    def __radd__(self, other: Any) -> Steps:
        return self._sum("add", other, self)

    def __sub__(self, other: Any) -> Steps:
        return self._sum("subtract", self, other)

    def __rsub__(self, other: Any) -> Steps:
        return self._sum("subtract", other, self)

    def __mul__(self, other: Any) -> Steps:
        x, y = (v if v.kind == SUM else v.settled() for v in (self, self.like(other)))
        return self._made("multiply", x, y, PRODUCT)

    __rmul__ = __mul__

    def __rtruediv__(self, one: float) -> Steps:
        """The reciprocal. XLA divides by a number that is the same for all elements by taking its
        reciprocal once; formulas always do."""
        if one != 1:
            raise TypeError("quotients are products with the reciprocal here")
        return self._made("divide", self.like(one), self.settled(), PRODUCT)

    def __neg__(self) -> Steps:
        value = self.m.b.op("stablehlo.negate", self.value, out=self.value.type)
        return Steps(self.m, value, self.kind)

    def __invert__(self) -> Steps:
        return self.m.lift(self.m.b.op("stablehlo.not", self.value, out=self.value.type))

    __and__, __or__, __xor__ = _integer("and"), _integer("or"), _integer("xor")
    __lshift__ = _integer("shift_left")

    def __rshift__(self, other: Any) -> Steps:
        kind = "arithmetic" if self.value.dtype.kind == "i" else "logical"
        return self._made(f"shift_right_{kind}", self, self.like(other))

    __lt__, __le__ = _comparison("LT"), _comparison("LE")
    __gt__, __ge__ = _comparison("GT"), _comparison("GE")


def sibling(x: Any, kind: str) -> DType:
    """The element type of another kind with as many bits: i32 for f32."""
    return dtype(f"{kind}{np.dtype(x.dtype).itemsize * 8}")


def is_single(x: Any) -> bool:
    return x.dtype == float32.numpy


def lifted(b: Any, f: Callable, *values: Any, unbounded: bool = False) -> Any:
    """The StableHLO of a formula `f(machine, *values)`, ready for others to use."""
    m = Hlo(b, unbounded)
    made = f(m, *map(m.lift, values))
    if isinstance(made, tuple):
        return tuple(m.settled(v) for v in made)
    return m.settled(made)
