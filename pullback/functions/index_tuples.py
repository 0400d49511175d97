"""Index arrays: grids, diagonals, triangles, and positions in flattened tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from pullback.errors import ArgumentError, OutOfMemory, ShapeError
from pullback.functions.arguments import Tensor, as_tensor, shape_argument, tensor_sequence_argument
from pullback.functions.composed import composed
from pullback.functions.creation import arange, created_from_array, ones
from pullback.functions.data_types import astype
from pullback.functions.nonzero_elements import nonzero
from pullback.functions.shape import reshaped_to, spread_to_shape
from pullback.functions.stacking import stack
from pullback.functions.take_modes import checked_take_index, index_in_mode
from pullback.graph.argument_checks import checked_function_argument, checked_sequence_argument
from pullback.graph.dtypes import int64
from pullback.typing import ArrayLike, DTypeLike, Shape

_MOST_DIMENSIONS = 1000
_MOST_INDICES = 2**36  # elements of a matrix whose triangle is listed


@composed
def indices(
    dimensions: Shape, dtype: DTypeLike = int64, sparse: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """Return the index of each element of a tensor along each axis, stacked along a new first axis.

    With `sparse`, return a tuple of tensors that broadcast to the grid.

    >>> pb.indices((2, 2)).tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    shape = shape_argument("indices", dimensions)
    rank = len(shape)
    rows = [
        reshaped_to(arange(n, dtype=dtype), (1,) * i + (n,) + (1,) * (rank - i - 1))
        for i, n in enumerate(shape)
    ]
    if sparse:
        return tuple(rows)
    return (
        stack([spread_to_shape(r, shape) for r in rows])
        if rows
        else created_from_array(np.zeros((0,), np.int64))
    )


@composed
def ix_(*vectors: ArrayLike) -> tuple[Tensor, ...]:
    """Return index arrays that select every combination of the given indices; a vector of bools,
    which is evaluated, stands for the indices where it is true.

    >>> x = pb.arange(6).reshape(2, 3)
    >>> x[pb.ix_([0, 1], [0, 2])].tolist()
    [[0, 2], [3, 5]]
    """
    made = []
    for i, vector in enumerate(vectors):
        x = as_tensor(vector)
        if x.ndim != 1:
            message = f"argument {i} must be a vector, got {x._node.type}"
            raise ShapeError(message, op="ix_", code="E3002")
        if x.dtype.kind == "b":
            (x,) = nonzero(x)
        elif not x.size:  # an empty list has no integers, but means some
            x = astype(x, int64)
        made.append(reshaped_to(x, (1,) * i + (x.size,) + (1,) * (len(vectors) - i - 1)))
    return tuple(made)


@composed
def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """Return the indices of the main diagonal of a tensor with `ndim` dimensions of size `n`.

    >>> [i.tolist() for i in pb.diag_indices(2)]
    [[0, 1], [0, 1]]
    """
    (size,) = shape_argument("diag_indices", n)
    if not 0 <= ndim <= _MOST_DIMENSIONS:
        message = f"ndim must be from 0 to {_MOST_DIMENSIONS}, got {ndim}"
        raise ArgumentError(message, op="diag_indices")
    return tuple([arange(size) for _ in range(ndim)])


@composed
def diag_indices_from(x: ArrayLike) -> tuple[Tensor, ...]:
    """Return the indices of the main diagonal of a tensor, whose dimensions must be equal.

    >>> [i.tolist() for i in pb.diag_indices_from(pb.eye(2))]
    [[0, 1], [0, 1]]
    """
    x = as_tensor(x)
    if x.ndim < 2 or len(set(x.shape)) > 1:
        message = f"needs rank 2 or more and equal dimensions, got {x._node.type}"
        raise ShapeError(message, op="diag_indices_from", code="E3002")
    return diag_indices(x.shape[0], x.ndim)


