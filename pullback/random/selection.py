"""Random selection: weighted draws with and without replacement, and permutations."""

from __future__ import annotations

import math

from pullback.errors import ShapeError
from pullback.functions.along_axis import take_along_axis
from pullback.functions.arguments import axis_argument, float_node, literal_argument, shape_argument
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import bitcast
from pullback.functions.reductions import max as maximum
from pullback.functions.shape import moveaxis, reshaped_to
from pullback.functions.sorting import argsort
from pullback.functions.where_take import take, where
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import float64, int64, uint64
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor, node_of, operator_number
from pullback.lazy.record import record, record_as_constant, record_at_one_line
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.random.between import LEAST
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.count_up_to import CountUpTo
from pullback.ops.random.mul_high import MulHigh
from pullback.ops.random.sampling import RandomExponential
from pullback.ops.random.weighted_choice import Arrival, RelativeWeights
from pullback.random.arguments import (
    known_random_argument,
    random_key_argument,
    random_parameter_argument,
    require_random_argument,
)
from pullback.random.discrete import randint
from pullback.typing import ArrayLike, Shape


@with_argument_checks
def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Shape | None = None,
    replace: bool = True,
) -> Tensor:  # fmt: skip
    """Return indices along an axis, drawn with probabilities proportional to exp(logits).

    `shape` must end with the shape of the logits without that axis, which is the default; the
    dimensions before it count draws. With `replace=False` draws from the same logits are distinct.

    Probabilities are exact to within 2**-60 times the number of categories. Logits of -inf and NaN
    are never drawn; if all are -inf they count as equal.

    >>> logits = pb.log([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    >>> pb.random.categorical(pb.random.key(0), logits, shape=(4, 2)).tolist()
    [[1, 0], [1, 2], [1, 0], [1, 2]]
    """
    op = "random.categorical"
    node = random_key_argument(op, key)
    with record_at_one_line():
        x = wrap(record_as_constant(float_node(logits)))
        axis = axis_argument(op, axis, x.ndim)
        draws = _choice_draws(op, shape, (*x.shape[:axis], *x.shape[axis + 1 :]))
        _check_choice_population(op, x.shape[axis], draws, replace)
        weights = record(RelativeWeights(axis), (node_of(x),))
        return _draw_choice(node, moveaxis(weights, axis, -1), draws, replace)


@with_argument_checks
def choice(
    key: ArrayLike, a: ArrayLike, shape: Shape = (), replace: bool = True,
    p: ArrayLike | None = None, axis: int = 0,
) -> Tensor:  # fmt: skip
    """Return elements of `a` along an axis (or integers below `a`), drawn with probabilities `p`.

    Probabilities need not sum to 1. By default, or if all are 0, elements are equally likely.

    >>> pb.random.choice(pb.random.key(0), pb.tensor([10, 20, 30]), (4,), p=[1, 1, 0]).tolist()
    [10, 10, 20, 20]
    >>> sorted(pb.random.choice(pb.random.key(0), 4, (4,), replace=False).tolist())
    [0, 1, 2, 3]
    """
    op = "random.choice"
    node = random_key_argument(op, key)
    draws = shape_argument(op, shape)
    with record_at_one_line():
        n, elements, axis = _choice_population(op, a, axis)
        _check_choice_population(op, n, draws, replace)
        if p is not None:
            indices = _draw_choice(node, _choice_weights(op, p, n, draws, replace), draws, replace)
        elif replace:
            indices = randint(key, draws, 0, max(n, 1))
        else:
            indices = reshaped_to(_random_selection_order(node, (n,), 0)[: math.prod(draws)], draws)
        return indices if elements is None else take(elements, indices, axis)


@with_argument_checks
def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Tensor:
    """Return the integers below `x`, or the slices of the tensor `x` along an axis, shuffled.

    With `independent`, each line along the axis is shuffled separately. Each place is sorted by 64
    random bits: all orders of n elements are equally likely to within n**2 / 2**65.

    >>> pb.random.permutation(pb.random.key(0), 5).tolist()
    [1, 0, 4, 3, 2]
    """
    op = "random.permutation"
    node = random_key_argument(op, key)
    with record_at_one_line():
        n, elements, axis = _choice_population(op, x, axis)
        if elements is None:
            return _random_selection_order(node, (n,), 0)
        if not independent:
            return take(elements, _random_selection_order(node, (n,), 0), axis)
        return take_along_axis(elements, _random_selection_order(node, elements.shape, axis), axis)


def _random_selection_order(key: Node, shape: tuple[int, ...], axis: int) -> Tensor:
    """Return the indices along an axis in random order, separately for each line."""
    return argsort(record(RandomBits(shape, 64), (key,)), axis)


