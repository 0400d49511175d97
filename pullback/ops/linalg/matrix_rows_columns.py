"""Parts of matrices, their transposes and scaled columns, for derivative rules."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.ops.elementwise.division import reciprocal_or_zero
from pullback.ops.elementwise.functions import cast
from pullback.ops.linalg.triangles_hermitian import on_diagonal
from pullback.ops.prelude import Node, constant_node
from pullback.ops.shape.concat_pad import Pad
from pullback.ops.shape.movement import Broadcast, Reshape, Transpose
from pullback.ops.shape.slicing import Slice


def columns(x: Node, start: int, stop: int) -> Node:
    """Return the columns from `start` to `stop` of matrices."""
    *shape, n = x.type.shape
    if (start, stop) == (0, n):
        return x
    zero = (0,) * len(shape)
    return Slice((*zero, start), (*shape, stop), (1,) * (len(shape) + 1))(x)


def rows(x: Node, start: int, stop: int) -> Node:
    """Return the rows from `start` to `stop` of matrices."""
    *batch, m, n = x.type.shape
    if (start, stop) == (0, m):
        return x
    zero = (0,) * len(batch)
    return Slice((*zero, start, 0), (*batch, stop, n), (1,) * (len(batch) + 2))(x)


def swap_rows_columns(x: Node) -> Node:
    """Return the transpose of matrices, without conjugation."""
    rank = x.type.rank
    return Transpose((*range(rank - 2), rank - 1, rank - 2))(x)


def padded_matrix_columns(x: Node, size: int) -> Node:
    """Return x with zeros behind, so that the last dimension has the given size."""
    *shape, n = x.type.shape
    if n == size:
        return x
    zero = (0,) * (len(shape) + 1)
    return Pad(zero, (*zero[1:], size - n), zero)(x, constant_node(0, x.type.dtype))


def padded_matrix_rows(x: Node, size: int) -> Node:
    """Return matrices with zero rows below, so that there are `size` rows."""
    *batch, m, _ = x.type.shape
    if m == size:
        return x
    zero = (0,) * (len(batch) + 2)
    return Pad(zero, (*zero[2:], size - m, 0), zero)(x, constant_node(0, x.type.dtype))


def add_matrix_terms(terms: Sequence[Node]) -> Node:
    """Return the sum of one or more terms."""
    made = terms[0]
    for term in terms[1:]:
        made = made + term
    return made


def diagonal(x: Node) -> Node:
    """Return the diagonal of square matrices, as vectors."""
    *batch, n, _ = x.type.shape
    flat = Reshape((*batch, n * n))(x)
    return Slice((0,) * (len(batch) + 1), flat.type.shape, (*(1,) * len(batch), n + 1))(flat)


def as_row(x: Node) -> Node:
    """Return vectors as rows of matrices, which broadcast over the rows of others."""
    return Reshape((*x.type.shape[:-1], 1, x.type.shape[-1]))(x)


def as_column(x: Node) -> Node:
    """Return vectors as columns of matrices."""
    return Reshape((*x.type.shape, 1))(x)


def scaled_columns(x: Node, scale: Node) -> Node:
    """Return matrices with each column times its number."""
    return x * cast(as_row(scale), x.type.dtype)


def reciprocal_column_row_differences(x: Node) -> Node:
    """Return 1 / (x[j] - x[i]) as matrices, or 0 where they are equal, as on the diagonal."""
    return reciprocal_or_zero(as_row(x) - as_column(x))


def diagonal_matrix(x: Node) -> Node:
    """Return matrices with the given diagonals."""
    *batch, n = x.type.shape
    return on_diagonal(Broadcast((*batch, n, n))(as_row(x)))
