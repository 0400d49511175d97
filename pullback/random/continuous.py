"""Continuous distributions, in every float type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.functions.arguments import apply, as_tensor, literal, node_of, number
from pullback.functions.complex_parts import complex as complex_of
from pullback.functions.complex_parts import imag, real
from pullback.functions.shape import spread
from pullback.graph.dtypes import DType, float32, float64
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.operators import NUMBERS
from pullback.lazy.record import at_one_line, record
from pullback.lazy.tensor import Tensor, wrap
from pullback.random.arguments import (
    computed_in,
    float_dtype,
    key_of,
    known,
    parameter,
    require,
    require_order,
    sample_shape,
)


def uniform(
    key: Any, shape: Any = None, dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Tensor:
    """Numbers in [minval, maxval), all equally likely; differentiable by both bounds.

    They are 2**24 steps fine, 2**53 in f64. Where no number of the type lies between the bounds,
    the result is the next one to minval.

    >>> import pullback as pb
    >>> pb.random.uniform(pb.random.key(0), (2,), minval=-1.0).tolist()
    [0.8953341245651245, 0.9571597576141357]
    """
    op = "random.uniform"
    wanted = float_dtype(op, dtype, minval, maxval)
    require_order(op, minval, maxval, ("minval", "maxval"))
    given = key_of(op, key)
    with at_one_line():
        wide = computed_in(wanted)
        low, high = (parameter(op, v, wide) for v in (minval, maxval))
        shape = sample_shape(op, shape, low, high)
        if _is(minval, 0) and _is(maxval, 1):
            return record(TABLE["RandomUniform"](shape, wanted), (given,))
        _require_finite(op, minval, maxval, wide)
        unit = record(TABLE["RandomUniform"](shape, wide), (given,))
        return record(TABLE["Between"](wanted), (unit._node, low, high))


def normal(
    key: Any, shape: Any = None, dtype: Any = None, loc: Any = 0.0, scale: Any = 1.0
) -> Tensor:
    """Numbers from the normal distribution; differentiable by `loc` and `scale`.

    In a complex type the real and the imaginary part each have half the variance.

    >>> import pullback as pb
    >>> pb.random.normal(pb.random.key(0), (2,)).tolist()
    [-0.1315576285123825, -0.053718023002147675]
    >>> def moved(mean):
    ...     return pb.random.normal(pb.random.key(0), (4,), loc=mean).sum()
    >>> pb.grad(moved)(1.0).item()
    4.0
    """
    op = "random.normal"
    wanted = float_dtype(op, dtype, loc, scale, kinds="fc")
    given = key_of(op, key)
    with at_one_line():
        if wanted.is_complex:
            return _complex_normal(op, given, shape, wanted, loc, scale)
        wide = computed_in(wanted)
        by, to = parameter(op, scale, wide), parameter(op, loc, wide)
        shape = sample_shape(op, shape, by, to)
        if _is(loc, 0) and _is(scale, 1):
            return record(TABLE["RandomNormal"](shape, wanted), (given,))
        return _moved(record(TABLE["RandomNormal"](shape, wide), (given,)), by, to, wanted)


def _moved(x: Tensor, scale: Node, offset: Node, dtype: DType) -> Tensor:
    made = apply("Affine", x._node, scale, offset)
    return made if made.dtype is dtype else made.astype(dtype)


def _complex_normal(op: str, key: Node, shape: Any, dtype: DType, loc: Any, scale: Any) -> Tensor:
    part = dtype.real
    by = wrap(parameter(op, scale, part)) * literal(math.sqrt(0.5), part)
    value = number(loc)
    if type(value) in NUMBERS:
        to = [parameter(op, v, part) for v in (value.real, value.imag)]
    else:
        centre = as_tensor(value).astype(dtype)
        to = [node_of(real(centre)), node_of(imag(centre))]
    shape = sample_shape(op, shape, by._node, to[0])
    both = record(TABLE["RandomNormal"]((*shape, 2), part), (key,))
    return complex_of(*[_moved(both[..., i], by._node, to[i], part) for i in (0, 1)])


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
) -> Tensor:
    """Standard normal numbers in [lower, upper], however far out; differentiable by the bounds.

    Where a tensor as lower bound is larger than the upper one, the result is NaN.

    >>> import pullback as pb
    >>> pb.random.truncated_normal(pb.random.key(0), [-2.0, 40.0], [2.0, pb.inf]).tolist()
    [-0.19635199010372162, 40.00608825683594]
    """
    op = "random.truncated_normal"
    wanted = float_dtype(op, dtype, lower, upper)
    require_order(op, lower, upper, ("lower", "upper"))
    given = key_of(op, key)
    with at_one_line():
        low, high = (parameter(op, v, float64) for v in (lower, upper))
        shape = sample_shape(op, shape, low, high)
        words = record(TABLE["RandomBits"](shape, 64), (given,)) >> 12
        middle = words.astype(float64) + literal(0.5, float64)  # of 2**52 steps
        made = apply("NormalBetween", (middle * literal(2.0**-52, float64))._node, low, high)
        if wanted.bits == 16:
            made = made.astype(float32)  # XLA may round f64 to 16 bits in one step or in two
        return made if made.dtype is wanted else made.astype(wanted)


def exponential(key: Any, shape: Any = None, dtype: Any = None, scale: Any = 1.0) -> Tensor:
    """Numbers from the exponential distribution of mean `scale`; differentiable by it.

    >>> import pullback as pb
    >>> pb.random.exponential(pb.random.key(0), (2,)).tolist()
    [0.11055822670459747, 0.04378489404916763]
    """
    op = "random.exponential"
    wanted = float_dtype(op, dtype, scale)
    given = key_of(op, key)
    _require_positive(op, scale, "scale", zero=True)
    with at_one_line():
        wide = computed_in(wanted)
        by = parameter(op, scale, wide)
        shape = sample_shape(op, shape, by)
        if _is(scale, 1):
            return record(TABLE["RandomExponential"](shape, wanted), (given,))
        made = record(TABLE["RandomExponential"](shape, wide), (given,)) * wrap(by)
        return made if made.dtype is wanted else made.astype(wanted)


def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Tensor:
    """Numbers from the gamma distribution of shape `a` and scale 1; differentiable by `a`.

    They are never 0: what is too small for the type is its least number. The derivative is that of
    a quantile (implicit reparameterisation), so gradients of expectations are right.

    >>> import pullback as pb
    >>> pb.random.gamma(pb.random.key(0), [0.5, 3.0, 100.0]).tolist()
    [1.881826639175415, 0.8390815258026123, 86.04927825927734]
    """
    op = "random.gamma"
    wanted = float_dtype(op, dtype, a)
    given = key_of(op, key)
    _require_positive(op, a, "a")
    with at_one_line():
        shapes = wrap(parameter(op, a, wanted))
        whole = spread(shapes, sample_shape(op, shape, shapes._node))
        return apply("RandomGamma", given, node_of(whole))


def _is(value: Any, wanted: float) -> bool:
    """Whether a parameter is this very number, and not a tensor."""
    return type(value) in (int, float) and value == wanted


def _require_positive(op: str, value: Any, name: str, zero: bool = False) -> None:
    given = known(value)
    if given is not None:
        fits = given >= 0 if zero else given > 0
        require(op, fits, f"{name} must {'not be negative' if zero else 'be positive'}, "
                f"got {value}")  # fmt: skip


def _require_finite(op: str, low: Any, high: Any, dtype: DType) -> None:
    a, b = known(low), known(high)
    if a is None or b is None:
        return
    with np.errstate(all="ignore"):
        distance = b.astype(dtype.numpy) - a.astype(dtype.numpy)
    require(op, np.isfinite(distance), f"maxval - minval must be finite, got {low} and {high}")
