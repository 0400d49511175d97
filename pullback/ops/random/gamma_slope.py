"""The derivative of a quantile of the gamma distribution with respect to the shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import DType, dtype, float64
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import cast, less, where
from pullback.ops.prelude import TABLE, Composite, Node, Type, batch_along, op_functions, same_dtype
from pullback.ops.samples import positive, real

exp, expm1, log, log1p, sqrt = op_functions("Exp", "Expm1", "Log", "Log1p", "Sqrt")
minimum, digamma, reciprocal = op_functions("Minimum", "Digamma", "Reciprocal")
(stop_gradient,) = op_functions("StopGradient")


class GammaSlope(Composite):
    """dx/da for the x that keeps F(x; a), the gamma distribution function, constant.

    It is -F_a / F_x. With t for the integration variable and psi for the digamma function, F_a is
    the integral of (log t - psi(a)) t**(a-1) exp(-t) / gamma(a) from 0 to x, or minus that from x
    to infinity; the smaller tail is used. The quadrature on the half-line is doubly exponential;
    its scale does not affect the result and is held constant. The slope consists of differentiable
    ops, so it has derivatives of any order.
    """

    kinds = "f"
    batch = batch_along

    def infer(self, a: Type, x: Type) -> Type:
        if self.kinds:
            check_elementwise_kind(same_dtype(self.title, a, x), self.kinds)
        if a.shape != x.shape:
            raise ShapeError(f"operands must have the same shape, got {a} and {x}", code="E3001")
        return x

    def expand(self, a: Node, x: Node) -> Node:
        given = x.type
        a, x = (_gamma_slope_column(cast(v, float64)) for v in (a, x))
        total = _gamma_slope_of_log(a, x, None, given)
        return cast(TABLE["Reshape"](given.shape)(x) * total, given.dtype)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(6), positive(6, salt=1))
        yield cls(), (positive(2, 3), positive(2, 3, salt=1))
        yield cls(), (np.array(40.0), np.array(38.0))
        yield cls(), (positive(0, 2), positive(0, 2))
        yield cls(), (real(4, low=0.02, high=0.1), real(4, salt=1, low=0.001, high=0.3))


class LogGammaSlope(GammaSlope):
    """The same for the logarithm y = log(x) in f64, also where x is too small for it: dy/da."""

    kinds = ""

    def infer(self, a: Type, x: Type) -> Type:
        if same_dtype(self.title, a, x) is not float64:
            raise DTypeError(f"operands must be f64, got {a} and {x}", code="E2005")
        return super().infer(a, x)

    def expand(self, a: Node, y: Node) -> Node:  # type: ignore[override]
        given = y.type
        a, y = (_gamma_slope_column(cast(v, float64)) for v in (a, y))
        return cast(_gamma_slope_of_log(a, exp(y), y, given), given.dtype)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(6), real(6, salt=1))
        yield cls(), (np.array(40.0), np.array(3.6))
        yield cls(), (real(2, 2, low=0.02, high=0.1), real(2, 2, salt=1, low=-900.0, high=-3.0))


def _gamma_slope_of_log(a: Node, x: Node, log_x: Node | None, given: Type) -> Node:
    """Return the derivative of log(x), for columns a, x and log(x) if that is known."""
    nodes, weights = _slope_quadrature(given.dtype)
    psi, below = digamma(a), less(x, a)
    # Each side is computed where it is used, and at x = a elsewhere.
    left, right = where(below, x, a), where(below, a, x)
    log_left = log(left) if log_x is None else where(below, log_x, log(a))
    lower = _gamma_slope_lower(a, left, log_left, psi, nodes) * weights
    upper = _gamma_slope_upper(a, right, psi, nodes) * weights
    return TABLE["Sum"]((given.rank,), False)(where(below, -lower, upper))


def _gamma_slope_lower(a: Node, x: Node, log_x: Node, psi: Node, nodes: Node) -> Node:
    """Return the integral from 0 to x, with t = x exp(-y), divided by x**a exp(-x)."""
    scale = stop_gradient(reciprocal((a - x) + minimum(x, sqrt(x))))
    y = scale * nodes
    return (log_x - y - psi) * exp(-(a * y) - x * expm1(-y)) * scale


def _gamma_slope_upper(a: Node, x: Node, psi: Node, nodes: Node) -> Node:
    """Return the integral from x to infinity, with t = x + v, divided by x**a exp(-x)."""
    scale = stop_gradient(reciprocal((x - a) / x + reciprocal(sqrt(x) + 1)))
    v = scale * nodes
    return (log(x + v) - psi) * exp(a * log1p(v / x) - v) / (x + v) * scale


def _gamma_slope_column(x: Node) -> Node:
    """Add a dimension along which the nodes of the quadrature broadcast."""
    return TABLE["Reshape"]((*x.type.shape, 1))(x)


def _slope_quadrature(wanted: DType) -> tuple[Node, Node]:
    """Return nodes and weights for functions that decay on a scale of 1, as precise as a dtype."""
    step = 1 / 8 if wanted is float64 else 1 / 4
    t = np.arange(-3.5, 4.5, step)
    nodes = np.exp(t - np.exp(-t))
    return _slope_vector(nodes), _slope_vector(step * nodes * (1 + np.exp(-t)))


def _slope_vector(values: np.ndarray) -> Node:
    return TABLE["Const"](dtype(values.dtype), values.shape, values.tobytes())()
