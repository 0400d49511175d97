"""Distributions of counts and signs. They have no derivative."""

from __future__ import annotations

from pullback.api.loops import scan
from pullback.errors import DTypeError, ShapeError
from pullback.functions.arguments import literal_argument
from pullback.functions.arithmetic import clip, reciprocal
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.flip_roll_resize import flip
from pullback.functions.reductions import max as maximum
from pullback.functions.shape import moveaxis, spread_to_shape
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, float64, int64
from pullback.lazy.operators import node_of
from pullback.lazy.record import record, record_as_constant, record_at_one_line
from pullback.lazy.settings import user_dtype
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.random.counts import RandomBinomial, RandomPoisson
from pullback.ops.random.exact import FailureEnergy
from pullback.ops.random.gamma import RandomGamma
from pullback.ops.random.sampling import RandomExponential
from pullback.ops.random.weighted_choice import Arrival
from pullback.random.arguments import (
    random_key_argument,
    random_parameter_argument,
    require_random_argument,
    sample_shape_argument,
)
from pullback.random.keys import split
from pullback.typing import ArrayLike, DTypeLike, Shape

MOST = 2.0**62


def poisson(
    key: ArrayLike, lam: ArrayLike = 1.0, shape: Shape | None = None, dtype: DTypeLike = int64
) -> Tensor:
    """Return samples of the Poisson distribution with mean `lam`, which is at most 2**60.

    Where a tensor `lam` is negative, NaN or too large, the result is -1.

    >>> pb.random.poisson(pb.random.key(0), [0.0, 3.0, 1e9]).tolist()
    [0, 3, 999963117]
    """
    op = "random.poisson"
    wanted = _count_dtype(op, dtype)
    must = "lam must be at least 0 and less than 2**60"
    require_random_argument(op, lambda lam: (lam >= 0) & (lam < 2.0**60), must, lam)
    node = random_key_argument(op, key)
    with record_at_one_line():
        (means,) = _count_distribution_parameters(op, shape, lam)
        return record(RandomPoisson(), (node, node_of(means))).astype(wanted)


def binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike = int64,
) -> Tensor:  # fmt: skip
    """Return how many of `n` trials succeed, each with probability `p`; `n` is at most 2**53.

    Where tensors `n` or `p` are out of range, the result is -1.

    >>> pb.random.binomial(pb.random.key(0), 10, [0.0, 0.5, 1.0]).tolist()
    [0, 5, 10]
    """
    op = "random.binomial"
    wanted = _count_dtype(op, dtype)
    _check_count_trials(op, n)
    require_random_argument(op, lambda p: (p >= 0) & (p <= 1), "p must be in [0, 1]", p)
    node = random_key_argument(op, key)
    with record_at_one_line():
        trials, chances = _count_distribution_parameters(op, shape, n, p)
        return record(RandomBinomial(), (node, trials._node, chances._node)).astype(wanted)


def multinomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike = int64,
) -> Tensor:  # fmt: skip
    """Return how often each outcome occurs in `n` trials.

    Probabilities `p` are along its last axis and need not sum to 1. `shape` is that of the result
    without its last axis; by default `n` broadcasts with `p` without its last axis. Where tensors
    `n` or `p` are out of range, counts are -1.

    >>> pb.random.multinomial(pb.random.key(0), 10, [0.5, 0.5, 0.0]).tolist()
    [9, 1, 0]
    """
    op = "random.multinomial"
    wanted = _count_dtype(op, dtype)
    _check_count_trials(op, n)
    require_random_argument(op, lambda p: p >= 0, "probabilities must not be negative", p)
    node = random_key_argument(op, key)
    with record_at_one_line():
        trials = wrap(record_as_constant(random_parameter_argument(op, n, float64)))
        weights = wrap(record_as_constant(random_parameter_argument(op, p, float64)))
        if not weights.ndim:
            raise ShapeError(f"p must have rank 1 or more, got {weights._node.type}", op=op)
        batch = sample_shape_argument(op, shape, trials._node, weights[..., 0]._node)
        chances = moveaxis(_conditional_count_chances(weights), -1, 0)
        count = chances.shape[0]
        chances = spread_to_shape(
            chances.reshape(_multinomial_count_shape(chances, batch)), (count, *batch)
        )

        def step(left: Tensor, xs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            found = record(RandomBinomial(), (node_of(xs[0]), node_of(left), node_of(xs[1])))
            drawn = found.astype(float64)
            return where(found < literal_argument(0, int64), -drawn * drawn, left - drawn), found

        _, counts = scan(step, spread_to_shape(trials, batch), (split(wrap(node), count), chances))
        return moveaxis(counts, 0, -1).astype(wanted)


def _multinomial_count_shape(chances: Tensor, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape with the first axis in front of `batch`, to which the others broadcast."""
    first, *rest = chances.shape
    return (first, *(1,) * (len(batch) - len(rest)), *rest)


def _conditional_count_chances(weights: Tensor) -> Tensor:
    """Return the probability of each outcome, given that none before it occurred.

    Weights become integers, whose sums are exact; the last outcome that has a weight gets 1.
    """
    count = max(weights.shape[-1], 1)
    top = maximum(weights, axis=-1, keepdims=True) if weights.shape[-1] else weights
    valid = (weights >= literal_argument(0.0, float64)) & (
        top < literal_argument(float("inf"), float64)
    )
    share = where(valid, weights * reciprocal(top), literal_argument(0.0, float64))
    steps = (share * literal_argument(2.0 ** (61 - count.bit_length()), float64)).astype(int64)
    rest = flip(cumulative_sum(flip(steps, axis=-1), axis=-1), axis=-1).astype(float64)
    one = literal_argument(1.0, float64)
    found = record(Arrival(), (steps.astype(float64)._node, where(rest > 0, rest, one)._node))
    return where(valid, clip(found, 0.0, 1.0), literal_argument(-1.0, float64))


def geometric(
    key: ArrayLike, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = int64
) -> Tensor:
    """Return the number of trials up to the first that succeeds, each with probability `p`.

    Where a tensor `p` is 0, the result is 2**62; where it is not in [0, 1], -1.

    >>> pb.random.geometric(pb.random.key(0), [1.0, 0.5, 1e-3]).tolist()
    [1, 2, 72]
    """
    op = "random.geometric"
    wanted = _count_dtype(op, dtype)
    require_random_argument(op, lambda p: (p > 0) & (p <= 1), "p must be positive and at most 1", p)
    node = random_key_argument(op, key)
    with record_at_one_line():
        (chances,) = _count_distribution_parameters(op, shape, p)
        rate = record(FailureEnergy(), (chances._node,))
        energy = record(RandomExponential(chances.shape, float64), (node,))
        trials = record(Arrival(), (energy._node, rate._node))
        most = literal_argument(MOST, float64)
        count = where(trials < most, trials, most).astype(int64) + literal_argument(1, int64)
        valid = rate >= literal_argument(0.0, float64)
        count = where(trials < most, count, literal_argument(int(MOST), int64))
        return where(valid, count, literal_argument(-1, int64)).astype(wanted)


def negative_binomial(
    key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike = int64,
) -> Tensor:  # fmt: skip
    """Return the number of failures before `n` successes (any positive number) of probability `p`.

    Where tensors `n` or `p` are out of range, the result is -1.

    >>> pb.random.negative_binomial(pb.random.key(0), 3.5, [1.0, 0.5, 0.01]).tolist()
    [0, 3, 363]
    """
    op = "random.negative_binomial"
    wanted = _count_dtype(op, dtype)
    require_random_argument(op, lambda n: n > 0, "n must be positive", n)
    require_random_argument(op, lambda p: (p > 0) & (p <= 1), "p must be positive and at most 1", p)
    node = random_key_argument(op, key)
    with record_at_one_line():
        successes, chances = _count_distribution_parameters(op, shape, n, p)
        keys = split(wrap(node))
        odds = (literal_argument(1.0, float64) - chances) * reciprocal(chances)
        means = record(RandomGamma(), (keys[0]._node, successes._node)) * odds
        return record(RandomPoisson(), (keys[1]._node, means._node)).astype(wanted)


def _count_dtype(op: str, dtype: DTypeLike) -> DType:
    wanted = user_dtype(op, dtype)
    if wanted.kind not in "iuf":
        raise DTypeError(f"dtype must be an integer or float, got {wanted}", op=op)
    return wanted


def _check_count_trials(op: str, n: ArrayLike) -> None:
    must = "n must be an integer from 0 to 2**53"
    require_random_argument(op, lambda n: (n >= 0) & (n <= 2**53) & (n == n // 1), must, n)


def _count_distribution_parameters(
    op: str, shape: Shape | None, *values: ArrayLike
) -> list[Tensor]:
    """Return parameters in f64 without derivative, broadcast to the shape of the samples."""
    given = [record_as_constant(random_parameter_argument(op, v, float64)) for v in values]
    wanted = sample_shape_argument(op, shape, *given)
    return [spread_to_shape(wrap(g), wanted) for g in given]
