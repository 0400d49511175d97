"""Continuous distributions, in every float dtype."""

from __future__ import annotations

import math
import operator

import numpy as np

from pullback.functions.arguments import literal
from pullback.functions.complex_parts import complex as complex_of
from pullback.functions.complex_parts import imag, real
from pullback.functions.shape import spread
from pullback.graph.dtypes import DType, float32, float64
from pullback.graph.node import Node
from pullback.lazy.operators import NUMBERS, as_tensor, node_of, number
from pullback.lazy.record import at_one_line, record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.random.affine import Affine, Between, NormalBetween
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.gamma import RandomGamma
from pullback.ops.random.sampling import RandomExponential, RandomNormal, RandomUniform
from pullback.random.arguments import (
    float_dtype_argument,
    key_of,
    random_parameter,
    require_parameter,
    sample_shape,
)
from pullback.typing import ArrayLike, DTypeLike, Shape


def computed_in(dtype: DType) -> DType:
    """Return the dtype that samples are computed in: f64 for f64, f32 for all others."""
    return float64 if dtype is float64 else float32


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
    wanted = float_dtype_argument(op, dtype, minval, maxval)
    require_parameter(op, operator.lt, "minval must be less than maxval", minval, maxval)
    node = key_of(op, key)
    with at_one_line():
        wide = computed_in(wanted)
        first, last = (random_parameter(op, v, wide) for v in (minval, maxval))
        shape = sample_shape(op, shape, first, last)
        if is_number(minval, 0) and is_number(maxval, 1):
            return record(RandomUniform(shape, wanted), (node,))

        def finite(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return np.isfinite(b.astype(wide.numpy) - a.astype(wide.numpy))

        require_parameter(op, finite, "maxval - minval must be finite", minval, maxval)
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
    wanted = float_dtype_argument(op, dtype, loc, scale, kinds="fc")
    node = key_of(op, key)
    with at_one_line():
        if wanted.is_complex:
            return _complex_normal(op, node, shape, wanted, loc, scale)
        wide = computed_in(wanted)
        factor, offset = random_parameter(op, scale, wide), random_parameter(op, loc, wide)
        shape = sample_shape(op, shape, factor, offset)
        if is_number(loc, 0) and is_number(scale, 1):
            return record(RandomNormal(shape, wanted), (node,))
        unit = record(RandomNormal(shape, wide), (node,))
        return scale_and_shift(unit, factor, offset, wanted)


def scale_and_shift(x: Tensor, scale: Node, offset: Node, dtype: DType) -> Tensor:
    return as_dtype(record(Affine(), (x._node, scale, offset)), dtype)


def as_dtype(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else x.astype(dtype)


def _complex_normal(
    op: str, key: Node, shape: Shape | None, dtype: DType, loc: ArrayLike, scale: ArrayLike
) -> Tensor:
    part = dtype.real
    factor = wrap(random_parameter(op, scale, part)) * literal(math.sqrt(0.5), part)
    value = number(loc)
    if type(value) in NUMBERS:
        offsets = [random_parameter(op, v, part) for v in (value.real, value.imag)]
    else:
        center = as_tensor(value).astype(dtype)
        offsets = [node_of(real(center)), node_of(imag(center))]
    shape = sample_shape(op, shape, factor._node, offsets[0])
    unit = record(RandomNormal((*shape, 2), part), (key,))
    units = unit[..., 0], unit[..., 1]
    pairs = zip(units, offsets, strict=True)
    return complex_of(*[scale_and_shift(x, factor._node, offset, part) for x, offset in pairs])


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
    wanted = float_dtype_argument(op, dtype, lower, upper)
    require_parameter(op, operator.lt, "lower must be less than upper", lower, upper)
    node = key_of(op, key)
    with at_one_line():
        low, high = (random_parameter(op, v, float64) for v in (lower, upper))
        shape = sample_shape(op, shape, low, high)
        steps = (record(RandomBits(shape, 64), (node,)) >> 12).astype(float64)  # of 2**52
        unit = (steps + literal(0.5, float64)) * literal(2.0**-52, float64)
        samples = record(NormalBetween(), (unit._node, low, high))
        return as_dtype(samples, wanted)


def exponential(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the exponential distribution with mean `scale`, differentiable in it.

    >>> pb.random.exponential(pb.random.key(0), (2,)).tolist()
    [0.11055822670459747, 0.04378489404916763]
    """
    op = "random.exponential"
    wanted = float_dtype_argument(op, dtype, scale)
    node = key_of(op, key)
    require_parameter(op, lambda scale: scale >= 0, "scale must not be negative", scale)
    with at_one_line():
        wide = computed_in(wanted)
        factor = random_parameter(op, scale, wide)
        shape = sample_shape(op, shape, factor)
        if is_number(scale, 1):
            return record(RandomExponential(shape, wanted), (node,))
        unit = record(RandomExponential(shape, wide), (node,))
        return as_dtype(unit * wrap(factor), wanted)


def gamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the gamma distribution with shape `a` and scale 1, differentiable in `a`.

    Samples are never 0: smaller ones become the least normal number of the dtype. The derivative is
    that of a quantile (implicit reparameterization), so gradients of expectations are correct.

    >>> pb.random.gamma(pb.random.key(0), [0.5, 3.0, 100.0]).tolist()
    [1.881826639175415, 0.8390815258026123, 86.04927825927734]
    """
    op = "random.gamma"
    wanted = float_dtype_argument(op, dtype, a)
    node = key_of(op, key)
    require_parameter(op, lambda a: a > 0, "a must be positive", a)
    with at_one_line():
        shapes = wrap(random_parameter(op, a, wanted))
        shapes = spread(shapes, sample_shape(op, shape, shapes._node))
        return record(RandomGamma(), (node, node_of(shapes)))


def is_number(value: ArrayLike, wanted: float) -> bool:
    """Return whether a parameter is this Python number, not a tensor."""
    return type(value) in (int, float) and bool(value == wanted)
