"""Places that index arrays name: their shapes, their checks, and the instructions that read and
write there.

What lies at the places has the dimensions that `x` and the index arrays share (the first
`batched` of both), then the first `before` of the dimensions of `x` that are not indexed, then
the index arrays' own, then the rest of `x`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from pullback.graph.dtypes import bool_, int32, int64
from pullback.graph.types import show
from pullback.ops.prelude import Type
from pullback.ops.reduce.reductions import check_axes


def unindexed(dims: Sequence[int], shape: tuple[int, ...], batched: int = 0) -> tuple[int, ...]:
    """The extents of the dimensions that are neither shared nor indexed."""
    return tuple(n for i, n in enumerate(shape) if i >= batched and i not in dims)


def index_shape(
    dims: Sequence[int], x: Type, indices: Sequence[Type], batched: int = 0
) -> tuple[int, ...]:
    """The one shape of the index arrays; raises if they do not fit `dims` of `x`."""
    if not dims or len(indices) != len(dims):
        raise ArgumentError(
            f"needs one index array for each of the dimensions {list(dims)}, got {len(indices)}"
        )
    check_axes(dims, x.rank)
    for i in indices:
        if not i.dtype.is_integer:
            what = f"indices must be integers, got {show(indices)}"
            raise DTypeError(what, code="E4011", dtype=i.dtype.name)
        if i.shape != indices[0].shape:
            raise ShapeError(f"index arrays must have one shape, got {show(indices)}", code="E3001")
    shape = indices[0].shape
    if min(dims) < batched or len(shape) < batched or shape[:batched] != x.shape[:batched]:
        raise ShapeError(
            f"the first {batched} dimensions of operand and index arrays must agree and not be "
            f"indexed, got {x} with {show(indices)} for {list(dims)}",
            code="E3001",
        )
    return shape


def placed_shape(
    dims: Sequence[int], x: Type, indices: Sequence[Type], batched: int, before: int
) -> tuple[int, ...]:
    """The shape of what lies at the places."""
    shape = index_shape(dims, x, indices, batched)
    rest = unindexed(dims, x.shape, batched)
    if not 0 <= before <= len(rest):
        raise ShapeError(f"{before} dimensions cannot precede the indices', {x} has {len(rest)}")
    return (*shape[:batched], *rest[:before], *shape[batched:], *rest[before:])


def out_of_range(axis: int, extent: int, index: int | None = None) -> IndexOutOfRange:
    what = "an index" if index is None else f"index {index}"
    return IndexOutOfRange(
        f"{what} is out of range for axis {axis} of size {extent}: "
        f"it must be at least 0 and less than {extent}",
        axis=axis, extent=extent, index=index,
    )  # fmt: skip


# -- in NumPy -------------------------------------------------------------------------------------


def in_range(
    indices: Sequence[np.ndarray], dims: Sequence[int], shape: tuple[int, ...], batched: int = 0
) -> tuple[np.ndarray, ...]:
    """The index arrays as NumPy wants them; raises on the first that is out of range.

    The error counts axes as one example does: without those that examples share.
    """
    for index, axis in zip(indices, dims, strict=True):
        index = np.asarray(index)
        wrong = (index < 0) | (index >= shape[axis])
        if wrong.any():
            raise out_of_range(axis - batched, shape[axis], int(index[wrong][0]))
    return tuple(np.asarray(i).astype(np.intp) for i in indices)


def with_shared(places: tuple[np.ndarray, ...], batched: int) -> tuple[np.ndarray, ...]:
    """Index arrays for the shared dimensions too: every element names its own position there."""
    shape = places[0].shape
    own = [np.arange(n).reshape(-1, *[1] * (len(shape) - i - 1)) for i, n in enumerate(shape)]
    return (*own[:batched], *places)


# -- in StableHLO ---------------------------------------------------------------------------------


def require_below(b: Any, index: Any, limit: int, error: Any) -> None:
    """At run time, every element of `index` must be at least 0 and less than `limit`."""
    tests = []
    if index.dtype.kind == "i":
        tests.append(b.compare("GE", index, b.full(index.type, 0)))
    if limit <= np.iinfo(index.dtype.numpy).max:  # else the element type alone keeps it below
        tests.append(b.compare("LT", index, b.full(index.type, limit)))
    if not tests:
        return
    holds = tests[0] if len(tests) == 1 else b.op("stablehlo.and", *tests, out=tests[0].type)
    if index.shape:
        holds = b.reduce("and", holds, True, range(len(index.shape)))
    b.check(holds, error)


def require_in_range(
    b: Any, indices: Sequence[Any], dims: Sequence[int], shape: tuple[int, ...], batched: int = 0
) -> None:
    """Check index arrays at run time: XLA itself would clamp a read and drop a write."""
    for index, axis in zip(indices, dims, strict=True):
        if index.type.size:
            extent = shape[axis]
            require_below(b, index, extent, lambda a=axis - batched, n=extent: out_of_range(a, n))


def same_integers(b: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The index arrays in one element type that counts to every extent of `shape`."""
    dtype = int32 if all(n < 2**31 for n in shape) else int64
    return [b.convert(i, dtype) for i in indices]


