"""Distributions that are moved by `loc` and widened by `scale`, differentiable in both."""

from __future__ import annotations

from pullback.lazy.record import at_one_line, record
from pullback.lazy.tensor import Tensor
from pullback.ops.random.sampling import (
    RandomCauchy,
    RandomGumbel,
    RandomLaplace,
    RandomLogistic,
    Sampler,
)
from pullback.random.arguments import (
    float_dtype_argument,
    key_of,
    random_parameter,
    require_parameter,
    sample_shape,
)
from pullback.random.continuous import computed_in, is_number, scale_and_shift
from pullback.typing import ArrayLike, DTypeLike, Shape


def laplace(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the Laplace distribution, differentiable with respect to both parameters.

    >>> pb.random.laplace(pb.random.key(0), (2,)).tolist()
    [-0.11055822670459747, -0.04378489404916763]
    """
    return _moved("random.laplace", RandomLaplace, key, shape, dtype, loc, scale)


def logistic(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the logistic distribution, differentiable with respect to both parameters.

    >>> pb.random.logistic(pb.random.key(0), (2,)).tolist()
    [2.1464245319366455, 3.106494188308716]
    """
    return _moved("random.logistic", RandomLogistic, key, shape, dtype, loc, scale)


def gumbel(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the Gumbel distribution, differentiable with respect to both parameters.

    >>> pb.random.gumbel(pb.random.key(0), (2,)).tolist()
    [2.2022130489349365, 3.1284663677215576]
    """
    return _moved("random.gumbel", RandomGumbel, key, shape, dtype, loc, scale)


def cauchy(
    key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None,
    loc: ArrayLike = 0.0, scale: ArrayLike = 1.0,
) -> Tensor:  # fmt: skip
    """Return samples of the Cauchy distribution, differentiable with respect to both parameters.

    >>> pb.random.cauchy(pb.random.key(0), (2,)).tolist()
    [-6.02750301361084, -14.837906837463379]
    """
    return _moved("random.cauchy", RandomCauchy, key, shape, dtype, loc, scale)


def _moved(
    op: str, sampler: type[Sampler], key: ArrayLike, shape: Shape | None, dtype: DTypeLike | None,
    loc: ArrayLike, scale: ArrayLike,
) -> Tensor:  # fmt: skip
    """Return samples of a standard distribution, times `scale`, plus `loc`."""
    wanted = float_dtype_argument(op, dtype, loc, scale)
    node = key_of(op, key)
    require_parameter(op, lambda scale: scale >= 0, "scale must not be negative", scale)
    with at_one_line():
        wide = computed_in(wanted)
        factor, offset = random_parameter(op, scale, wide), random_parameter(op, loc, wide)
        shape = sample_shape(op, shape, factor, offset)
        if is_number(loc, 0) and is_number(scale, 1):
            return record(sampler(shape, wanted), (node,))
        unit = record(sampler(shape, wide), (node,))
        return scale_and_shift(unit, factor, offset, wanted)
