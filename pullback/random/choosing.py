"""Choosing among things: by weight, with and without putting back, and in random order."""

from __future__ import annotations

import math
from typing import Any

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    apply,
    as_tensor,
    axis_of,
    float_node,
    literal,
    node_of,
    number,
    shape_of,
)
from pullback.functions.cumulative import cumulative_sum
from pullback.functions.data_types import bitcast
from pullback.functions.reductions import max as maximum
from pullback.functions.shape import moveaxis, shaped
from pullback.functions.sorting import argsort
from pullback.functions.where_take import take, take_along_axis
from pullback.graph.dtypes import float64, int64, uint64
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.record import at_one_line, cut, record
from pullback.lazy.tensor import Tensor, wrap
from pullback.random.arguments import key_of, known, parameter, require
from pullback.random.integers import randint


def categorical(
    key: Any, logits: Any, axis: int = -1, shape: Any = None, replace: bool = True
) -> Tensor:
    """Indices along an axis, each with a probability proportional to exp(logits).

    `shape` ends with the shape of the logits without that axis, and is that by default; what
    comes before counts draws. Without `replace` the draws from one set of logits all differ.

    Probabilities are exact to within 2**-60 times the number of categories. Logits of -inf are
    never drawn, nor is NaN; where all are -inf they count as equal.

    >>> import pullback as pb
    >>> logits = pb.log([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    >>> pb.random.categorical(pb.random.key(0), logits, shape=(4, 2)).tolist()
    [[1, 0], [1, 2], [1, 0], [1, 2]]
    """
    op = "random.categorical"
    given = key_of(op, key)
    with at_one_line():
        x = wrap(cut(float_node(logits)))
        axis = axis_of(op, axis, x.ndim)
        batch = (*x.shape[:axis], *x.shape[axis + 1 :])
        draws = _draws(op, shape, batch)
        _require_some(op, x.shape[axis], draws, replace)
        weights = record(TABLE["RelativeWeights"](axis), (node_of(x),))
        return _chosen(given, moveaxis(weights, axis, -1), draws, replace)


def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Tensor:
    """Elements of `a` along an axis (or integers below `a`), drawn with probabilities `p`.

    Probabilities need not sum to 1; without them, or if they are all 0, all are equally likely.

    >>> import pullback as pb
    >>> pb.random.choice(pb.random.key(0), pb.tensor([10, 20, 30]), (4,), p=[1, 1, 0]).tolist()
    [10, 10, 20, 20]
    >>> sorted(pb.random.choice(pb.random.key(0), 4, (4,), replace=False).tolist())
    [0, 1, 2, 3]
    """
    op = "random.choice"
    given = key_of(op, key)
    draws = shape_of(op, shape)
    with at_one_line():
        n, things, axis = _population(op, a, axis)
        _require_some(op, n, draws, replace)
        if p is not None:
            places = _chosen(given, _weights(op, p, n, draws, replace), draws, replace)
        elif replace:
            places = randint(key, draws, 0, max(n, 1))
        else:
            places = shaped(_order(given, (n,), 0)[: math.prod(draws)], draws)
        return places if things is None else take(things, places, axis)


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Tensor:
    """The integers below `x`, or the parts of the tensor `x` along an axis, in random order.

    With `independent` every line along the axis gets an order of its own. The order is that of 64
    random bits for each place: all orders of n things are equally likely to within n**2 / 2**65.

    >>> import pullback as pb
    >>> pb.random.permutation(pb.random.key(0), 5).tolist()
    [1, 0, 4, 3, 2]
    """
    op = "random.permutation"
    given = key_of(op, key)
    with at_one_line():
        n, things, axis = _population(op, x, axis)
        if things is None:
            return _order(given, (n,), 0)
        if not independent:
            return take(things, _order(given, (n,), 0), axis)
        return take_along_axis(things, _order(given, things.shape, axis), axis)


def _order(key: Node, shape: tuple[int, ...], axis: int) -> Tensor:
    """The integers along an axis in random order, for each line by itself."""
    return argsort(record(TABLE["RandomBits"](shape, 64), (key,)), axis)