def index_vectors(b: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """The index arrays side by side along a new last dimension."""
    columns = [b.reshape(i, (*i.shape, 1)) for i in same_integers(b, indices, shape)]
    if len(columns) == 1:
        return columns[0]
    rank = len(columns[0].shape) - 1
    out = Type((*columns[0].shape[:-1], len(columns)), columns[0].dtype)
    return b.op("stablehlo.concatenate", *columns, out=out, dimension=rank)


def _windows(rank: int, count: int, batched: int, before: int) -> list[int]:
    """The dimensions of what lies at the places that are not the index arrays' (`count`)."""
    own = range(batched + before, before + count)
    return [i for i in range(batched, rank) if i not in own]


def gather(
    b: Any, out: Type, x: Any, indices: Sequence[Any], dims: Sequence[int], batched: int = 0,
    before: int = 0, sizes: Sequence[int] = (),
) -> Any:  # fmt: skip
    """Reads, unchecked; blocks of `sizes` if given, else single places."""
    if not out.size or not x.type.size:
        return b.full(out, 0)
    rank, shared = len(indices[0].shape), list(range(batched))
    blocks = bool(sizes)
    if not blocks:
        sizes = [1 if i in dims or i < batched else n for i, n in enumerate(x.shape)]
    numbers = (
        f"offset_dims = {_windows(out.rank, rank, batched, before)}, "
        f"collapsed_slice_dims = {[] if blocks else sorted(dims)}, "
        f"operand_batching_dims = {shared}, start_indices_batching_dims = {shared}, "
        f"start_index_map = {list(dims)}, index_vector_dim = {rank}"
    )
    return b.op(
        "stablehlo.gather", x, index_vectors(b, indices, x.shape), out=out,
        dimension_numbers=f"#stablehlo.gather<{numbers}>", slice_sizes=tuple(sizes),
        indices_are_sorted=False,
    )  # fmt: skip


def scatter(
    b: Any, x: Any, updates: Any, indices: Sequence[Any], dims: Sequence[int], combine: Callable,
    batched: int = 0, before: int = 0, unique: bool = False, blocks: bool = False,
) -> Any:  # fmt: skip
    """Writes, unchecked: one that is out of range does nothing. `blocks`, or single places."""
    rank, shared = len(indices[0].shape), list(range(batched))
    numbers = (
        f"update_window_dims = {_windows(len(updates.shape), rank, batched, before)}, "
        f"inserted_window_dims = {[] if blocks else sorted(dims)}, "
        f"input_batching_dims = {shared}, scatter_indices_batching_dims = {shared}, "
        f"scatter_dims_to_operand_dims = {list(dims)}, index_vector_dim = {rank}"
    )
    body = b.region([Type((), x.dtype)] * 2, lambda old, new: [combine(old, new)])
    return b.op(
        "stablehlo.scatter", x, index_vectors(b, indices, x.shape), updates, out=x.type,
        regions=body, scatter_dimension_numbers=f"#stablehlo.scatter<{numbers}>",
        indices_are_sorted=False, unique_indices=unique,
    )  # fmt: skip


def last_writes(b: Any, indices: Sequence[Any], extents: tuple[int, ...], batched: int = 0) -> Any:
    """Of all that name one place, the last: the highest number of a write there, read back.

    A maximum comes out the same in whatever order a device takes it.
    """
    shape = indices[0].shape
    out = Type(shape, int32 if math.prod(shape) < 2**31 else int64)
    whole = (*shape[:batched], *extents)
    if not out.size or not math.prod(whole):
        return b.full(Type(shape, bool_), False)
    dims = range(batched, len(whole))
    numbers = b.reshape(b.iota((out.size,), out.dtype, 0), shape)
    none = b.full(Type(whole, out.dtype), -1)
    highest = scatter(
        b, none, numbers, indices, dims,
        lambda old, new: b.op("stablehlo.maximum", old, new, out=old.type), batched,
    )  # fmt: skip
    return b.compare("EQ", numbers, gather(b, out, highest, indices, dims, batched))
