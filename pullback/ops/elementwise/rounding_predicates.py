"""Rounding to integers and predicates on floats; their derivatives are 0."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import bool_
from pullback.ops.elementwise.elementwise import Unary, zero_elementwise_partials
from pullback.ops.prelude import Imported, Type
from pullback.ops.samples import real

HARD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 2.0, -3.0, 1e30])


class Rounding(Unary, abstract=True):
    """Rounds floats to integral values; integers are unchanged."""

    kinds = "iuf"
    partials = zero_elementwise_partials

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x if x.dtype.kind in "iu" else np.asarray(type(self).ufunc(x))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return x if x.dtype.is_integer else self.round(b, out, x)

    def round(self, b: Any, out: Type, x: Any) -> Any:
        return b.op(f"stablehlo.{self.stablehlo}", x, out=out)

    @classmethod
    def samples(cls) -> Any:
        for x in (real(7, low=-2.1, high=2.3), real(), real(0, 2)):
            yield cls(), (x,)


class Floor(Rounding):
    """The largest integer that is not greater than the operand."""

    ufunc, stablehlo = np.floor, "floor"


class Ceil(Rounding):
    """The smallest integer that is not less than the operand."""

    ufunc, stablehlo = np.ceil, "ceil"


class Round(Rounding):
    """The nearest integer; halves are rounded to the even one."""

    ufunc, stablehlo = np.rint, "round_nearest_even"


class Trunc(Rounding):
    """The operand without its fraction."""

    ufunc = np.trunc

    def round(self, b: Any, out: Type, x: Any) -> Any:
        up, down = (b.op(f"stablehlo.{name}", x, out=out) for name in ("ceil", "floor"))
        return b.select(b.compare("LT", x, b.full(out, 0)), up, down)


class FloatPredicate(Unary, abstract=True):
    """A predicate on each element. Integers are finite; both parts of a complex number count."""

    kinds = "biufc"
    predicate = True
    partials = zero_elementwise_partials
    of_integer: ClassVar[bool] = False
    of_parts: ClassVar[str] = "or"  # how the results for real and imaginary part are combined

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if x.dtype.is_complex:
            part = Type(x.shape, x.dtype.real)
            answers = [self.ask(b, b.op(f"stablehlo.{p}", x, out=part)) for p in ("real", "imag")]
            return b.op(f"stablehlo.{self.of_parts}", *answers, out=out)
        return self.ask(b, x) if x.dtype.is_float else b.full(out, self.of_integer)

    @abstractmethod
    def ask(self, b: Any, x: Any) -> Any:
        """Write the predicate for a real operand."""

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (HARD,)
        yield cls(), (real(2, 3),)
        with np.errstate(over="ignore"):
            short = HARD.astype(np.float16)
        yield cls(), (short,)
        parts = np.array([1.0, np.nan, np.inf, 2.0, -np.inf])
        yield cls(), (np.array([complex(a, b) for a, b in zip(parts, parts[::-1], strict=True)]),)


class IsFinite(FloatPredicate):
    """Whether the operand is neither infinite nor NaN."""

    ufunc = np.isfinite
    of_integer = True
    of_parts = "and"
    imported = Imported(("is_finite",))

    def ask(self, b: Any, x: Any) -> Any:
        return b.op("stablehlo.is_finite", x, out=Type(x.shape, bool_))


class IsNan(FloatPredicate):
    """Whether the operand is NaN."""

    ufunc = np.isnan

    def ask(self, b: Any, x: Any) -> Any:
        return b.compare("NE", x, x)


class IsInf(FloatPredicate):
    """Whether the operand is infinite, of either sign."""

    ufunc = np.isinf

    def ask(self, b: Any, x: Any) -> Any:
        return b.compare("EQ", b.op("stablehlo.abs", x, out=x.type), b.full(x.type, np.inf))
