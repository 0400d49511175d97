"""Matrices with a structure: blocks on the diagonal, constant diagonals."""

from __future__ import annotations

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, float_node, literal_argument
from pullback.functions.complex_parts import conj
from pullback.functions.creation import eye, ones, zeros, zeros_like
from pullback.functions.flip_roll_resize import flip
from pullback.functions.joining import concat
from pullback.functions.padding import pad
from pullback.functions.shape import broadcast_shapes, broadcast_to
from pullback.functions.where_take import take
from pullback.graph.dtypes import float64, int64
from pullback.lazy.operators import as_tensor, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.shape.iota import Iota
from pullback.typing import ArrayLike, DTypeLike


def block_diag(*arrays: ArrayLike) -> Tensor:
    """Return the matrix with the given matrices along its diagonal, and zeros elsewhere.

    A vector is a row, a number a matrix of one element. Dimensions before the last two are those
    of a stack; they broadcast.

    >>> pb.linalg.block_diag([[1, 2]], 3).tolist()
    [[1, 2, 0], [0, 0, 3]]
    """
    blocks = [as_tensor(a) for a in arrays] or [zeros((1, 0))]
    blocks = [wrap(a) for a in operator_operands(*blocks)]
    blocks = [a.reshape((1,) * (2 - a.ndim) + a.shape) if a.ndim < 2 else a for a in blocks]
    lead = broadcast_shapes(*[a.shape[:-2] for a in blocks])
    width = sum([a.shape[-1] for a in blocks])
    rows, before = [], 0
    for a in blocks:
        a = broadcast_to(a, (*lead, *a.shape[-2:]))
        after = width - before - a.shape[-1]
        rows.append(pad(a, [*[(0, 0)] * (a.ndim - 1), (before, after)]))
        before += a.shape[-1]
    return concat(rows, axis=-2)


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """Return the matrix with constant diagonals that has the first column `c` and first row `r`.

    Without `r`, the row is the conjugate of the column. The first element of `r` has no effect.
    Dimensions before the last one are those of a stack; they broadcast.

    >>> pb.linalg.toeplitz([1, 2, 3], [1, 4]).tolist()
    [[1, 4], [2, 1], [3, 2]]
    """
    column = _construction_vector("linalg.toeplitz", "c", c)
    row = conj(column) if r is None else _construction_vector("linalg.toeplitz", "r", r)
    column, row = _vectors_for_construction(column, row)
    m, n = column.shape[-1], row.shape[-1]
    diagonals = concat([flip(column, axis=-1), row[..., 1:]], axis=-1)
    i, j = _construction_places(m, n)
    return take(diagonals, j - i + literal_argument(max(m - 1, 0), int64), axis=-1)


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """Return the matrix with constant antidiagonals that has the first column `c`, last row `r`.

    Without `r`, the row is zero. The first element of `r` has no effect.

    >>> pb.linalg.hankel([1, 2, 3], [3, 4]).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    column = _construction_vector("linalg.hankel", "c", c)
    row = zeros_like(column) if r is None else _construction_vector("linalg.hankel", "r", r)
    column, row = _vectors_for_construction(column, row)
    i, j = _construction_places(column.shape[-1], row.shape[-1])
    return take(concat([column, row[..., 1:]], axis=-1), i + j, axis=-1)


def circulant(c: ArrayLike) -> Tensor:
    """Return the square matrix with the first column `c`; each further column is rotated by one.

    >>> pb.linalg.circulant([1, 2, 3]).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    column = _construction_vector("linalg.circulant", "c", c)
    n = column.shape[-1]
    i, j = _construction_places(n, n)
    return take(column, (i - j) % literal_argument(max(n, 1), int64), axis=-1)


def companion(a: ArrayLike) -> Tensor:
    """Return the companion matrix of a polynomial, whose eigenvalues are its roots; the coefficient
    of the highest power comes first.

    >>> pb.linalg.companion([1.0, -3.0, 2.0]).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    name = "linalg.companion"
    x = wrap(float_node(_construction_vector(name, "a", a)))
    if x.shape[-1] < 2:
        raise ShapeError(f"a must have two elements or more, got {x._node.type}", op=name)
    n = x.shape[-1] - 1
    first = -x[..., 1:] / x[..., :1]
    rest = broadcast_to(eye(n - 1, n, dtype=x.dtype), (*x.shape[:-1], n - 1, n))
    return concat([first[..., None, :], rest], axis=-2)


def hadamard(n: int, dtype: DTypeLike = int) -> Tensor:
    """Return the Hadamard matrix of size n, a power of 2: its elements are 1 and -1, and its
    columns are orthogonal.

    >>> pb.linalg.hadamard(2).tolist()
    [[1, 1], [1, -1]]
    """
    size = checked_integer_argument("linalg.hadamard", n, "n")
    if size < 1 or size & (size - 1):
        raise ArgumentError(f"n must be a power of 2, got {n}", op="linalg.hadamard")
    made = ones((1, 1), dtype=dtype)
    while made.shape[0] < size:
        made = concat([concat([made, made], axis=1), concat([made, -made], axis=1)], axis=0)
    return made


def hilbert(n: int) -> Tensor:
    """Return the Hilbert matrix of size n in f64: 1 / (i + j + 1) at row i and column j.

    >>> pb.linalg.hilbert(2).numpy().round(3).tolist()
    [[1.0, 0.5], [0.5, 0.333]]
    """
    size = checked_integer_argument("linalg.hilbert", n, "n")
    if size < 0:
        raise ArgumentError(f"n must not be negative, got {n}", op="linalg.hilbert")
    i, j = _construction_places(size, size)
    return 1 / (i + j + 1).astype(float64)


def _construction_vector(op: str, name: str, x: ArrayLike) -> Tensor:
    a = as_tensor(x)
    if a.ndim == 0:
        raise ShapeError(f"{name} must be a vector, got {a._node.type}", op=op, code="E3002")
    return a


def _vectors_for_construction(*xs: Tensor) -> list[Tensor]:
    """Vectors of one dtype, in stacks of one shape."""
    made = [wrap(a) for a in operator_operands(*xs)]
    lead = broadcast_shapes(*[a.shape[:-1] for a in made])
    return [broadcast_to(a, (*lead, a.shape[-1])) for a in made]


def _construction_places(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """The row and the column of each element of a matrix."""
    i, j = (record(Iota((rows, columns), axis, int64), ()) for axis in (0, 1))
    return i, j


__all__ = ["block_diag", "circulant", "companion", "hadamard", "hankel", "hilbert", "toeplitz"]
