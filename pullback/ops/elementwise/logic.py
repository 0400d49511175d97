"""Comparisons and logic; results are bool."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pullback.ops.elementwise.elementwise import Binary, Unary, zero_elementwise_partials
from pullback.ops.prelude import Imported, Type
from pullback.ops.samples import boolean_samples, real


class Comparison(Binary, abstract=True):
    """Compares two operands of the same dtype; NaN is unequal to everything, also itself."""

    kinds = "biuf"
    predicate = True
    direction: ClassVar[str]
    imported = Imported(("compare",))
    partials = zero_elementwise_partials

    @classmethod
    def from_hlo(cls, i: Any) -> Any:
        return cls() if i["comparison_direction"] == cls.direction else None

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return b.compare(self.direction, x, y)

    @classmethod
    def samples(cls) -> Any:
        some = np.array([1.0, 2.0, 3.0, 0.0, -1.0])
        yield cls(), (some, some[::-1].copy())
        yield cls(), (real(2, 1), real(3, salt=1))
        hard = np.array([np.nan, 1.0, np.inf, -np.inf, 0.0, -0.0])
        yield cls(), (hard[:, None], hard)
        yield cls(), (boolean_samples(4), boolean_samples(4, salt=1))
        yield cls(), (real(0, 2), real())


class Equal(Comparison):
    """x == y."""

    ufunc, direction = np.equal, "EQ"
    kinds = "biufc"
    commutative = True


class NotEqual(Comparison):
    """x != y."""

    ufunc, direction = np.not_equal, "NE"
    kinds = "biufc"
    commutative = True


class Less(Comparison):
    """x < y."""

    ufunc, direction = np.less, "LT"


class LessEqual(Comparison):
    """x <= y."""

    ufunc, direction = np.less_equal, "LE"


class Greater(Comparison):
    """x > y."""

    ufunc, direction = np.greater, "GT"


class GreaterEqual(Comparison):
    """x >= y."""

    ufunc, direction = np.greater_equal, "GE"


class Logical(Binary, abstract=True):
    """Combines two bool operands."""

    kinds = "b"
    commutative = True
    partials = zero_elementwise_partials

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (boolean_samples(2, 8), boolean_samples(8, salt=1))
        yield cls(), (boolean_samples(), boolean_samples(0, 3))


class LogicalAnd(Logical):
    """Whether both operands are true."""

    ufunc, stablehlo = np.logical_and, "and"


class LogicalOr(Logical):
    """Whether at least one operand is true."""

    ufunc, stablehlo = np.logical_or, "or"


class LogicalXor(Logical):
    """Whether exactly one operand is true."""

    ufunc, stablehlo = np.logical_xor, "xor"


class LogicalNot(Unary):
    """Whether the operand is false."""

    ufunc, stablehlo = np.logical_not, "not"
    kinds = "b"
    partials = zero_elementwise_partials

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (boolean_samples(5),)
        yield cls(), (boolean_samples(),)
