"""Linear equations whose matrix is given by its diagonals or by one column.

Circulant systems are solved by Fourier transforms. The others are written out as matrices and
factorized, so they cost as much as any system of their size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument, literal_argument
from pullback.functions.complex_parts import real
from pullback.functions.composed import composed
from pullback.functions.where_take import where
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor, wrap
from pullback.linalg.arguments import float_linalg_arguments, matrix_adjoint
from pullback.linalg.construction import toeplitz
from pullback.linalg.factorizations import cholesky
from pullback.linalg.solvers import cho_solve, solve
from pullback.typing import ArrayLike

__all__ = ["solve_banded", "solve_circulant", "solve_toeplitz", "solveh_banded"]


@composed
def solve_banded(l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the solution x of a @ x = b, where a has l diagonals below its main one and u above.

    Row u + i - j of `ab` has the element of row i and column j of a in column j: it holds the
    diagonals, the uppermost first.

    >>> ab = [[0.0, 1.0, 1.0], [2.0, 4.0, 2.0], [1.0, 1.0, 0.0]]
    >>> pb.linalg.solve_banded((1, 1), ab, [4.0, 4.0, 4.0]).tolist()
    [2.0, 0.0, 2.0]
    """
    name = "linalg.solve_banded"
    if not isinstance(l_and_u, (tuple, list)) or len(l_and_u) != 2:
        raise ArgumentError(f"l_and_u must be two integers, got {l_and_u!r}", op=name)
    below, above = (checked_integer_argument(name, k, "l_and_u") for k in l_and_u)
    if below < 0 or above < 0:
        raise ArgumentError(f"l_and_u must not be negative, got {l_and_u!r}", op=name)
    diagonals, right = (wrap(x) for x in float_linalg_arguments(ab, b))
    _check_structured_solver_rows(name, diagonals, below + above + 1)
    return solve(_solver_from_diagonals(diagonals, below, above), right)


@composed
def solveh_banded(ab: ArrayLike, b: ArrayLike, lower: bool = False) -> Tensor:
    """Return the solution x of a @ x = b, where a is positive definite and has few diagonals.

    `ab` holds the diagonals as in `solve_banded`: those above the main one, the uppermost first,
    and the main one; or with `lower` the main one and those below. If a is not positive definite,
    the result is NaN.

    >>> pb.linalg.solveh_banded([[0.0, 1.0], [2.0, 2.0]], [3.0, 3.0]).numpy().round(5).tolist()
    [1.0, 1.0]
    """
    name = "linalg.solveh_banded"
    diagonals, right = (wrap(x) for x in float_linalg_arguments(ab, b))
    _check_structured_solver_rows(name, diagonals, None)
    width = diagonals.shape[-2] - 1
    part = _solver_from_diagonals(diagonals, *((width, 0) if lower else (0, width)))
    off_diagonal = where(~np.eye(part.shape[-1], dtype=bool), part, literal_argument(0, part.dtype))
    return cho_solve((cholesky(part + matrix_adjoint(off_diagonal)), True), right)


def _check_structured_solver_rows(name: str, ab: Tensor, rows: int | None) -> None:
    if ab.ndim < 2 or not ab.shape[-2] or (rows is not None and ab.shape[-2] != rows):
        wanted = "at least one row" if rows is None else f"{rows} rows, one for each diagonal"
        raise ShapeError(f"ab must be a matrix with {wanted}, got {ab._node.type}", op=name)


def _solver_from_diagonals(ab: Tensor, below: int, above: int) -> Tensor:
    """The matrices with these diagonals, and zeros elsewhere."""
    n = ab.shape[-1]
    i, j = np.indices((n, n))
    row = above + i - j
    inside = (row >= 0) & (row <= below + above)
    found = ab[..., np.clip(row, 0, below + above), j]
    return where(inside, found, literal_argument(0, ab.dtype))


@composed
def solve_toeplitz(c_or_cr: ArrayLike | Sequence[ArrayLike], b: ArrayLike) -> Tensor:
    """Return the solution x of toeplitz(c, r) @ x = b: `c_or_cr` is c, or the pair of c and r.

    >>> pb.linalg.solve_toeplitz(([2.0, 1.0], [2.0, 0.0]), [2.0, 3.0]).tolist()
    [1.0, 1.0]
    """
    pair = isinstance(c_or_cr, tuple)
    if pair and len(c_or_cr) != 2:  # type: ignore[arg-type]
        raise ArgumentError("c_or_cr must be c or the pair (c, r)", op="linalg.solve_toeplitz")
    return solve(toeplitz(*c_or_cr) if pair else toeplitz(c_or_cr), b)  # type: ignore[misc, arg-type]


@composed
def solve_circulant(c: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the solution x of circulant(c) @ x = b, by Fourier transforms: `c` is a vector, and
    `b` a vector or a matrix whose columns are right-hand sides.

    >>> pb.linalg.solve_circulant([2.0, 1.0], [4.0, 5.0]).numpy().round(5).tolist()
    [1.0, 2.0]
    """
    from pullback.fft import fft, ifft  # loaded when used

    column, right = (wrap(x) for x in float_linalg_arguments(as_tensor(c), as_tensor(b)))
    n = column.shape[0] if column.ndim == 1 else -1
    if right.ndim not in (1, 2) or right.shape[0] != n:
        what = "needs a vector c and as many rows of b as it has elements"
        got = f"{column._node.type} and {right._node.type}"
        raise ShapeError(f"{what}, got {got}", op="linalg.solve_circulant")
    scale = fft(column).reshape((n, *(1,) * (right.ndim - 1)))
    found = ifft(fft(right, axis=0) / scale, axis=0)
    return found if right.dtype.is_complex else real(found)
