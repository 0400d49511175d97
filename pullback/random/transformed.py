"""Distributions that are functions of a uniform, normal or exponential number.

They are differentiable with respect to their parameters. Everything is computed in f64 and then
rounded.
"""

from __future__ import annotations

import math

import numpy as np

from pullback.functions.arithmetic import reciprocal, sqrt
from pullback.functions.where_take import where
from pullback.graph.dtypes import float64
from pullback.lazy.record import at_one_line, record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.random.exact import ExactExp, ExactLog, WaldSample
from pullback.ops.random.sampling import RandomExponential, RandomNormal, RandomUniform
from pullback.random.arguments import float_dtype_argument, key_of, require_parameter
from pullback.random.gamma_family import exact_number, require_positive, rounded, spread_parameters
from pullback.random.keys import split
from pullback.typing import ArrayLike, DTypeLike, Shape


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return exponentials of normal numbers with standard deviation `sigma`, differentiable in it.

    >>> pb.random.lognormal(pb.random.key(0), [0.0, 1.0]).tolist()
    [1.0, 1.7715792655944824]
    """
    op = "random.lognormal"
    wanted = float_dtype_argument(op, dtype, sigma)
    node = key_of(op, key)
    require_parameter(op, lambda s: s >= 0, "sigma must not be negative", sigma)
    with at_one_line():
        (spread,) = spread_parameters(op, shape, sigma)
        normal = record(RandomNormal(spread.shape, float64), (node,))
        return rounded(record(ExactExp(), ((normal * spread)._node,)), wanted)


def pareto(
    key: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the Pareto distribution on [1, inf) with shape `b`, differentiable in `b`.

    >>> pb.random.pareto(pb.random.key(0), [1.0, 10.0]).tolist()
    [1.1948655843734741, 1.0874073505401611]
    """
    op = "random.pareto"
    wanted = float_dtype_argument(op, dtype, b)
    node = key_of(op, key)
    require_positive(op, b=b)
    with at_one_line():
        (shapes,) = spread_parameters(op, shape, b)
        energy = record(RandomExponential(shapes.shape, float64), (node,)) * reciprocal(shapes)
        return rounded(_where_positive(shapes, record(ExactExp(), (energy._node,))), wanted)


def rayleigh(
    key: ArrayLike, scale: ArrayLike = 1.0, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples of the Rayleigh distribution, differentiable in `scale`.

    >>> pb.random.rayleigh(pb.random.key(0), [1.0, 10.0]).tolist()
    [0.5967138409614563, 12.945754051208496]
    """
    op = "random.rayleigh"
    wanted = float_dtype_argument(op, dtype, scale)
    node = key_of(op, key)
    require_parameter(op, lambda s: s >= 0, "scale must not be negative", scale)
    with at_one_line():
        (factor,) = spread_parameters(op, shape, scale)
        energy = record(RandomExponential(factor.shape, float64), (node,))
        return rounded(factor * sqrt(energy * exact_number(2.0)), wanted)


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples of the Weibull distribution, differentiable with respect to both parameters.

    >>> pb.random.weibull_min(pb.random.key(0), 2.0, [0.5, 1.0, 5.0]).tolist()
    [0.06339199095964432, 1.675925612449646, 1.1812753677368164]
    """
    op = "random.weibull_min"
    wanted = float_dtype_argument(op, dtype, scale, concentration)
    node = key_of(op, key)
    require_positive(op, scale=scale, concentration=concentration)
    with at_one_line():
        factor, power = spread_parameters(op, shape, scale, concentration)
        energy = record(RandomExponential(factor.shape, float64), (node,))
        logs = record(ExactLog(), (energy._node,)) * reciprocal(power)
        unit = _where_positive(power, record(ExactExp(), (logs._node,)))
        return rounded(factor * unit, wanted)


def _where_positive(parameter: Tensor, x: Tensor) -> Tensor:
    """Return x where the parameter is valid, NaN elsewhere."""
    return where(parameter > exact_number(0.0), x, exact_number(math.nan))


def triangular(
    key: ArrayLike, left: ArrayLike, mode: ArrayLike, right: ArrayLike,
    shape: Shape | None = None, dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples in [left, right] whose density rises to `mode` and then falls, both linearly.

    They are differentiable with respect to all three parameters.

    >>> pb.random.triangular(pb.random.key(0), 0.0, 1.0, 5.0, (2,)).tolist()
    [1.5895956754684448, 1.0409482717514038]
    """
    op = "random.triangular"
    wanted = float_dtype_argument(op, dtype, left, mode, right)
    node = key_of(op, key)

    def ordered(left: np.ndarray, mode: np.ndarray, right: np.ndarray) -> np.ndarray:
        return (left <= mode) & (mode <= right) & (left < right)

    must = "left <= mode <= right and left < right must hold"
    require_parameter(op, ordered, must, left, mode, right)
    with at_one_line():
        a, c, b = spread_parameters(op, shape, left, mode, right)
        u = record(RandomUniform(a.shape, float64), (node,))
        whole, rising, falling = b - a, c - a, b - c
        below = u * whole < rising
        half = exact_number(0.5)  # in place of the numbers for the other side
        up = sqrt(where(below, u, half) * (whole * rising))
        down = sqrt((exact_number(1.0) - where(below, half, u)) * (whole * falling))
        return rounded(where(below, a + up, b - down), wanted)


def wald(
    key: ArrayLike, mean: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the inverse Gaussian distribution with shape 1, differentiable in `mean`.

    >>> pb.random.wald(pb.random.key(0), [0.1, 10.0]).tolist()
    [0.04208780452609062, 1.6386469602584839]
    """
    op = "random.wald"
    wanted = float_dtype_argument(op, dtype, mean)
    node = key_of(op, key)
    require_positive(op, mean=mean)
    with at_one_line():
        (means,) = spread_parameters(op, shape, mean)
        keys = split(wrap(node))
        normal = record(RandomNormal(means.shape, float64), (keys[0]._node,))
        uniform = record(RandomUniform(means.shape, float64), (keys[1]._node,))
        nodes = (normal._node, uniform._node, means._node)
        return rounded(record(WaldSample(), nodes), wanted)
