"""Arithmetic that rounds every operation separately, the same to the last bit in every engine.

A formula is written once with NumPy's operators and is evaluated by NumPy (`NUMPY`) or lowered to
StableHLO (`StepwiseHlo`). XLA may round `x * y + z` once where NumPy rounds twice, and combines
constants in products and sums. A comparison with a limit that is never reached prevents both:
`select(p < limit, p, limit)`, one instruction on every machine. Functions such as `log`, whose last
bit differs between libraries, are not available; `sampler_formulas.py` has those that samplers
need. There is no division: see `__rtruediv__`.

Rounded equally everywhere are f32 and f64 sums, differences and products, f64 reciprocals and
square roots (GPUs have faster ones in f32), conversions, and integer arithmetic. Values must stay
below the limit, unless handled as `unbounded` for two more instructions, and must not be subnormal:
XLA flushes these to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from pullback.graph.dtypes import DType, dtype

LIMIT = {32: 2.0**100, 64: 2.0**1000}  # of magnitudes, by the number of bits

# How a value was computed, as far as compilers rewrite it together with its users: a product in a
# sum is contracted, and constants in chains of sums or of products are combined.
PLAIN, SUM, PRODUCT = "plain", "sum", "product"

# The functions of formulas, besides operators, in NumPy.
NUMPY = SimpleNamespace(
    where=np.where,
    sqrt=np.sqrt,
    convert=lambda x, to: x.astype(to.numpy),
    bitcast=lambda x, to: x.view(to.numpy),
)


class StepwiseHlo:
    """The same in StableHLO: `lift` wraps a value for formulas, `isolated` unwraps a result."""

    def __init__(self, b: Any, unbounded: bool = False) -> None:
        self.b, self.unbounded = b, unbounded

    def lift(self, value: Any) -> StepwiseValue:
        return StepwiseValue(self, value)

    def isolated(self, x: StepwiseValue) -> Any:
        return x.isolated().value

    def where(self, condition: StepwiseValue, x: Any, y: Any) -> StepwiseValue:
        given = x if isinstance(x, StepwiseValue) else y
        x, y = given.like(x).isolated(), given.like(y).isolated()
        return self.lift(self.b.select(condition.value, x.value, y.value))

    def convert(self, x: StepwiseValue, to: DType) -> StepwiseValue:
        return self.lift(self.b.convert(self.isolated(x), to))

    def bitcast(self, x: StepwiseValue, to: DType) -> StepwiseValue:
        value = self.isolated(x)
        out = value.type.with_dtype(to)
        return self.lift(self.b.op("stablehlo.bitcast_convert", value, out=out))

    def sqrt(self, x: StepwiseValue) -> StepwiseValue:
        value = self.isolated(x)
        return StepwiseValue(self, self.b.op("stablehlo.sqrt", value, out=value.type), PRODUCT)


def _stepwise_integer(name: str) -> Callable[[StepwiseValue, Any], StepwiseValue]:
    """Return an operator on integers, which are exact whatever a compiler does."""

    def apply(self: StepwiseValue, other: Any) -> StepwiseValue:
        return self._made(name, self, self.like(other))

    return apply


def _stepwise_sum(name: str, swap: bool = False) -> Callable[[StepwiseValue, Any], StepwiseValue]:
    def apply(self: StepwiseValue, other: Any) -> StepwiseValue:
        x, y = self.isolated(), self.like(other).isolated()
        return self._made(name, *((y, x) if swap else (x, y)), SUM)

    return apply


def _stepwise_comparison(direction: str) -> Callable[[StepwiseValue, Any], StepwiseValue]:
    def apply(self: StepwiseValue, other: Any) -> StepwiseValue:
        x, y = self.isolated(), self.like(other).isolated()
        return self.m.lift(self.m.b.compare(direction, x.value, y.value))

    return apply


class StepwiseValue:
    """A value of a StableHLO program, with operators that round separately."""

    __slots__ = ("kind", "m", "value")

    def __init__(self, m: StepwiseHlo, value: Any, kind: str = PLAIN) -> None:
        self.m, self.value, self.kind = m, value, kind

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype.numpy

    def like(self, other: Any) -> StepwiseValue:
        """Return an operand; a number becomes a constant of this value's type."""
        return other if isinstance(other, StepwiseValue) else self.m.lift(self._full(other))

    def _full(self, number: Any) -> Any:
        return self.m.b.full(self.value.type, number)

    def isolated(self) -> StepwiseValue:
        """Return the value behind a comparison, so that compilers cannot fuse its computation."""
        if self.kind == PLAIN or not self.value.dtype.is_float:
            return self
        b, limit = self.m.b, self._full(LIMIT[self.value.dtype.bits])
        below = b.compare("LT", self.value, limit)
        other = limit
        if self.m.unbounded:  # adding 1 changes neither larger numbers nor NaN
            other = b.op("stablehlo.add", self.value, self._full(1), out=self.value.type)
        return self.m.lift(b.select(below, self.value, other))

    def _made(
        self, name: str, x: StepwiseValue, y: StepwiseValue, kind: str = PLAIN
    ) -> StepwiseValue:
        made = self.m.b.op(f"stablehlo.{name}", x.value, y.value, out=x.value.type)
        return StepwiseValue(self.m, made, kind)

    __add__, __sub__ = _stepwise_sum("add"), _stepwise_sum("subtract")
    __radd__, __rsub__ = _stepwise_sum("add", swap=True), _stepwise_sum("subtract", swap=True)

    def __mul__(self, other: Any) -> StepwiseValue:
        x, y = (v if v.kind == SUM else v.isolated() for v in (self, self.like(other)))
        return self._made("multiply", x, y, PRODUCT)

    __rmul__ = __mul__

    def __rtruediv__(self, one: float) -> StepwiseValue:
        """Return the reciprocal, which formulas multiply by: XLA may do so for a division too."""
        if one != 1:
            raise TypeError("a formula cannot divide: multiply by the reciprocal 1.0 / x")
        return self._made("divide", self.like(one), self.isolated(), PRODUCT)

    def __neg__(self) -> StepwiseValue:
        value = self.m.b.op("stablehlo.negate", self.value, out=self.value.type)
        return StepwiseValue(self.m, value, self.kind)

    def __invert__(self) -> StepwiseValue:
        return self.m.lift(self.m.b.op("stablehlo.not", self.value, out=self.value.type))

    __and__, __or__, __xor__ = (
        _stepwise_integer("and"),
        _stepwise_integer("or"),
        _stepwise_integer("xor"),
    )
    __lshift__ = _stepwise_integer("shift_left")

    def __rshift__(self, other: Any) -> StepwiseValue:
        kind = "arithmetic" if self.value.dtype.kind == "i" else "logical"
        return self._made(f"shift_right_{kind}", self, self.like(other))

    __lt__, __le__ = _stepwise_comparison("LT"), _stepwise_comparison("LE")
    __gt__, __ge__ = _stepwise_comparison("GT"), _stepwise_comparison("GE")


def stepwise_sibling(x: Any, kind: str) -> DType:
    """Return the dtype of another kind with as many bits: i32 for f32."""
    return dtype(f"{kind}{stepwise_bits(x)}")


def stepwise_bits(x: Any) -> int:
    return 8 * x.dtype.itemsize


def lifted_stepwise(b: Any, f: Callable, *values: Any, unbounded: bool = False) -> Any:
    """Lower a formula `f(machine, *values)` to StableHLO."""
    m = StepwiseHlo(b, unbounded)
    made = f(m, *map(m.lift, values))
    return tuple(map(m.isolated, made)) if isinstance(made, tuple) else m.isolated(made)
