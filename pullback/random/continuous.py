"""Continuous distributions, in every float dtype."""

from __future__ import annotations

import math
import operator

import numpy as np

from pullback.functions.arguments import literal_argument
from pullback.functions.arithmetic import reciprocal, sqrt
from pullback.functions.complex_parts import complex as complex_of
from pullback.functions.complex_parts import imag, real
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, float64
from pullback.graph.node import Node
from pullback.lazy.operators import NUMBERS, as_tensor, node_of, operator_number
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.random.affine import Affine
from pullback.ops.random.between import Between, NormalBetween
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.exact import ExactExp, ExactLog
from pullback.ops.random.sampling import (
    RandomCauchy,
    RandomExponential,
    RandomGumbel,
    RandomLaplace,
    RandomLogistic,
    RandomNormal,
    RandomUniform,
    Sampler,
)
from pullback.ops.random.wald import WaldSample
from pullback.random.arguments import (
    random_dtype_argument,
    random_key_argument,
    random_parameter_argument,
    require_positive_random_argument,
    require_random_argument,
    sample_shape_argument,
    spread_random_arguments,
)
from pullback.random.keys import split
from pullback.random.sample_dtypes import (
    number_in_sample_dtype,
    rounded_to_sample_dtype,
    sample_as_dtype,
    sample_computed_dtype,
)
from pullback.typing import ArrayLike, DTypeLike, Shape