def _population(op: str, a: Any, axis: Any) -> tuple[int, Tensor | None, int]:
    """How many things there are to draw from, the things themselves, and their axis."""
    value = number(a)
    if isinstance(value, int) and not isinstance(value, bool):
        require(op, value >= 0, f"needs a number of things that is not negative, got {value}")
        return value, None, 0
    things = as_tensor(value)
    if not things.ndim:
        raise ShapeError(
            f"needs an integer, or a tensor of rank 1 or more, got {things._node.type}",
            op=op,
            hint="A tensor's value is not read: write int(n) if it is a number.",
        )
    axis = axis_of(op, axis, things.ndim)
    return things.shape[axis], things, axis


def _weights(op: str, p: Any, n: int, draws: tuple[int, ...], replace: bool) -> Tensor:
    """Probabilities as weights, the largest of which is at least 1 and less than 2."""
    given = known(p)
    if given is not None:
        require(op, given >= 0, f"probabilities must not be negative, got {p}")
        positive = int((given > 0).sum())
        require(op, positive > 0, "needs a probability that is not 0")
        require(
            op, replace or math.prod(draws) <= positive,
            f"cannot draw {math.prod(draws)} different things: only {positive} have a "
            "probability that is not 0",
        )  # fmt: skip
    weights = wrap(cut(parameter(op, p, float64)))
    if weights.shape != (n,):
        raise ShapeError(f"p must hold {n} probabilities, got {weights._node.type}", op=op)
    zero = literal(0, float64)
    weights = apply("Where", (weights > zero)._node, weights._node, zero._node)
    top = maximum(weights)
    usual = (top > zero) & (top < literal(math.inf, float64))
    heaviest = (weights >= top).astype(float64)
    # divided by a power of 2, which is exact
    exponent = bitcast(top, int64) & literal(0x7FF << 52, int64)
    return apply("Where", usual._node, (weights / bitcast(exponent, float64))._node, heaviest._node)


def _draws(op: str, shape: Any, batch: tuple[int, ...]) -> tuple[int, ...]:
    """The leading part of a shape that ends with `batch`."""
    if shape is None:
        return ()
    wanted = shape_of(op, shape)
    count = len(wanted) - len(batch)
    if count < 0 or wanted[count:] != batch:
        raise ShapeError(
            f"shape must end with that of the logits without the axis, {list(batch)}, got "
            f"{list(wanted)}",
            op=op,
        )  # fmt: skip
    return wanted[:count]


def _require_some(op: str, n: int, draws: tuple[int, ...], replace: bool) -> None:
    wanted = math.prod(draws)
    require(op, n > 0 or not wanted, "there is nothing to draw from")
    require(op, replace or wanted <= n, f"cannot draw {wanted} different things from {n}")


def _chosen(key: Node, weights: Tensor, draws: tuple[int, ...], replace: bool) -> Tensor:
    """Indices of the last axis: `draws` of them before the other axes."""
    batch, count = weights.shape[:-1], math.prod(draws)
    made = _with_replacement(key, weights, count) if replace else _race(key, weights, count)
    return shaped(moveaxis(made, -1, 0), (*draws, *batch))


def _with_replacement(key: Node, weights: Tensor, count: int) -> Tensor:
    """Weights are cut to integers, whose sums are exact; each draw is an integer below the last."""
    batch, n = weights.shape[:-1], weights.shape[-1]
    grain = literal(2.0 ** (61 - n.bit_length()), float64)
    sums = cumulative_sum((weights * grain).astype(int64), axis=-1)
    words = record(TABLE["RandomBits"]((count, *batch), 64), (key,))
    total = sums[..., -1].astype(uint64)
    points = apply("MulHigh", words._node, total._node).astype(int64)
    return apply("CountUpTo", sums._node, moveaxis(points, 0, -1)._node)


def _race(key: Node, weights: Tensor, count: int) -> Tensor:
    """Each arrives after an exponential time, the sooner the heavier: the first ones are drawn."""
    times = record(TABLE["RandomExponential"](weights.shape, float64), (key,))
    return argsort(apply("Arrival", times._node, weights._node), axis=-1)[..., :count]
