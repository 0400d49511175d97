"""Random bits, integers and Bernoulli samples."""

from __future__ import annotations

import operator

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.functions.arguments import literal_argument, shape_argument
from pullback.functions.arithmetic import clip
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, float64, int64, uint32, uint64
from pullback.graph.node import Node
from pullback.lazy.operators import (
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_operand,
)
from pullback.lazy.record import record, record_as_constant, record_at_one_line
from pullback.lazy.settings import user_dtype
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.random.bits import RandomBits
from pullback.ops.random.mul_high import MulHigh
from pullback.random.arguments import (
    random_key_argument,
    random_parameter_argument,
    require_random_argument,
    sample_shape_argument,
)
from pullback.typing import ArrayLike, DTypeLike, Shape


def bits(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = uint32) -> Tensor:
    """Return random bits as unsigned integers of 8, 16, 32 or 64 bits.

    >>> [f"{word:08x}" for word in pb.random.bits(pb.random.key(0), (2,)).tolist()]
    ['f29a4fa7', 'fa843692']
    """
    op = "random.bits"
    wanted = user_dtype(op, dtype)
    if wanted.kind != "u":
        raise DTypeError(f"dtype must be an unsigned integer, got {wanted}", op=op)
    return record(
        RandomBits(shape_argument(op, shape), wanted.bits), (random_key_argument(op, key),)
    )


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Shape | None = None) -> Tensor:
    """Return bools that are true with probability `p`, to within 2**-64.

    Where a tensor `p` is at least 1 the result is true, where it is negative or NaN, false.

    >>> pb.random.bernoulli(pb.random.key(0), [0.0, 1.0]).tolist()
    [False, True]
    """
    op = "random.bernoulli"
    require_random_argument(op, lambda p: (p >= 0) & (p <= 1), "p must be in [0, 1]", p)
    with record_at_one_line():
        chance = wrap(
            record_as_constant(random_parameter_argument(op, p, float64))
        )  # a decision has no derivative
        words = record(
            RandomBits(sample_shape_argument(op, shape, chance._node), 64),
            (random_key_argument(op, key),),
        )
        # Comparing integers with integers: rounding cannot change the outcome.
        below = (chance * literal_argument(2.0**64, float64)).astype(uint64)
        return (words < below) | (chance >= literal_argument(1, float64))


def randint(
    key: ArrayLike, shape: Shape | None, minval: ArrayLike, maxval: ArrayLike,
    dtype: DTypeLike = int64,
) -> Tensor:  # fmt: skip
    """Return integers from `minval` (included) to `maxval` (excluded), of any integer dtype.

    All are equally likely to within a factor of 1 + 2**-32, and of 1 + 2**-64 for 64-bit dtypes.
    Bounds may be tensors; where maxval <= minval the result is minval. A Python number as maxval
    may be one more than the largest integer of the dtype.

    >>> pb.random.randint(pb.random.key(0), (5,), 0, 10).tolist()
    [4, 2, 9, 5, 5]
    """
    op = "random.randint"
    wanted = user_dtype(op, dtype)
    if not wanted.is_integer:
        raise DTypeError(f"dtype must be an integer, got {wanted}", op=op)
    require_random_argument(op, operator.lt, "minval must be less than maxval", minval, maxval)
    with record_at_one_line():
        low, last = _randint_bound(op, minval, wanted), _randint_bound(op, maxval, wanted, minus=1)
        shape = sample_shape_argument(op, shape, low, last)
        offset = _randint_up_to(random_key_argument(op, key), shape, low, last)
        return (wrap(cast_node(low, uint64)) + offset).astype(wanted)


def _randint_up_to(key: Node, shape: tuple[int, ...], low: Node, last: Node) -> Tensor:
    """Return integers (u64) from 0 to last - low, both included."""
    one = literal_argument(1, uint64)
    span = wrap(cast_node(last, uint64)) - wrap(cast_node(low, uint64)) + one
    span = where(wrap(last) < wrap(low), one, span)
    words = record(RandomBits(shape, 64), (key,))
    upper = record(MulHigh(), (words._node, span._node))
    if low.type.dtype.bits < 64:
        return upper
    more = record(RandomBits(shape, 64, 1), (key,))
    middle = words * span
    carry = middle + record(MulHigh(), (more._node, span._node)) < middle
    # A span of all 2**64 integers has wrapped around to 0.
    return where(span == literal_argument(0, uint64), words, upper + carry.astype(uint64))


def _randint_bound(op: str, value: ArrayLike, dtype: DType, minus: int = 0) -> Node:
    """Return the bound `value - minus` as a node of the given dtype; raise if it does not fit."""
    value = operator_number(value)
    if isinstance(value, (list, tuple, np.ndarray, TracedNumber)):
        value = as_tensor(value)
    if isinstance(value, Tensor):
        if not value.dtype.is_integer:
            raise DTypeError(f"bounds must be integers, got {value._node.type}", op=op)
        return _randint_clamped(value, dtype, minus)
    if type(value) is not int:
        raise ArgumentError(f"bounds must be integers, got {value!r}", op=op)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value - minus <= limits.max:
        raise ArgumentError(f"bound {value} does not fit into {dtype}", op=op)
    return scalar_operator_operand(value - minus, dtype)


def _randint_clamped(bound: Tensor, dtype: DType, minus: int) -> Node:
    """Return `bound - minus` without overflow, clamped to the range of `dtype`."""
    own, limits = np.iinfo(bound.dtype.numpy), np.iinfo(dtype.numpy)
    if minus:
        least = literal_argument(own.min, bound.dtype)
        bound = where(bound == least, least, bound - literal_argument(1, bound.dtype))
    if bound.dtype is not dtype:
        ends = max(own.min, limits.min), min(own.max, limits.max)
        bound = clip(bound, *[literal_argument(int(v), bound.dtype) for v in ends])
    return cast_node(node_of(bound), dtype)


def rademacher(key: ArrayLike, shape: Shape = (), dtype: DTypeLike = int64) -> Tensor:
    """Return 1 or -1, each with probability 1/2, in a signed dtype.

    >>> pb.random.rademacher(pb.random.key(0), (4,)).tolist()
    [-1, -1, 1, 1]
    """
    op = "random.rademacher"
    wanted = user_dtype(op, dtype)
    if wanted.kind not in "ifc":
        raise DTypeError(f"dtype must be a signed number, got {wanted}", op=op)
    with record_at_one_line():
        words = record(RandomBits(shape_argument(op, shape), 8), (random_key_argument(op, key),))
        one = literal_argument(1, wanted)
        return where(words < literal_argument(128, words.dtype), one, -one)
