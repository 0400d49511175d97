"""Bounds checks of indices, in NumPy and in StableHLO. An index out of range is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import IndexOutOfRange


def index_out_of_bounds(axis: int, extent: int, index: int | None = None) -> IndexOutOfRange:
    what = "an index" if index is None else f"index {index}"
    must = f"it must be at least 0 and less than {extent}"
    message = f"{what} is out of range for axis {axis} of size {extent}: {must}"
    return IndexOutOfRange(message, axis=axis, extent=extent, index=index)


def index_within_bounds(
    indices: Sequence[np.ndarray], dims: Sequence[int], shape: tuple[int, ...], batched: int = 0
) -> tuple[np.ndarray, ...]:
    """The index arrays in NumPy's own integer type; raises if an index is out of range. The error
    counts axes without the first `batched` ones, which vmap added."""
    for index, axis in zip(indices, dims, strict=True):
        index = np.asarray(index)
        wrong = (index < 0) | (index >= shape[axis])
        if wrong.any():
            raise index_out_of_bounds(axis - batched, shape[axis], int(index[wrong][0]))
    return tuple(np.asarray(i).astype(np.intp) for i in indices)


def require_below_bound(b: Any, index: Any, limit: int, error: Any) -> None:
    """Check at run time that every element of `index` is at least 0 and less than `limit`."""
    tests = []
    if index.dtype.kind == "i":
        tests.append(b.compare("GE", index, b.full(index.type, 0)))
    if limit <= np.iinfo(index.dtype.numpy).max:  # else the dtype holds no larger ones
        tests.append(b.compare("LT", index, b.full(index.type, limit)))
    if not tests:
        return
    holds = tests[0] if len(tests) == 1 else b.op("stablehlo.and", *tests, out=tests[0].type)
    if index.shape:
        holds = b.reduce("and", holds, True, range(len(index.shape)))
    b.check(holds, error)


def require_index_within_bounds(
    b: Any, indices: Sequence[Any], dims: Sequence[int], shape: tuple[int, ...], batched: int = 0
) -> None:
    """Check index arrays at run time: XLA would clamp a read and drop a write."""
    for index, axis in zip(indices, dims, strict=True):
        if index.type.size:
            extent = shape[axis]
            require_below_bound(
                b, index, extent, lambda a=axis - batched, n=extent: index_out_of_bounds(a, n)
            )
