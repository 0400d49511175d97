"""Comparisons with Python integers: one that the element type cannot hold is still a number."""

from __future__ import annotations

from typing import Any

from pullback.graph.dtypes import DType, int64
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.record import record
from pullback.lazy.traced_number import UnknownInt

# What a comparison is called with its operands in the other order.
FLIPPED = {
    "Equal": "Equal", "NotEqual": "NotEqual", "Less": "Greater", "LessEqual": "GreaterEqual",
    "Greater": "Less", "GreaterEqual": "LessEqual",
}  # fmt: skip


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest integer of an element type."""
    low = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    return low, low + (1 << dtype.bits) - 1


def beyond(name: str, x: Node, k: Any) -> Any:
    """`x` compared with an integer that may not fit; None if there is nothing special about it.

    All elements of `x` then compare with it as 0 does.
    """
    dtype = x.type.dtype
    if not dtype.is_integer or type(k) not in (int, UnknownInt):
        return None
    low, high = limits(dtype)
    if type(k) is int:
        if low <= k <= high:
            return None
        alike = "Equal" if getattr(int, _METHODS[name])(0, k) else "NotEqual"
        return record(TABLE[alike](), (x, x))
    if dtype is int64:
        return None
    inside = k >= low
    if high <= limits(int64)[1]:
        inside = inside & (k <= high)
    plain = record(TABLE[name](), (x, k.cast(dtype)))
    as_zero = getattr(k, _METHODS[FLIPPED[name]])(0)
    return record(TABLE["Where"](), (inside._node, plain._node, as_zero._node))


_METHODS = {
    "Equal": "__eq__", "NotEqual": "__ne__", "Less": "__lt__", "LessEqual": "__le__",
    "Greater": "__gt__", "GreaterEqual": "__ge__",
}  # fmt: skip
