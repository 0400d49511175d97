"""How a quantile of the gamma distribution moves with the distribution's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import DType, dtype, float64
from pullback.ops.elementwise.base import cast, check_kind, less, where
from pullback.ops.prelude import (
    TABLE,
    Axis,
    Composite,
    Node,
    Type,
    op_functions,
    same_dtype,
    spread_all,
)
from pullback.ops.samples import positive, real

exp, expm1, log, log1p, sqrt = op_functions("Exp", "Expm1", "Log", "Log1p", "Sqrt")
minimum, digamma, reciprocal = op_functions("Minimum", "Digamma", "Reciprocal")
(still,) = op_functions("StopGradient")


class GammaSlope(Composite):
    """The derivative by a of the number x that keeps F(x; a), the gamma distribution, the same.

    It is -F_a / F_x. With t for the integration variable and psi for the digamma function, F_a is
    the integral of (log t - psi(a)) t**(a-1) exp(-t) / gamma(a) from 0 to x, or minus that from x
    on; the side without the bulk is taken. The rule on the half-line puts its nodes doubly
    exponentially; its scale does not matter, and is held constant. Being made of plain operations,
    the slope has derivatives of any order.
    """

    kinds = "f"

    def infer(self, a: Type, x: Type) -> Type:
        check_kind(same_dtype(self.title, a, x), self.kinds)
        if a.shape != x.shape:
            raise ShapeError(f"operands must have one shape, got {a} and {x}", code="E3001")
        return x

    def expand(self, a: Node, x: Node) -> Node:
        given = x.type
        a, x = (_column(cast(v, float64)) for v in (a, x))
        nodes, weights = _rule(given.dtype)
        psi, below = digamma(a), less(x, a)
        # each side is computed where it is the one to take, and at x = a elsewhere
        left, right = where(below, x, a), where(below, a, x)
        lower = _lower(a, left, psi, nodes) * weights
        upper = _upper(a, right, psi, nodes) * weights
        total = TABLE["Sum"]((given.rank,), False)(where(below, -lower, upper))
        return cast(TABLE["Reshape"](given.shape)(x) * total, given.dtype)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*spread_all(axis, xs, mapped))

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(6), positive(6, salt=1))
        yield cls(), (positive(2, 3), positive(2, 3, salt=1))
        yield cls(), (np.array(40.0), np.array(38.0))
        yield cls(), (positive(0, 2), positive(0, 2))
        yield cls(), (real(4, low=0.02, high=0.1), real(4, salt=1, low=0.001, high=0.3))


def _lower(a: Node, x: Node, psi: Node, nodes: Node) -> Node:
    """The integral up to x, by t = x exp(-y), over x**a exp(-x)."""
    scale = still(reciprocal((a - x) + minimum(x, sqrt(x))))
    y = scale * nodes
    return (log(x) - y - psi) * exp(-(a * y) - x * expm1(-y)) * scale


def _upper(a: Node, x: Node, psi: Node, nodes: Node) -> Node:
    """The integral from x on, by t = x + v, over x**a exp(-x)."""
    scale = still(reciprocal((x - a) / x + reciprocal(sqrt(x) + 1)))
    v = scale * nodes
    return (log(x + v) - psi) * exp(a * log1p(v / x) - v) / (x + v) * scale


def _column(x: Node) -> Node:
    """With one more dimension, of which the nodes of the rule make many."""
    return TABLE["Reshape"]((*x.type.shape, 1))(x)


def _rule(wanted: DType) -> tuple[Node, Node]:
    """Nodes and weights for functions that decay on a scale of 1, with the digits of a type."""
    step = 1 / 8 if wanted is float64 else 1 / 4
    t = np.arange(-3.5, 4.5, step)
    nodes = np.exp(t - np.exp(-t))
    return _vector(nodes), _vector(step * nodes * (1 + np.exp(-t)))


def _vector(values: np.ndarray) -> Node:
    return TABLE["Const"](dtype(values.dtype), values.shape, values.tobytes())()
