"""Diagonals and triangles of matrices, and matrices made of them."""

from __future__ import annotations

import numpy as np

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    integer_argument_node,
    literal_argument,
    ordered_axes_argument,
)
from pullback.functions.composed import composed, composed_inplace
from pullback.functions.creation import arange, ones, zeros
from pullback.functions.data_types import astype
from pullback.functions.index_updates import scatter
from pullback.functions.padding import pad
from pullback.functions.reductions import sum as sum_over
from pullback.functions.shape import flatten, moveaxis, reshaped_to
from pullback.functions.where_take import take, where
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import int64
from pullback.graph.node import constant_node
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.ops.elementwise.arithmetic import Add
from pullback.ops.elementwise.logic import GreaterEqual, LessEqual
from pullback.ops.elementwise.select import Where
from pullback.ops.linalg.einsum_expansion import Einsum
from pullback.ops.shape.iota import Iota
from pullback.typing import ArrayLike, DTypeLike


@composed
def diag(x: ArrayLike, k: int = 0) -> Tensor:
    """Return a matrix with a vector as its `k`-th diagonal, or the `k`-th diagonal of a matrix.

    >>> pb.diag([1, 2]).tolist(), pb.diag([[1, 2], [3, 4]], k=1).tolist()
    ([[1, 0], [0, 2]], [2])
    """
    x = as_tensor(x)
    if x.ndim == 2:
        return diagonal(x, offset=k)
    if x.ndim != 1:
        message = f"needs a vector or a matrix, got {x._node.type}"
        raise ShapeError(message, op="diag", code="E3002")
    shift = int(k)
    columns = pad(x, (max(shift, 0), max(-shift, 0)))
    index = arange(columns.size)
    inside = index[:, None] + literal_argument(shift, index.dtype) == index
    return where(inside, columns, literal_argument(0, x.dtype))


@composed
def diagflat(x: ArrayLike, k: int = 0) -> Tensor:
    """Return a matrix with the elements of a tensor, in row-major order, as its `k`-th diagonal.

    >>> pb.diagflat([[1], [2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return diag(flatten(x), k)


@composed_inplace
def fill_diagonal(
    x: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Tensor:
    """Write `val` on the main diagonal of a tensor, the elements whose indices are all equal.

    Several values are used in turn. `wrap` starts the diagonal of a tall matrix again after a row.
    With `inplace=False`, a new tensor is returned and `x` is left as it is.

    >>> pb.fill_diagonal(pb.tensor([[1, 2], [3, 4]]), 0).tolist()
    [[0, 2], [3, 0]]
    """
    x = as_tensor(x)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        message = f"needs a matrix, or a tensor whose dimensions are equal, got {x._node.type}"
        raise ShapeError(message, op="fill_diagonal")
    end = x.size
    if x.ndim == 2:
        step = x.shape[1] + 1
        end = end if wrap else min(end, x.shape[1] ** 2)
    else:
        step = 1 + sum(x.shape[0] ** i for i in range(1, x.ndim))
    places = np.arange(0, end, step)
    values = flatten(astype(val, x.dtype))
    if values.size > 1:
        values = take(values, np.arange(places.size) % values.size)
    return reshaped_to(scatter(flatten(x), places, values), x.shape)


@composed
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """Return a matrix of `N` rows and `M` columns with ones on and below the `k`-th diagonal.

    >>> pb.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    return tril(ones((N, N if M is None else M), dtype=dtype), k)


@with_argument_checks
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """Return the diagonal in the plane of two axes, `offset` places above the main one, as the last
    axis of the result. (`pb.linalg.diagonal` takes that of the last two axes.)

    >>> pb.diagonal([[1, 2], [3, 4]]).tolist(), pb.diagonal([[1, 2], [3, 4]], 1).tolist()
    ([1, 4], [2])
    """
    return _diagonal("diagonal", x, offset, axis1, axis2)


def _diagonal(op: str, x: ArrayLike, offset: int, axis1: int, axis2: int) -> Tensor:
    x = as_tensor(x)
    _diagonals_matrix_shape(op, x)
    plane = ordered_axes_argument(op, (axis1, axis2), x.ndim)
    rows, columns = (x.shape[i] for i in plane)
    first, start = max(-offset, 0), max(offset, 0)
    n = max(min(rows - first, columns - start), 0)
    matrices = moveaxis(x, plane, (-2, -1))
    square = matrices[..., first : first + n, start : start + n]
    return record(Einsum("...ii->...i"), (node_of(square),))


def tril(x: ArrayLike, k: int = 0) -> Tensor:
    """Return the last two dimensions with zeros above the `k`-th diagonal.

    >>> pb.tril([[1, 2], [3, 4]]).tolist()
    [[1, 0], [3, 4]]
    """
    return _triangle_from_diagonal("tril", x, k, GreaterEqual)


def triu(x: ArrayLike, k: int = 0) -> Tensor:
    """Return the last two dimensions with zeros below the `k`-th diagonal.

    >>> pb.triu([[1, 2], [3, 4]]).tolist()
    [[1, 2], [0, 4]]
    """
    return _triangle_from_diagonal("triu", x, k, LessEqual)


def _triangle_from_diagonal(
    op: str, x: ArrayLike, k: int, compare: type[GreaterEqual] | type[LessEqual]
) -> Tensor:
    """The elements where `compare(row + k, column)` is true; 0 elsewhere."""
    x = as_tensor(x)
    shape = _diagonals_matrix_shape(op, x)
    rows, columns = (record(Iota(shape, i, int64), ())._node for i in (0, 1))
    # Beyond the corners nothing changes.
    shift = integer_argument_node(op, k, "k", lambda k: min(max(k, -shape[0]), shape[1]))
    inside = apply(compare, apply(Add, rows, shift)._node, columns)._node
    return apply(Where, inside, node_of(x), constant_node(0, x.dtype))


def _diagonals_matrix_shape(op: str, x: Tensor) -> tuple[int, int]:
    if x.ndim < 2:
        raise ShapeError(f"needs rank 2 or more, got {x._node.type}", op=op, code="E3002")
    return x.shape[-2], x.shape[-1]


@composed
def diag_embed(x: ArrayLike, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Return matrices, along two new axes, with the last axis of x in a diagonal and 0 elsewhere.

    >>> pb.diag_embed([[1, 2], [3, 4]]).tolist()
    [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    a = as_tensor(x)
    if not a.ndim:
        raise ShapeError("needs rank 1 or more, got rank 0")
    first, second = ordered_axes_argument("diag_embed", (axis1, axis2), a.ndim + 1)
    n = a.shape[-1]
    i = np.arange(n)
    empty = zeros((*a.shape[:-1], n + abs(offset), n + abs(offset)), dtype=a.dtype)
    made = scatter(empty, (..., i - min(offset, 0), i + max(offset, 0)), a) if a.size else empty
    return moveaxis(made, (-2, -1), (first, second))


@with_argument_checks
def matrix_trace(
    x: ArrayLike, offset: int = 0, axis1: int = -2, axis2: int = -1,
    dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the sum of the diagonal in the plane of two axes, the last two by default.

    (`pb.trace` records programs.)

    >>> pb.matrix_trace([[1, 2], [3, 4]]).item()
    5
    """
    return sum_over(_diagonal("matrix_trace", x, offset, axis1, axis2), axis=-1, dtype=dtype)


__all__ = [
    "diag", "diag_embed", "diagflat", "diagonal", "fill_diagonal", "matrix_trace", "tri", "tril",
    "triu",
]  # fmt: skip
