"""Comparisons with Python integers that the dtype of the tensor may not be able to hold."""

from __future__ import annotations

from typing import Any

from pullback.graph.dtypes import DType, int64
from pullback.graph.node import Node
from pullback.graph.op_table import TABLE
from pullback.lazy.record import record
from pullback.lazy.traced_number import TracedInt
from pullback.ops.elementwise.logic import Equal, NotEqual
from pullback.ops.elementwise.select import Where

# Each comparison with its operands exchanged
FLIPPED = {
    "Equal": "Equal", "NotEqual": "NotEqual", "Less": "Greater", "LessEqual": "GreaterEqual",
    "Greater": "Less", "GreaterEqual": "LessEqual",
}  # fmt: skip


def weak_limits(dtype: DType) -> tuple[int, int]:
    """Return the smallest and the largest integer of a dtype."""
    low = 0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))
    return low, low + (1 << dtype.bits) - 1


def beyond_weak_limits(name: str, x: Node, k: Any) -> Any:
    """Compare `x` with an integer out of range of its dtype, as 0 would; None for one in range."""
    dtype = x.type.dtype
    if not dtype.is_integer or type(k) not in (int, TracedInt):
        return None
    low, high = weak_limits(dtype)
    if type(k) is int:
        if low <= k <= high:
            return None
        same = Equal() if getattr(int, _METHODS[name])(0, k) else NotEqual()
        return record(same, (x, x))
    if dtype is int64:
        return None
    inside = k >= low
    if high <= weak_limits(int64)[1]:
        inside = inside & (k <= high)
    plain = record(TABLE[name](), (x, k.cast(dtype)))
    as_zero = getattr(k, _METHODS[FLIPPED[name]])(0)
    return record(Where(), (inside._node, plain._node, as_zero._node))


_METHODS = {
    "Equal": "__eq__", "NotEqual": "__ne__", "Less": "__lt__", "LessEqual": "__le__",
    "Greater": "__gt__", "GreaterEqual": "__ge__",
}  # fmt: skip
