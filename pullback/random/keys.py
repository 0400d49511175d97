"""Keys: creation and derivation."""

from __future__ import annotations

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import checked_integer_argument, shape_argument
from pullback.functions.creation import created_from_array
from pullback.functions.stacking import stack
from pullback.graph.dtypes import uint32, uint64
from pullback.graph.node import Node
from pullback.lazy.operators import (
    as_tensor,
    cast_node,
    node_of,
    operator_number,
    scalar_operator_operand,
)
from pullback.lazy.record import record, record_at_one_line
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import TracedNumber
from pullback.ops.random.split_fold_keys import FoldIn, SplitKey
from pullback.random.arguments import random_key_argument
from pullback.typing import ArrayLike, Shape


def key(seed: int | Tensor) -> Tensor:
    """Return a key made from an integer or an integer tensor of rank 0.

    The seed's 64 bits become the key. Seeds from -2**63 to 2**64 - 1 are taken modulo 2**64: -1 and
    2**64 - 1 give the same key, all others differ.

    >>> pb.random.key(7).tolist()
    [0, 7]
    """
    if not isinstance(seed, (Tensor, TracedNumber)):
        word = _key_data_modulo_64("random.key", seed, "seed")
        return created_from_array(np.array([word >> 32, word & 0xFFFFFFFF], np.uint32))
    with record_at_one_line():
        given = as_tensor(seed)
        if given.shape:
            raise ShapeError(f"seed must have rank 0, got {given._node.type}", op="random.key")
        whole = wrap(_key_data_to_uint64("random.key", given, "seed"))
        return stack([(whole >> 32).astype(uint32), whole.astype(uint32)])


def split(key: ArrayLike, num: Shape = 2) -> Tensor:
    """Return new keys derived from one, as a tensor u32[num, 2]; `num` may be a shape.

    The old key may still be used to draw or to fold in; splitting it again gives the same keys.

    >>> key, sub = pb.random.split(pb.random.key(0))
    >>> sub.shape, pb.random.split(key, 5).shape
    ((2,), (5, 2))
    """
    shape = shape_argument("random.split", num)
    return record(SplitKey(shape), (random_key_argument("random.split", key),))


def fold_in(key: ArrayLike, data: int | Tensor | np.ndarray) -> Tensor:
    """Return a new key derived from a key and an integer, such as a step or layer number.

    A tensor of integers gives one key for each. Integers are taken modulo 2**64, as in `key`.

    >>> root = pb.random.key(0)
    >>> keys = [pb.random.fold_in(root, step) for step in range(3)]
    >>> keys[1].tolist() == keys[2].tolist()
    False
    """
    op = "random.fold_in"
    node = random_key_argument(op, key)
    with record_at_one_line():
        if isinstance(data, (Tensor, np.ndarray, TracedNumber)):
            word = _key_data_to_uint64(op, data, "data")
        else:
            word = scalar_operator_operand(_key_data_modulo_64(op, data, "data"), uint64)
        return record(FoldIn(), (node, word))


def _key_data_modulo_64(op: str, value: int, name: str) -> int:
    """Return an integer modulo 2**64."""
    value = checked_integer_argument(op, operator_number(value), name, bounded=False)
    if not -(2**63) <= value < 2**64:
        message = f"{name} must be at least -2**63 and less than 2**64, got {value}"
        raise ArgumentError(message, op=op)
    return value % 2**64


def _key_data_to_uint64(op: str, value: Tensor | np.ndarray, name: str) -> Node:
    """Return integers of any dtype as u64, negative ones modulo 2**64."""
    node = node_of(as_tensor(value))
    if not node.type.dtype.is_integer:
        raise DTypeError(f"{name} must be an integer, got {node.type}", op=op)
    return cast_node(node, uint64)
