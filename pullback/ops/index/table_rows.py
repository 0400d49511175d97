"""Calls of kernels that read whole rows of a table, or add to them, as embeddings do."""

from __future__ import annotations

from typing import Any

from pullback.graph.dtypes import float32, float64, int32, int64
from pullback.graph.types import Type

_LEAST_ROW = 16  # elements of a row, below which XLA's loop over elements is as fast
_LEAST_SIZE = 1 << 14  # elements that are read or added


def take_table_rows(b: Any, out: Type, table: Any, index: Any) -> Any:
    """Copy rows of a table; None where XLA does as well."""
    if not _table_rows_are_large(table, index):
        return None
    return b.kernel("take_rows", table, index, out=out)


def add_table_rows(b: Any, out: Type, table: Any, updates: Any, index: Any) -> Any:
    """Add to rows of a table in the order of the updates; None where XLA does as well."""
    if out.dtype not in (float32, float64) or not _table_rows_are_large(table, index):
        return None
    if b.is_zero(table):
        return b.kernel("add_rows", updates, index, out=out)
    return b.kernel("add_rows", updates, index, table, out=out, in_place=True)


def _table_rows_are_large(table: Any, index: Any) -> bool:
    row = table.type.size // table.shape[0]
    large = row >= _LEAST_ROW and row * index.type.size >= _LEAST_SIZE
    return large and index.dtype in (int32, int64)