@composed
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the indices of the elements on and below the `k`-th diagonal of an `n` by `m` matrix.

    >>> [i.tolist() for i in pb.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle_index_tuple("tril_indices", n, k, m, lambda row, column: row + k >= column)


@composed
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the indices of the elements on and above the `k`-th diagonal of an `n` by `m` matrix.

    >>> [i.tolist() for i in pb.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle_index_tuple("triu_indices", n, k, m, lambda row, column: row + k <= column)


def _triangle_index_tuple(
    op: str, n: int, k: int, m: int | None, inside: Callable[[Any, Any], np.ndarray]
) -> tuple[Tensor, Tensor]:
    rows, columns = shape_argument(op, (n, n if m is None else m))
    too_large = OutOfMemory(f"there is not enough memory for shape {[rows, columns]}", op=op)
    if rows * columns > _MOST_INDICES:
        raise too_large
    try:
        found = np.nonzero(inside(np.arange(rows)[:, None], np.arange(columns)))
    except MemoryError:
        raise too_large from None
    return created_from_array(found[0]), created_from_array(found[1])


@composed
def tril_indices_from(x: ArrayLike, k: int = 0) -> tuple[Tensor, Tensor]:
    """Return the indices of the elements of a matrix on and below its `k`-th diagonal.

    >>> [i.tolist() for i in pb.tril_indices_from(pb.eye(2))]
    [[0, 1, 1], [0, 0, 1]]
    """
    rows, columns = _index_tuple_shape("tril_indices_from", x)
    return tril_indices(rows, k, columns)


@composed
def triu_indices_from(x: ArrayLike, k: int = 0) -> tuple[Tensor, Tensor]:
    """Return the indices of the elements of a matrix on and above its `k`-th diagonal.

    >>> [i.tolist() for i in pb.triu_indices_from(pb.eye(2))]
    [[0, 0, 1], [0, 1, 1]]
    """
    rows, columns = _index_tuple_shape("triu_indices_from", x)
    return triu_indices(rows, k, columns)


def _index_tuple_shape(op: str, x: ArrayLike) -> tuple[int, ...]:
    x = as_tensor(x)
    if x.ndim != 2:
        raise ShapeError(f"needs a matrix, got {x._node.type}", op=op, code="E3002")
    return x.shape


def mask_indices(n: int, mask_func: Callable[..., Tensor], k: int = 0) -> tuple[Tensor, ...]:
    """Return the indices of an `n` by `n` matrix of ones that `mask_func(matrix, k)` keeps.

    >>> [i.tolist() for i in pb.mask_indices(2, pb.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    (size,) = shape_argument("mask_indices", n)
    mask = checked_function_argument("mask_indices", mask_func, "mask_func")
    return nonzero(mask(ones((size, size), dtype=int64), k))


@composed
def unravel_index(indices: ArrayLike, shape: Shape) -> tuple[Tensor, ...]:
    """Return the index along each axis of elements that are given by their index in the flattened
    tensor; an index out of range is an error.

    >>> [i.tolist() for i in pb.unravel_index([5, 0], (2, 3))]
    [[1, 0], [2, 0]]
    """
    sizes = shape_argument("unravel_index", shape)
    flat = checked_take_index("unravel_index", indices, math.prod(sizes))
    made = []
    for size in reversed(sizes):
        made.append(flat % max(size, 1))
        flat = flat // max(size, 1)
    return tuple(reversed(made))


@composed
def ravel_multi_index(
    multi_index: Sequence[ArrayLike] | Tensor, dims: Shape,
    mode: str | Sequence[Literal["raise", "wrap", "clip"]] = "raise",
) -> Tensor:  # fmt: skip
    """Return the index in the flattened tensor of elements that are given by their index along
    each axis. One out of range is an error, or is counted modulo the size ("wrap") or clipped.

    >>> pb.ravel_multi_index(([1, 0], [2, 0]), (2, 3)).tolist()
    [5, 0]
    """
    sizes = shape_argument("ravel_multi_index", dims)
    if isinstance(multi_index, (list, tuple)):  # known values are checked at once
        tensor_sequence_argument("ravel_multi_index", multi_index, "multi_index")
        parts: list[Any] = list(multi_index)
    else:
        parts = tensor_sequence_argument("ravel_multi_index", multi_index, "multi_index")
    given = checked_sequence_argument(
        "ravel_multi_index", (mode,) if isinstance(mode, str) else mode, "mode"
    )
    modes = list(given) * (len(sizes) if isinstance(mode, str) else 1)
    if len(parts) != len(sizes) or len(modes) != len(sizes):
        got = f"{len(parts)} indices and {len(modes)} modes"
        message = f"needs an index and a mode for each of {len(sizes)} dimensions, got {got}"
        raise ArgumentError(message, op="ravel_multi_index")
    flat = as_tensor(0)
    for part, size, how in zip(parts, sizes, modes):
        flat = flat * size + index_in_mode("ravel_multi_index", part, size, how)
    return flat


__all__ = [
    "diag_indices", "diag_indices_from", "indices", "ix_", "mask_indices", "ravel_multi_index",
    "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip
