"""Argument handling that the special functions share."""

from __future__ import annotations

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.functions.arguments import as_tensor, float_arguments, record_as
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.tensor import Tensor
from pullback.ops.op import Op
from pullback.typing import ArrayLike


def special(name: str, op: Op, *xs: ArrayLike) -> Tensor:
    """Apply an op to floats that broadcast; errors show the name of the public function."""
    return record_as(f"special.{name}", op, *float_arguments(*xs))


def special_order_operand(op: str, n: ArrayLike, what: str, largest: int) -> np.ndarray:
    """Return the values of orders or degrees, which decide what a program computes."""
    found = as_tensor(n)
    if not found.dtype.is_integer:
        raise DTypeError(f"{what} must be integers, got {found._node.type}", op=op)
    orders = read_on_host(found)
    if orders.size and not 0 <= orders.min() <= orders.max() <= largest:
        raise ArgumentError(f"{what} must be from 0 to {largest}, got {orders.tolist()}", op=op)
    return orders