def uniform(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0, *,
    low: ArrayLike | None = None, high: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return uniform samples in [minval, maxval), differentiable with respect to both bounds.

    `low` and `high` are other names of the bounds. The interval is divided into 2**24 steps, 2**53
    for f64. If no number of the dtype lies between the bounds, the result is the one next to
    minval.

    >>> pb.random.uniform(pb.random.key(0), (2,), minval=-1.0).tolist()
    [0.8953341245651245, 0.9571597576141357]
    """
    op = "random.uniform"
    minval, maxval = (a if b is None else b for a, b in ((minval, low), (maxval, high)))
    wanted = random_dtype_argument(op, dtype, minval, maxval)
    require_random_argument(op, operator.lt, "minval must be less than maxval", minval, maxval)
    node = random_key_argument(op, key)
    with record_at_one_line():
        wide = sample_computed_dtype(wanted)
        first, last = (random_parameter_argument(op, v, wide) for v in (minval, maxval))
        shape = sample_shape_argument(op, shape, first, last)
        if is_standard_continuous(minval, 0) and is_standard_continuous(maxval, 1):
            return record(RandomUniform(shape, wanted), (node,))

        def finite(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.isfinite(b.astype(wide.numpy) - a.astype(wide.numpy))

        require_random_argument(op, finite, "maxval - minval must be finite", minval, maxval)
        unit = record(RandomUniform(shape, wide), (node,))
        return record(Between(wanted), (unit._node, first, last))


def normal(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of a normal distribution, differentiable with respect to `loc` and `scale`.

    For a complex dtype, the real and imaginary parts each have half the variance.

    >>> pb.random.normal(pb.random.key(0), (2,)).tolist()
    [-0.1315576285123825, -0.053718023002147675]
    >>> def total(mean):
    ...     return pb.random.normal(pb.random.key(0), (4,), loc=mean).sum()
    >>> pb.grad(total)(1.0).item()
    4.0
    """
    op = "random.normal"
    wanted = random_dtype_argument(op, dtype, loc, scale, kinds="fc")
    node = random_key_argument(op, key)
    with record_at_one_line():
        if wanted.is_complex:
            return _complex_continuous_normal(op, node, shape, wanted, loc, scale)
        wide = sample_computed_dtype(wanted)
        factor, offset = (
            random_parameter_argument(op, scale, wide),
            random_parameter_argument(op, loc, wide),
        )
        shape = sample_shape_argument(op, shape, factor, offset)
        if is_standard_continuous(loc, 0) and is_standard_continuous(scale, 1):
            return record(RandomNormal(shape, wanted), (node,))
        unit = record(RandomNormal(shape, wide), (node,))
        return scaled_continuous(unit, factor, offset, wanted)


def scaled_continuous(x: Tensor, scale: Node, offset: Node, dtype: DType) -> Tensor:
    return sample_as_dtype(record(Affine(), (x._node, scale, offset)), dtype)


def _complex_continuous_normal(
    op: str, key: Node, shape: Shape | None, dtype: DType, loc: ArrayLike, scale: ArrayLike
) -> Tensor:
    part = dtype.real
    factor = wrap(random_parameter_argument(op, scale, part)) * literal_argument(
        math.sqrt(0.5), part
    )
    value = operator_number(loc)
    if type(value) in NUMBERS:
        offsets = [random_parameter_argument(op, v, part) for v in (value.real, value.imag)]
    else:
        center = as_tensor(value).astype(dtype)
        offsets = [node_of(real(center)), node_of(imag(center))]
    shape = sample_shape_argument(op, shape, factor._node, offsets[0])
    unit = record(RandomNormal((*shape, 2), part), (key,))
    units = unit[..., 0], unit[..., 1]
    pairs = zip(units, offsets, strict=True)
    return complex_of(*[scaled_continuous(x, factor._node, offset, part) for x, offset in pairs])


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return standard normal samples in [lower, upper], differentiable with respect to the bounds.

    Bounds may be arbitrarily far from 0. Where a tensor `lower` exceeds `upper`, the result is NaN.

    >>> pb.random.truncated_normal(pb.random.key(0), [-2.0, 40.0], [2.0, pb.inf]).tolist()
    [-0.19635199010372162, 40.00608825683594]
    """
    op = "random.truncated_normal"
    wanted = random_dtype_argument(op, dtype, lower, upper)
    require_random_argument(op, operator.lt, "lower must be less than upper", lower, upper)
    node = random_key_argument(op, key)
    with record_at_one_line():
        low, high = (random_parameter_argument(op, v, float64) for v in (lower, upper))
        shape = sample_shape_argument(op, shape, low, high)
        steps = (record(RandomBits(shape, 64), (node,)) >> 12).astype(float64)  # of 2**52
        unit = (steps + literal_argument(0.5, float64)) * literal_argument(2.0**-52, float64)
        samples = record(NormalBetween(), (unit._node, low, high))
        return sample_as_dtype(samples, wanted)


def exponential(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the exponential distribution with mean `scale`, differentiable in it.

    >>> pb.random.exponential(pb.random.key(0), (2,)).tolist()
    [0.11055822670459747, 0.04378489404916763]
    """
    op = "random.exponential"
    wanted = random_dtype_argument(op, dtype, scale)
    node = random_key_argument(op, key)
    require_random_argument(op, lambda scale: scale >= 0, "scale must not be negative", scale)
    with record_at_one_line():
        wide = sample_computed_dtype(wanted)
        factor = random_parameter_argument(op, scale, wide)
        shape = sample_shape_argument(op, shape, factor)
        if is_standard_continuous(scale, 1):
            return record(RandomExponential(shape, wanted), (node,))
        unit = record(RandomExponential(shape, wide), (node,))
        return sample_as_dtype(unit * wrap(factor), wanted)


def is_standard_continuous(value: ArrayLike, wanted: float) -> bool:
    """Return whether a parameter is this Python number, not a tensor."""
    return type(value) in (int, float) and bool(value == wanted)


def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return exponentials of normal numbers with standard deviation `sigma`, differentiable in it.

    >>> pb.random.lognormal(pb.random.key(0), [0.0, 1.0]).tolist()
    [1.0, 1.7715792655944824]
    """
    op = "random.lognormal"
    wanted = random_dtype_argument(op, dtype, sigma)
    node = random_key_argument(op, key)
    require_random_argument(op, lambda s: s >= 0, "sigma must not be negative", sigma)
    with record_at_one_line():
        (spread,) = spread_random_arguments(op, shape, sigma)
        normal = record(RandomNormal(spread.shape, float64), (node,))
        return rounded_to_sample_dtype(record(ExactExp(), ((normal * spread)._node,)), wanted)


def pareto(
    key: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the Pareto distribution on [1, inf) with shape `b`, differentiable in `b`.

    >>> pb.random.pareto(pb.random.key(0), [1.0, 10.0]).tolist()
    [1.1948655843734741, 1.0874073505401611]
    """
    op = "random.pareto"
    wanted = random_dtype_argument(op, dtype, b)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, b=b)
    with record_at_one_line():
        (shapes,) = spread_random_arguments(op, shape, b)
        energy = record(RandomExponential(shapes.shape, float64), (node,)) * reciprocal(shapes)
        return rounded_to_sample_dtype(
            _continuous_samples_or_nan(shapes, record(ExactExp(), (energy._node,))), wanted
        )


def rayleigh(
    key: ArrayLike, scale: ArrayLike = 1.0, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples of the Rayleigh distribution, differentiable in `scale`.

    >>> pb.random.rayleigh(pb.random.key(0), [1.0, 10.0]).tolist()
    [0.5967138409614563, 12.945754051208496]
    """
    op = "random.rayleigh"
    wanted = random_dtype_argument(op, dtype, scale)
    node = random_key_argument(op, key)
    require_random_argument(op, lambda s: s >= 0, "scale must not be negative", scale)
    with record_at_one_line():
        (factor,) = spread_random_arguments(op, shape, scale)
        energy = record(RandomExponential(factor.shape, float64), (node,))
        return rounded_to_sample_dtype(factor * sqrt(energy * number_in_sample_dtype(2.0)), wanted)


def weibull_min(
    key: ArrayLike, scale: ArrayLike, concentration: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples of the Weibull distribution, differentiable with respect to both parameters.

    >>> pb.random.weibull_min(pb.random.key(0), 2.0, [0.5, 1.0, 5.0]).tolist()
    [0.06339199095964432, 1.675925612449646, 1.1812753677368164]
    """
    op = "random.weibull_min"
    wanted = random_dtype_argument(op, dtype, scale, concentration)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, scale=scale, concentration=concentration)
    with record_at_one_line():
        factor, power = spread_random_arguments(op, shape, scale, concentration)
        energy = record(RandomExponential(factor.shape, float64), (node,))
        logs = record(ExactLog(), (energy._node,)) * reciprocal(power)
        unit = _continuous_samples_or_nan(power, record(ExactExp(), (logs._node,)))
        return rounded_to_sample_dtype(factor * unit, wanted)