def _choice_population(op: str, a: ArrayLike, axis: int) -> tuple[int, Tensor | None, int]:
    """Return the number of elements to draw from, the elements (None: indices), and their axis."""
    value = operator_number(a)
    if isinstance(value, int) and not isinstance(value, bool):
        require_random_argument(
            op, lambda n: n >= 0, "the number of elements must not be negative", value
        )
        return value, None, axis_argument(op, axis, 1)
    elements = as_tensor(value)
    if not elements.ndim:
        message = f"expected an integer, or a tensor of rank 1 or more, got {elements._node.type}"
        hint = "A tensor's value is not read: write int(n) if it is a number."
        raise ShapeError(message, op=op, hint=hint)
    axis = axis_argument(op, axis, elements.ndim)
    return elements.shape[axis], elements, axis


def _choice_weights(op: str, p: ArrayLike, n: int, draws: tuple[int, ...], replace: bool) -> Tensor:
    """Return probabilities scaled so that the largest is at least 1 and less than 2. Those below
    the least normal number, before or after, count as 0."""
    given = known_random_argument(p)
    if given is not None:
        require_random_argument(op, lambda p: p >= 0, "probabilities must not be negative", p)
        count, positive = math.prod(draws), int((given > 0).sum())
        require_random_argument(
            op, lambda: positive > 0, "at least one probability must be positive"
        )
        what = f"cannot draw {count} distinct elements: only {positive} have a positive probability"
        require_random_argument(op, lambda: replace or count <= positive, what)
    weights = wrap(record_as_constant(random_parameter_argument(op, p, float64)))
    if weights.shape != (n,):
        raise ShapeError(f"p must hold {n} probabilities, got {weights._node.type}", op=op)
    zero = literal_argument(0, float64)
    weights = where(weights >= literal_argument(LEAST[float64], float64), weights, zero)
    top = maximum(weights)
    finite = (top > zero) & (top < literal_argument(math.inf, float64))
    heaviest = (weights >= top).astype(float64)
    return where(finite, _relative_selection_weights(top, weights), heaviest)


def _relative_selection_weights(top: Tensor, weights: Tensor) -> Tensor:
    """Divide by the power of 2 in `top`, by subtracting exponents as integers: the power may have
    no reciprocal. Quotients that are not normal numbers become 0, as in every engine."""
    lowest = literal_argument(1 << 52, int64)  # the bits of the least normal number
    exponent = bitcast(top, int64) & literal_argument(0x7FF << 52, int64)
    bits = bitcast(weights, int64)
    moved = bits - (exponent - literal_argument(1023 << 52, int64))
    normal = (bits >= lowest) & (moved >= lowest)
    return bitcast(where(normal, moved, literal_argument(0, int64)), float64)


def _choice_draws(op: str, shape: Shape | None, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the leading part of a shape that ends with `batch`."""
    if shape is None:
        return ()
    wanted = shape_argument(op, shape)
    count = len(wanted) - len(batch)
    if count < 0 or wanted[count:] != batch:
        end = f"{list(batch)}, the shape of the logits without the axis"
        raise ShapeError(f"shape must end with {end}, got {list(wanted)}", op=op)
    return wanted[:count]


def _check_choice_population(op: str, n: int, draws: tuple[int, ...], replace: bool) -> None:
    wanted = math.prod(draws)
    require_random_argument(op, lambda: n > 0 or not wanted, "there are no elements to draw from")
    require_random_argument(
        op, lambda: replace or wanted <= n, f"cannot draw {wanted} distinct elements from {n}"
    )


def _draw_choice(key: Node, weights: Tensor, draws: tuple[int, ...], replace: bool) -> Tensor:
    """Return indices along the last axis, of shape `draws` followed by the other axes."""
    count = math.prod(draws)
    draw = _choice_with_replacement if replace else _draw_distinct_choice
    return reshaped_to(moveaxis(draw(key, weights, count), -1, 0), (*draws, *weights.shape[:-1]))


def _choice_with_replacement(key: Node, weights: Tensor, count: int) -> Tensor:
    """Convert weights to integers, whose sums are exact, and draw integers below the total."""
    batch, n = weights.shape[:-1], weights.shape[-1]
    scale = literal_argument(2.0 ** (61 - n.bit_length()), float64)
    sums = cumulative_sum((weights * scale).astype(int64), axis=-1)
    words = record(RandomBits((count, *batch), 64), (key,))
    total = sums[..., -1].astype(uint64)
    points = record(MulHigh(), (words._node, total._node)).astype(int64)
    return record(CountUpTo(), (sums._node, moveaxis(points, 0, -1)._node))


def _draw_distinct_choice(key: Node, weights: Tensor, count: int) -> Tensor:
    """Draw the first `count` of an exponential race in which weights are rates."""
    times = record(RandomExponential(weights.shape, float64), (key,))
    return argsort(record(Arrival(), (times._node, weights._node)), axis=-1)[..., :count]
