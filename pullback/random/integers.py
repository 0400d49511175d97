"""Bits, integers and coin flips."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.functions.arguments import (
    apply,
    as_tensor,
    cast_node,
    literal,
    node_of,
    number,
    scalar,
    shape_of,
)
from pullback.graph.dtypes import DType, float64, int64, uint32, uint64
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.record import at_one_line, cut, record
from pullback.lazy.settings import user_dtype
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import Unknown
from pullback.random.arguments import (
    key_of,
    known,
    parameter,
    require,
    require_order,
    sample_shape,
)


def bits(key: Any, shape: Any = (), dtype: Any = uint32) -> Tensor:
    """Random bits as unsigned integers of 8, 16, 32 or 64 bits.

    >>> import pullback as pb
    >>> [f"{word:08x}" for word in pb.random.bits(pb.random.key(0), (2,)).tolist()]
    ['f29a4fa7', 'fa843692']
    """
    wanted = user_dtype("random.bits", dtype)
    if wanted.kind != "u":
        raise DTypeError(f"needs an unsigned integer type, got {wanted}", op="random.bits")
    shape = shape_of("random.bits", shape)
    return record(TABLE["RandomBits"](shape, wanted.bits), (key_of("random.bits", key),))


def bernoulli(key: Any, p: Any = 0.5, shape: Any = None) -> Tensor:
    """True with probability p, to within 2**-64; always for p >= 1, never for p <= 0 or NaN.

    >>> import pullback as pb
    >>> pb.random.bernoulli(pb.random.key(0), [0.0, 1.0]).tolist()
    [False, True]
    """
    op = "random.bernoulli"
    given = known(p)
    if given is not None:
        require(op, (given >= 0) & (given <= 1), f"probabilities lie in [0, 1], got {p}")
    with at_one_line():
        p = cut(parameter(op, p, float64))  # a decision has no derivative
        shape = sample_shape(op, shape, p)
        words = record(TABLE["RandomBits"](shape, 64), (key_of(op, key),))
        chance = wrap(p)
        # an integer is compared with an integer: nothing is rounded that could turn out otherwise
        below = (chance * literal(2.0**64, float64)).astype(uint64)
        return (words < below) | (chance >= literal(1, float64))


def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = int64) -> Tensor:
    """Integers from `minval` up to, but without, `maxval`, in any integer type.

    All are equally likely to within a factor of 1 + 2**-32, and of 1 + 2**-64 for 64-bit types.
    The bounds may be tensors; where maxval is not larger the result is minval. As a Python number
    maxval may be one more than the largest integer of the type.

    >>> import pullback as pb
    >>> pb.random.randint(pb.random.key(0), (5,), 0, 10).tolist()
    [4, 2, 9, 5, 5]
    """
    op = "random.randint"
    wanted = user_dtype(op, dtype)
    if not wanted.is_integer:
        raise DTypeError(f"needs an integer type, got {wanted}", op=op)
    require_order(op, minval, maxval, ("minval", "maxval"))
    with at_one_line():
        low, last = _bound(op, minval, wanted, 0), _bound(op, maxval, wanted, 1)
        shape = sample_shape(op, shape, low, last)
        made = wrap(cast_node(low, uint64)) + _below(key_of(op, key), shape, low, last)
        return made.astype(wanted)


def _below(key: Node, shape: tuple[int, ...], low: Node, last: Node) -> Tensor:
    """Integers (u64) from 0 to last - low."""
    span = wrap(cast_node(last, uint64)) - wrap(cast_node(low, uint64)) + literal(1, uint64)
    span = apply("Where", apply("Less", last, low)._node, literal(1, uint64)._node, span._node)
    words = record(TABLE["RandomBits"](shape, 64), (key,))
    upper = apply("MulHigh", words._node, span._node)
    if low.type.dtype.bits < 64:
        return upper
    more = record(TABLE["RandomBits"](shape, 64, 1), (key,))
    middle = words * span
    carry = middle + apply("MulHigh", more._node, span._node) < middle
    made = upper + carry.astype(uint64)
    # a span of all 2**64 integers has come out as 0
    return apply("Where", (span == literal(0, uint64))._node, words._node, made._node)


def _bound(op: str, value: Any, dtype: DType, less: int) -> Node:
    """A bound as a node of the given type, reduced by `less`; what cannot be held is told."""
    value = number(value)
    if isinstance(value, (list, tuple, np.ndarray, Unknown)):
        value = as_tensor(value)
    if isinstance(value, Tensor):
        if not value.dtype.is_integer:
            raise DTypeError(f"bounds must be integers, got {value._node.type}", op=op)
        return _held(value, dtype, less)
    if type(value) is not int:
        raise ArgumentError(f"bounds must be integers, got {value!r}", op=op)
    limits = np.iinfo(dtype.numpy)
    if not limits.min <= value - less <= limits.max:
        raise ArgumentError(f"a bound of {value} does not fit into {dtype}", op=op)
    return scalar(value - less, dtype)


def _held(bound: Tensor, dtype: DType, less: int) -> Node:
    """A tensor of another type within the limits of this one, and reduced without overflow."""
    node = node_of(bound)
    if less:
        least = literal(np.iinfo(bound.dtype.numpy).min, bound.dtype)
        reduced = bound - literal(1, bound.dtype)
        node = apply("Where", (bound == least)._node, least._node, reduced._node)._node
    return node if node.type.dtype is dtype else _clamped(node, dtype)


def _clamped(node: Node, dtype: DType) -> Node:
    own, limits = np.iinfo(node.type.dtype.numpy), np.iinfo(dtype.numpy)
    low, high = max(own.min, limits.min), min(own.max, limits.max)
    bounds = [literal(int(v), node.type.dtype)._node for v in (low, high)]
    return cast_node(apply("Clamp", node, *bounds)._node, dtype)