def _continuous_samples_or_nan(parameter: Tensor, x: Tensor) -> Tensor:
    """Return x where the parameter is valid, NaN elsewhere."""
    return where(parameter > number_in_sample_dtype(0.0), x, number_in_sample_dtype(math.nan))


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
    wanted = random_dtype_argument(op, dtype, left, mode, right)
    node = random_key_argument(op, key)

    def ordered(left: np.ndarray, mode: np.ndarray, right: np.ndarray) -> np.ndarray:
        return (left <= mode) & (mode <= right) & (left < right)

    must = "left <= mode <= right and left < right must hold"
    require_random_argument(op, ordered, must, left, mode, right)
    with record_at_one_line():
        a, c, b = spread_random_arguments(op, shape, left, mode, right)
        u = record(RandomUniform(a.shape, float64), (node,))
        whole, rising, falling = b - a, c - a, b - c
        below = u * whole < rising
        half = number_in_sample_dtype(0.5)  # in place of the numbers for the other side
        up = sqrt(where(below, u, half) * (whole * rising))
        down = sqrt((number_in_sample_dtype(1.0) - where(below, half, u)) * (whole * falling))
        return rounded_to_sample_dtype(where(below, a + up, b - down), wanted)


def wald(
    key: ArrayLike, mean: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the inverse Gaussian distribution with shape 1, differentiable in `mean`.

    >>> pb.random.wald(pb.random.key(0), [0.1, 10.0]).tolist()
    [0.04208780452609062, 1.6386469602584839]
    """
    op = "random.wald"
    wanted = random_dtype_argument(op, dtype, mean)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, mean=mean)
    with record_at_one_line():
        (means,) = spread_random_arguments(op, shape, mean)
        keys = split(wrap(node))
        normal = record(RandomNormal(means.shape, float64), (keys[0]._node,))
        uniform = record(RandomUniform(means.shape, float64), (keys[1]._node,))
        nodes = (normal._node, uniform._node, means._node)
        return rounded_to_sample_dtype(record(WaldSample(), nodes), wanted)


def laplace(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the Laplace distribution, differentiable with respect to both parameters.

    >>> pb.random.laplace(pb.random.key(0), (2,)).tolist()
    [-0.11055822670459747, -0.04378489404916763]
    """
    return _moved_continuous("random.laplace", RandomLaplace, key, shape, dtype, loc, scale)


def logistic(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the logistic distribution, differentiable with respect to both parameters.

    >>> pb.random.logistic(pb.random.key(0), (2,)).tolist()
    [2.1464245319366455, 3.106494188308716]
    """
    return _moved_continuous("random.logistic", RandomLogistic, key, shape, dtype, loc, scale)


def gumbel(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the Gumbel distribution, differentiable with respect to both parameters.

    >>> pb.random.gumbel(pb.random.key(0), (2,)).tolist()
    [2.2022130489349365, 3.1284663677215576]
    """
    return _moved_continuous("random.gumbel", RandomGumbel, key, shape, dtype, loc, scale)


def cauchy(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the Cauchy distribution, differentiable with respect to both parameters.

    >>> pb.random.cauchy(pb.random.key(0), (2,)).tolist()
    [-6.02750301361084, -14.837906837463379]
    """
    return _moved_continuous("random.cauchy", RandomCauchy, key, shape, dtype, loc, scale)


def _moved_continuous(
    op: str, sampler: type[Sampler], key: ArrayLike, shape: Shape | None, dtype: DTypeLike | None,
    loc: ArrayLike, scale: ArrayLike,
) -> Tensor:  # fmt: skip
    """Return samples of a standard distribution, times `scale`, plus `loc`."""
    wanted = random_dtype_argument(op, dtype, loc, scale)
    node = random_key_argument(op, key)
    require_random_argument(op, lambda scale: scale >= 0, "scale must not be negative", scale)
    with record_at_one_line():
        wide = sample_computed_dtype(wanted)
        factor, offset = (
            random_parameter_argument(op, scale, wide),
            random_parameter_argument(op, loc, wide),
        )
        shape = sample_shape_argument(op, shape, factor, offset)
        if is_standard_continuous(loc, 0) and is_standard_continuous(scale, 1):
            return record(sampler(shape, wanted), (node,))
        unit = record(sampler(shape, wide), (node,))
        return scaled_continuous(unit, factor, offset, wanted)
