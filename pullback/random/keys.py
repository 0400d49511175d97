"""Keys: where randomness comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import (
    as_tensor,
    cast_node,
    integer,
    node_of,
    number,
    scalar,
    shape_of,
)
from pullback.functions.creation import from_array
from pullback.functions.joining import stack
from pullback.graph.dtypes import uint32, uint64
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.record import at_one_line, record
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.traced_number import Unknown
from pullback.random.arguments import key_of


def key(seed: Any) -> Tensor:
    """A key from an integer, or from an integer tensor of rank 0.

    The seed's 64 bits are the key's: seeds from -2**63 to 2**64 - 1 are taken modulo 2**64, so -1
    and 2**64 - 1 are one seed, and all others differ.

    >>> import pullback as pb
    >>> pb.random.key(7).tolist()
    [0, 7]
    """
    if not isinstance(seed, (Tensor, Unknown)):
        word = _word("random.key", seed, "a seed")
        return from_array(np.array([word >> 32, word & 0xFFFFFFFF], np.uint32))
    with at_one_line():
        given = as_tensor(seed)
        whole = _words("random.key", given, "a seed")
        if whole.type.shape:
            raise ShapeError(f"a seed has rank 0, got {given._node.type}", op="random.key")
        high = wrap(whole) >> 32
        return stack([high.astype(uint32), wrap(whole).astype(uint32)])


def split(key: Any, num: Any = 2) -> Tensor:
    """New keys from one, in a tensor u32[num, 2]; `num` may be a shape.

    The old key may still be drawn from, or folded into; split again it gives the same keys.

    >>> import pullback as pb
    >>> key, sub = pb.random.split(pb.random.key(0))
    >>> sub.shape, pb.random.split(key, 5).shape
    ((2,), (5, 2))
    """
    shape = shape_of("random.split", num)
    return record(TABLE["SplitKey"](shape), (key_of("random.split", key),))


def fold_in(key: Any, data: Any) -> Tensor:
    """A new key from one and an integer, such as the number of a step or of a layer.

    A tensor of integers gives as many keys. Integers are taken modulo 2**64, as in `key`.

    >>> import pullback as pb
    >>> root = pb.random.key(0)
    >>> keys = [pb.random.fold_in(root, step) for step in range(3)]
    >>> keys[1].tolist() == keys[2].tolist()
    False
    """
    given = key_of("random.fold_in", key)
    if isinstance(data, (Tensor, np.ndarray, Unknown)):
        with at_one_line():
            whole = _words("random.fold_in", data, "a number")
            return record(TABLE["FoldIn"](), (given, whole))
    whole = scalar(_word("random.fold_in", data, "a number"), uint64)
    return record(TABLE["FoldIn"](), (given, whole))


def _word(op: str, value: Any, what: str) -> int:
    """An integer modulo 2**64."""
    value = integer(op, number(value), what)
    if not -(2**63) <= value < 2**64:
        raise ArgumentError(
            f"{what} must be at least -2**63 and less than 2**64, got {value}", op=op,
        )  # fmt: skip
    return value % 2**64


def _words(op: str, value: Any, what: str) -> Node:
    """Integers of any type as u64, negative ones modulo 2**64."""
    node = node_of(as_tensor(value))
    if not node.type.dtype.is_integer:
        raise DTypeError(f"{what} must be an integer, got {node.type}", op=op)
    return cast_node(node, uint64)
