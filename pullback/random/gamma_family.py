"""Distributions made of gamma numbers, differentiable with respect to their parameters.

The derivative is that of a quantile of each gamma number (implicit reparameterization), so
gradients of expectations are correct. Everything is computed in f64 and then rounded.
"""

from __future__ import annotations

import math

from pullback.errors import ShapeError
from pullback.functions.arguments import checked_integer_argument, literal_argument, shape_argument
from pullback.functions.arithmetic import reciprocal, sqrt
from pullback.functions.joining import concat
from pullback.functions.shape import spread_to_shape
from pullback.functions.stacking import stack
from pullback.functions.where_take import where
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import float64
from pullback.graph.node import Node
from pullback.lazy.operators import node_of
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.exact import ExactExp, ExactLog, ExactSoftmax
from pullback.ops.random.gamma import RandomGamma, RandomLogGamma
from pullback.ops.random.sampling import RandomNormal
from pullback.random.arguments import (
    random_dtype_argument,
    random_key_argument,
    random_parameter_argument,
    require_positive_random_argument,
    require_random_argument,
    sample_shape_argument,
    spread_random_arguments,
)
from pullback.random.continuous import uniform
from pullback.random.keys import split
from pullback.random.sample_dtypes import number_in_sample_dtype, rounded_to_sample_dtype
from pullback.typing import ArrayLike, DTypeLike, Shape


def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return logarithms of samples of the gamma distribution with shape `a`, differentiable in `a`.

    They are finite also where the samples themselves would be too small for the dtype.

    >>> pb.random.loggamma(pb.random.key(0), [1e-3, 3.0]).tolist()
    [-177.3778076171875, -0.17544738948345184]
    """
    op = "random.loggamma"
    wanted = random_dtype_argument(op, dtype, a)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, a=a)
    with record_at_one_line():
        (shapes,) = spread_random_arguments(op, shape, a)
        return rounded_to_sample_dtype(record(RandomLogGamma(), (node, node_of(shapes))), wanted)


def beta(
    key: ArrayLike, a: ArrayLike, b: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples of the beta distribution, differentiable with respect to `a` and `b`.

    >>> pb.random.beta(pb.random.key(0), 2.0, [1e-3, 1.0, 5.0]).tolist()
    [1.0, 0.49946412444114685, 0.04039882495999336]
    """
    op = "random.beta"
    wanted = random_dtype_argument(op, dtype, a, b)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, a=a, b=b)
    with record_at_one_line():
        shapes = spread_random_arguments(op, shape, a, b)
        logs = record(RandomLogGamma(), (node, stack(shapes, -1)._node))
        return rounded_to_sample_dtype(
            record(ExactSoftmax(len(logs.shape) - 1), (logs._node,))[..., 0], wanted
        )


def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the Dirichlet distribution, vectors that sum to 1, differentiable in
    `alpha`.

    `shape` is that of the result without its last axis, along which `alpha` has its parameters; by
    default that of `alpha` without its last axis.

    >>> pb.random.dirichlet(pb.random.key(0), [1.0, 2.0, 3.0]).tolist()
    [0.5973859429359436, 0.10917183756828308, 0.2934422492980957]
    """
    op = "random.dirichlet"
    wanted = random_dtype_argument(op, dtype, alpha)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, alpha=alpha)
    with record_at_one_line():
        given = wrap(random_parameter_argument(op, alpha, float64))
        if not given.ndim:
            what = f"alpha must have rank 1 or more, got {given._node.type}"
            raise ShapeError(what, op=op)
        whole = None if shape is None else (*shape_argument(op, shape), given.shape[-1])
        shapes = spread_to_shape(given, sample_shape_argument(op, whole, given._node))
        logs = record(RandomLogGamma(), (node, node_of(shapes)))
        return rounded_to_sample_dtype(record(ExactSoftmax(logs.ndim - 1), (logs._node,)), wanted)


def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of the chi-square distribution, differentiable in `df`.

    >>> pb.random.chisquare(pb.random.key(0), [1.0, 6.0]).tolist()
    [3.76365327835083, 1.6781630516052246]
    """
    op = "random.chisquare"
    wanted = random_dtype_argument(op, dtype, df)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, df=df)
    with record_at_one_line():
        (freedom,) = spread_random_arguments(op, shape, df)
        return rounded_to_sample_dtype(
            _gamma_family_sample(node, freedom * number_in_sample_dtype(0.5))
            * number_in_sample_dtype(2.0),
            wanted,
        )


