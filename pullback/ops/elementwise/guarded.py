"""Products and quotients in which 0 wins: 0 times infinity is 0."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import bool_
from pullback.ops.elementwise.arithmetic import Mul
from pullback.ops.elementwise.division import Div, Reciprocal
from pullback.ops.elementwise.elementwise import Binary, ElementwiseQuotient
from pullback.ops.elementwise.functions import either, not_equal, where
from pullback.ops.elementwise.rounding_predicates import IsInf
from pullback.ops.prelude import Node, Type, op_functions

(is_finite,) = op_functions("IsFinite")


class Guarded(Binary, abstract=True):
    """The same as `unguarded`, but 0 where x is 0, or the other factor is 0 and x is not NaN."""

    kinds = "fc"
    singular = True
    unguarded: ClassVar[Binary]

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        zero = (x == 0) | (self.vanishes(y) & (x == x))
        return np.where(zero, np.zeros((), x.dtype), self.unguarded.numpy(x, y))

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        zero = b.full(out, 0)
        first, second = b.compare("EQ", x, zero), self.lower_vanishes(b, y)
        second = b.op("stablehlo.and", second, b.compare("EQ", x, x), out=first.type)
        vanishes = b.op("stablehlo.or", first, second, out=first.type)
        return b.select(vanishes, zero, self.unguarded.lower(b, out, x, y))

    @abstractmethod
    def vanishes(self, y: np.ndarray) -> np.ndarray:
        """Return where the factor that the second operand stands for is 0, in NumPy."""

    @abstractmethod
    def lower_vanishes(self, b: Any, y: Any) -> Any:
        """Write the same in StableHLO."""


class MulNoNan(Guarded):
    """x * y, but 0 where x is 0, whatever y is, and where y is 0, unless x is NaN.

    A rule multiplies its cotangent by a partial derivative that may be infinite: where the
    cotangent is 0, as in the branch that `where` did not take, the product is 0 and not NaN; and
    where the partial is 0, as for the operand that `maximum` did not take, an infinite cotangent
    does not matter. A cotangent of NaN, which tells that something went wrong, is kept. Its
    derivatives are those of a plain product, and 0 where one factor is 0 and the other is not
    finite. A rule with infinite partials uses no plain products of them either, so this holds at
    any order.
    """

    unguarded = Mul()

    def vanishes(self, y: np.ndarray) -> np.ndarray:
        return y == 0

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        if b.is_definite_product(x, y):
            return self.unguarded.lower(b, out, x, y)
        return super().lower(b, out, x, y)

    def lower_vanishes(self, b: Any, y: Any) -> Any:
        return b.compare("EQ", y, b.full(y.type, 0))

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        def finite(d: Node, other: Node) -> Node:
            return where(either(not_equal(other, 0), is_finite(d)), d, 0)

        return (lambda: finite(y, x), lambda: finite(x, y))


class DivNoNan(Guarded):
    """x / y, but 0 where x is 0, and where y is infinite, unless x is NaN; see MulNoNan."""

    domains = ((-2.0, 2.0), (0.5, 2.0))
    unguarded = Div()

    def vanishes(self, y: np.ndarray) -> np.ndarray:
        return np.isinf(y)

    def lower_vanishes(self, b: Any, y: Any) -> Any:
        return IsInf().lower(b, y.type.with_dtype(bool_), y)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        def finite() -> ElementwiseQuotient:
            inside = either(not_equal(x, 0), is_finite(Reciprocal()(y)))
            return ElementwiseQuotient(1, where(inside, y, np.inf))

        return (finite, lambda: ElementwiseQuotient(-out, y))
