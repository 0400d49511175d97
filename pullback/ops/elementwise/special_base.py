"""The family of special functions: one formula for both engines, computed in f64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pullback.graph.dtypes import DType, dtype, float32, float64
from pullback.graph.graph import Graph
from pullback.ops.elementwise.base import Elementwise, check_elementwise_kind
from pullback.ops.elementwise.error_functions import horner_series
from pullback.ops.elementwise.functions import both, cast, equal, greater, less, where
from pullback.ops.prelude import (
    TABLE,
    Composite,
    Node,
    Type,
    broadcast_types,
    interpret,
    op_functions,
    same_dtype,
)

sin, cos, rounded, floor = op_functions("Sin", "Cos", "Round", "Floor")
(log1p,) = op_functions("Log1p")
# (atanh(r) / r - 1) / r**2 as a polynomial in r**2, for |r| <= 1/3
ATANH_REST = (
    0.3333333333333333, 0.1999999999999976, 0.1428571428580071, 0.11111111099035531,
    0.09090909954214577, 0.07692271793624882, 0.06667593442767027, 0.05867083931047704,
    0.054230401748138014, 0.037440533573059064, 0.0781911746712093,
)  # fmt: skip


class SharedFormula(Elementwise, abstract=True):
    """`expand` is the meaning in both engines. `points` are the samples: a tuple of numbers for
    each operand."""

    kinds = "f"
    cheap = False
    singular = True
    half_as = float32
    points: ClassVar[tuple[tuple[float, ...], ...]]

    def numpy(self, *xs: np.ndarray) -> np.ndarray:
        kind = self.computed_in(dtype(xs[0].dtype))
        wide = [x.astype(kind.numpy) for x in xs]
        inputs = [TABLE["Input"](f"x{i}", x.shape, kind)() for i, x in enumerate(wide)]
        with np.errstate(all="ignore"):
            return interpret(Graph(inputs, (self.expand(*inputs),)), wide)[0].astype(xs[0].dtype)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), tuple([np.array(p) for p in cls.points])


class SpecialFunction(SharedFormula, abstract=True):
    """A shared formula whose sums need more digits than f32 has: it is computed in f64."""

    def computed_in(self, dtype: DType) -> DType:
        return float64


class SpecialComposite(Composite, abstract=True):
    """A formula of broadcasting floats that is computed in f64 and differentiated as it is."""

    points: ClassVar[tuple[tuple[float, ...], ...]]

    def infer(self, *xs: Type) -> Type:
        kind = same_dtype(self.title, *xs)
        check_elementwise_kind(kind, "f")
        return Type(broadcast_types(*xs), kind)

    def expand(self, *xs: Node) -> Node:
        shape = broadcast_types(*[x.type for x in xs])
        wide = [cast(x, float64) for x in xs]
        wide = [x if x.type.shape == shape else TABLE["Broadcast"](shape)(x) for x in wide]
        return cast(self.formula(*wide), xs[0].type.dtype)

    def formula(self, *xs: Node) -> Node:
        """Return the value for f64 operands of the same shape."""
        raise AssertionError(f"{self.name} states no formula")

    @classmethod
    def samples(cls) -> Any:
        yield cls(), tuple([np.array(p) for p in cls.points])


class Rational(NamedTuple):
    """A quotient of polynomials, constant coefficients first."""

    above: Sequence[float]
    below: Sequence[float]

    def at(self, x: Node) -> Node:
        """Return its value."""
        return horner_series(self.above, x) / horner_series(self.below, x)


def together(f: Callable[[Node], Node], *xs: Node) -> list[Node]:
    """Apply a long formula to several operands by applying it once to all: it compiles faster."""
    shape = broadcast_types(*[x.type for x in xs])
    rows = [x if x.type.shape == shape else TABLE["Broadcast"](shape)(x) for x in xs]
    made = f(TABLE["Concat"](0)(*[TABLE["Reshape"]((1, *shape))(x) for x in rows]))
    rest = (0,) * len(shape)
    return [
        TABLE["Reshape"](shape)(
            TABLE["Slice"]((i, *rest), (i + 1, *shape), (1,) * (1 + len(shape)))(made)
        )
        for i in range(len(xs))
    ]


def column(x: Node) -> Node:
    """Add a last dimension, along which the nodes of a quadrature broadcast."""
    return TABLE["Reshape"]((*x.type.shape, 1))(x)


def vector(values: np.ndarray) -> Node:
    """Return an array as a constant."""
    return TABLE["Const"](dtype(values.dtype), values.shape, values.tobytes())()


def half_line(step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of the doubly exponential quadrature on [0, inf), for functions that
    decay on a scale of 1."""
    t = np.arange(-3.5, 4.5, step)
    nodes = np.exp(t - np.exp(-t))
    return nodes, step * nodes * (1 + np.exp(-t))


def from_integer(x: Node) -> Node:
    """Return x minus the nearest integer: circular functions of pi x change at most their sign."""
    return where(equal(x, 0), x, x - rounded(x))  # at -0.0 the pole has the other sign


def is_odd(n: Node) -> Node:
    """Return where an integer is odd."""
    return equal(n - floor(n * 0.5) * 2, 1)


def sine_of_pi(x: Node) -> Node:
    """Return sin(pi x), exact at integers."""
    size = sin(from_integer(x) * np.pi)
    return where(is_odd(rounded(x)), 0 - size, size)  # 0.0 at odd integers


def cosine_of_pi(x: Node) -> Node:
    """Return cos(pi x)."""
    size = cos(from_integer(x) * np.pi)
    return where(is_odd(rounded(x)), -size, size)


def log1p_minus(x: Node) -> Node:
    """Return log(1 + x) - x, without cancellation near 0."""
    ratio = x / (x + 2)  # log(1 + x) is 2 atanh(ratio), and 2 ratio - x is -ratio x
    square = ratio * ratio
    near = ratio * (square * 2 * horner_series(ATANH_REST, square) - x)
    return where(both(greater(x, -0.5), less(x, 1)), near, log1p(x) - x)


def exp_series(x: Node, factor: float = 1.0) -> Node:
    """Return factor * exp(x) for |x| < 0.05, by its power series."""
    return horner_series([factor / math.factorial(k) for k in range(9)], x)