def t(
    key: ArrayLike, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples of Student's t distribution, differentiable in `df`.

    >>> pb.random.t(pb.random.key(0), [1.0, 30.0]).tolist()
    [-1.319503664970398, 0.6174280643463135]
    """
    op = "random.t"
    wanted = random_dtype_argument(op, dtype, df)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, df=df)
    with record_at_one_line():
        (freedom,) = spread_random_arguments(op, shape, df)
        keys = split(wrap(node))
        half = freedom * number_in_sample_dtype(0.5)
        normal = record(RandomNormal(half.shape, float64), (keys[0]._node,))
        ratio = half * reciprocal(_gamma_family_sample(keys[1]._node, half))
        return rounded_to_sample_dtype(normal * sqrt(ratio), wanted)


def f(
    key: ArrayLike, dfnum: ArrayLike, dfden: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return samples of the F distribution, differentiable with respect to both parameters.

    >>> pb.random.f(pb.random.key(0), 5.0, [1.0, 30.0]).tolist()
    [6.611962795257568, 0.30043816566467285]
    """
    op = "random.f"
    wanted = random_dtype_argument(op, dtype, dfnum, dfden)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, dfnum=dfnum, dfden=dfden)
    with record_at_one_line():
        above, below = spread_random_arguments(op, shape, dfnum, dfden)
        halves = stack([above, below], -1) * number_in_sample_dtype(0.5)
        logs = record(RandomLogGamma(), (node, halves._node))
        ratio = record(ExactExp(), ((logs[..., 0] - logs[..., 1])._node,))
        return rounded_to_sample_dtype(ratio * (below * reciprocal(above)), wanted)


def maxwell(key: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return samples of the Maxwell distribution: lengths of normal vectors in three dimensions.

    >>> pb.random.maxwell(pb.random.key(0), (2,)).tolist()
    [2.3180556297302246, 1.148952603340149]
    """
    op = "random.maxwell"
    wanted = random_dtype_argument(op, dtype)
    node = random_key_argument(op, key)
    with record_at_one_line():
        (half,) = spread_random_arguments(op, shape, 1.5)
        return rounded_to_sample_dtype(
            sqrt(_gamma_family_sample(node, half) * number_in_sample_dtype(2.0)), wanted
        )


def generalized_normal(
    key: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """Return samples with a density proportional to exp(-abs(x)**p), differentiable in `p`.

    >>> pb.random.generalized_normal(pb.random.key(0), [1.0, 2.0]).tolist()
    [0.5022256970405579, 0.5858650207519531]
    """
    op = "random.generalized_normal"
    wanted = random_dtype_argument(op, dtype, p)
    node = random_key_argument(op, key)
    require_positive_random_argument(op, p=p)
    with record_at_one_line():
        (power,) = spread_random_arguments(op, shape, p)
        keys = split(wrap(node))
        inverse = reciprocal(power)
        logs = record(RandomLogGamma(), (keys[0]._node, inverse._node))
        size = record(ExactExp(), ((logs * inverse)._node,))
        return rounded_to_sample_dtype(_gamma_with_random_sign(keys[1]._node, size), wanted)


@with_argument_checks
def ball(
    key: ArrayLike, d: int, p: float = 2.0, shape: Shape = (), dtype: DTypeLike | None = None
) -> Tensor:
    """Return points in the unit ball of the p-norm in `d` dimensions, uniformly distributed.

    The coordinates are along a last axis after those of `shape`.

    >>> point = pb.random.ball(pb.random.key(0), 3)
    >>> bool(pb.norm(point) <= 1)
    True
    """
    op = "random.ball"
    wanted = random_dtype_argument(op, dtype)
    count = checked_integer_argument(op, d, "d")
    require_random_argument(op, lambda d: d >= 0, "d must not be negative", count)
    require_random_argument(op, lambda p: p > 0, "p must be positive", p)
    node = random_key_argument(op, key)
    whole = (*shape_argument(op, shape), count)
    if p == math.inf:
        return uniform(key, whole, wanted, -1.0, 1.0)
    with record_at_one_line():
        keys = split(wrap(node))
        power = reciprocal(wrap(random_parameter_argument(op, p, float64)))
        # Powers of the coordinates, and what is left of 1, are a Dirichlet sample.
        ones = literal_argument(1.0, float64)
        shapes = [spread_to_shape(power, whole), spread_to_shape(ones, (*whole[:-1], 1))]
        logs = record(RandomLogGamma(), (keys[0]._node, concat(shapes, -1)._node))
        powers = record(ExactSoftmax(logs.ndim - 1), (logs._node,))[..., :-1]
        size = record(ExactExp(), ((record(ExactLog(), (powers._node,)) * power)._node,))
        return rounded_to_sample_dtype(_gamma_with_random_sign(keys[1]._node, size), wanted)


def _gamma_family_sample(key: Node, shapes: Tensor) -> Tensor:
    return record(RandomGamma(), (key, node_of(shapes)))


def _gamma_with_random_sign(key: Node, x: Tensor) -> Tensor:
    bits = record(RandomBits(x.shape, 8), (key,))
    return where(bits < literal_argument(128, bits.dtype), x, -x)


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
    wanted = random_dtype_argument(op, dtype, a)
    node = random_key_argument(op, key)
    require_random_argument(op, lambda a: a > 0, "a must be positive", a)
    with record_at_one_line():
        shapes = wrap(random_parameter_argument(op, a, wanted))
        shapes = spread_to_shape(shapes, sample_shape_argument(op, shape, shapes._node))
        return record(RandomGamma(), (node, node_of(shapes)))
