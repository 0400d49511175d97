"""Products and quotients that are 0 where the first operand is 0, whatever the other is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ops.elementwise.arithmetic import Mul
from pullback.ops.elementwise.base import Binary, Over, total
from pullback.ops.elementwise.division import Div, Reciprocal
from pullback.ops.elementwise.functions import divided, either, guarded, not_equal, where
from pullback.ops.prelude import Node, Type, op_functions

(is_finite,) = op_functions("IsFinite")


class Guarded(Binary, abstract=True):
    """The same as `unguarded`, but 0 where the first operand is 0."""

    kinds = "fc"
    singular = True
    unguarded: ClassVar[Binary]

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(x == 0, np.zeros((), x.dtype), self.unguarded.numpy(x, y))

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        zero = b.full(out, 0)
        return b.select(b.compare("EQ", x, zero), zero, self.unguarded.lower(b, out, x, y))


class MulNoNan(Guarded):
    """x * y, but 0 where x is 0, whatever y is.

    A rule multiplies its cotangent by a partial derivative that may be infinite: where the
    cotangent is 0, as in the branch that `where` did not take, the product is 0 and not NaN.
    Its derivatives are those of a plain product, and 0 where x is 0 and y is not finite. A rule
    with infinite partials uses no plain products of them either, so this holds at any order.
    """

    unguarded = Mul()

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        def finite() -> Node:
            return where(either(not_equal(x, 0), is_finite(y)), y, 0)

        return (finite, x)

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        (x, y), (tx, ty) = xs, ts
        # the tangent of y may be infinite where x is 0: here x is the one that guards
        terms = [None if tx is None else guarded(tx, y), None if ty is None else guarded(x, ty)]
        return total(terms, out.type)


class DivNoNan(Guarded):
    """x / y, but 0 where x is 0, whatever y is; see MulNoNan."""

    domains = ((-2.0, 2.0), (0.5, 2.0))
    unguarded = Div()

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        def finite() -> Over:
            inside = either(not_equal(x, 0), is_finite(Reciprocal()(y)))
            return Over(1, where(inside, y, np.inf))

        return (finite, lambda: Over(-out, y))

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        (_, y), (tx, ty) = xs, ts
        # the tangent of y may be infinite where x is 0: here x is the one that guards
        of_x = None if tx is None else divided(tx, y)
        of_y = None if ty is None else divided(guarded(-out, ty), y)
        return total([of_x, of_y], out.type)
