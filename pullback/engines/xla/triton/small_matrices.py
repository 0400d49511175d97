"""Kernels for stacks of small square matrices: factorizations, and systems of linear equations.

The algorithms are unrolled. Rows are tiles (`matrix_tiles.py`), so exchanges of rows are selects.
The first arguments of a kernel are its operands, the others its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pullback.engines.xla.triton.matrix_tiles import MATRIX_KINDS, MatrixTiles, Reciprocal
from pullback.engines.xla.triton.tile_text import KernelText, Tile

LARGEST = 8  # rows of a matrix: the time to compile grows with the fifth power
MOST_COLUMNS = 1 << 16  # right-hand sides: a grid has fewer programs in its second dimension
MOST = (1 << 31) - 1  # matrices, which i32 counts


class SmallMatrixKernel(NamedTuple):
    text: KernelText
    grid: tuple[int, int]  # the programs, of one warp each


def has_kernel(kind: str, count: int, n: int, k: int = 1) -> bool:
    """Whether there are kernels for `count` matrices of n rows, and k right-hand sides."""
    return kind in MATRIX_KINDS and count <= MOST and n <= LARGEST and k <= MOST_COLUMNS


def cholesky_kernel(kind: str, count: int, n: int) -> SmallMatrixKernel:
    """The lower triangular factors; NaN for a matrix that is not positive definite."""
    m = MatrixTiles(f"cholesky_{n}", kind, [kind] * 2, count, n)
    rows = [m.load(0, i, m.column, n) for i in range(n)]
    positive = []
    for j in range(n):
        column = {i: m.at(rows[i], j) for i in range(j, n)}
        positive.append(m.greater(column[j], m.number(0)))
        root = m.square_root(column[j])
        inverse = m.inverted(root)  # finite: no number has a square root that is so small
        factors = {i: m.times(column[i], inverse) for i in range(j + 1, n)}
        turned = m.k.broadcast(m.number(0), m.shape)  # the column as a row
        for i, factor in factors.items():
            turned = m.select(m.column_is("eq", i), factor, turned)
        for i, factor in [(j, root), *factors.items()]:
            rest = m.less_product(rows[i], factor, turned) if i > j else rows[i]
            rows[i] = m.select(m.column_is("eq", j), factor, rest)
    good = m.all(positive)
    for i, row in enumerate(rows):
        lower = m.select(m.column_is("sle", i), row, m.number(0))
        m.store(1, i, m.column, n, m.select(good, lower, m.number(np.nan)))
    return SmallMatrixKernel(m.k, (m.down, 1))


def lu_kernel(kind: str, count: int, n: int, columns: bool) -> SmallMatrixKernel:
    """The factors and the exchanges of rows; with `columns`, those of the transpose."""
    name = f"lu_{n}_{'columns' if columns else 'rows'}"
    m = MatrixTiles(name, kind, [kind, kind, "i32"], count, n)
    rows = [m.load(0, i, m.column, n, columns) for i in range(n)]
    for j in range(n):
        step = _eliminated(m, j, rows, [])
        m.store_number(2, j, step.chosen)
        for i, factor in step.factors.items():
            rows[i] = m.select(m.column_is("eq", j), factor, rows[i])
    for i, row in enumerate(rows):
        m.store(1, i, m.column, n, row, columns)
    return SmallMatrixKernel(m.k, (m.down, 1))


def solve_kernel(kind: str, count: int, n: int, k: int, transposed: bool) -> SmallMatrixKernel:
    """The x for which a x = b, or a.T x = b; NaN for a singular matrix."""
    name = f"solve_{n}x{k}_{'t' if transposed else 'n'}"
    m = MatrixTiles(name, kind, [kind] * 3, count, n)
    rows = [m.load(0, i, m.column, n, transposed) for i in range(n)]
    column = m.numbered("y", m.width, m.column)
    ys = [m.load(1, i, column, k) for i in range(n)]
    for i, y in enumerate(_solved(m, rows, ys)):
        m.store(2, i, column, k, y)
    return SmallMatrixKernel(m.k, (m.down, -(-k // m.width)))


def inverse_kernel(kind: str, count: int, n: int) -> SmallMatrixKernel:
    """The inverses; NaN for a singular matrix."""
    m = MatrixTiles(f"inverse_{n}", kind, [kind] * 2, count, n)
    rows = [m.load(0, i, m.column, n) for i in range(n)]
    identity = [m.select(m.column_is("eq", i), m.number(1), m.number(0)) for i in range(n)]
    for i, y in enumerate(_solved(m, rows, [m.k.broadcast(y, m.shape) for y in identity])):
        m.store(1, i, m.column, n, y)
    return SmallMatrixKernel(m.k, (m.down, 1))


def triangular_solve_kernel(
    kind: str, count: int, n: int, k: int, lower: bool, transposed: bool, unit: bool
) -> SmallMatrixKernel:
    """The x for which a x = b, or a.T x = b, with the lower or upper triangle of a."""
    how = ("l" if lower else "u") + ("t" if transposed else "n") + ("u" if unit else "n")
    m = MatrixTiles(f"triangular_solve_{n}x{k}_{how}", kind, [kind] * 3, count, n)
    rows = [m.load(0, i, m.column, n, transposed) for i in range(n)]
    column = m.numbered("y", m.width, m.column)
    ys = [m.load(1, i, column, k) for i in range(n)]
    pivots = None if unit else [m.reciprocal(m.at(rows[i], i)) for i in range(n)]
    _substitute(m, rows, range(n) if lower != transposed else range(n)[::-1], pivots, ys)
    for i, y in enumerate(ys):
        m.store(2, i, column, k, y)
    return SmallMatrixKernel(m.k, (m.down, -(-k // m.width)))


def _solved(m: MatrixTiles, rows: list[Tile], ys: list[Tile]) -> list[Tile]:
    steps = [_eliminated(m, j, rows, ys) for j in range(m.n)]
    _substitute(m, rows, range(m.n)[::-1], [step.pivot for step in steps], ys)
    regular = m.all([step.regular for step in steps])
    return [m.select(regular, y, m.number(np.nan)) for y in ys]


class _Step(NamedTuple):
    """What the elimination of one column leaves, for each matrix."""

    chosen: Tile  # the row that was exchanged with that of the pivot
    pivot: Reciprocal
    regular: Tile  # whether the pivot is not 0
    factors: dict[int, Tile]  # of the rows below


def _eliminated(m: MatrixTiles, j: int, rows: list[Tile], ys: list[Tile]) -> _Step:
    """Eliminate column j from the rows below, which keep their numbers up to that column, and from
    right-hand sides. A pivot of 0 has zeros below it."""
    column = {i: m.at(rows[i], j) for i in range(j, m.n)}
    chosen = _largest(m, column)
    _exchange(m, chosen, j, column)
    _exchange(m, chosen, j, rows)
    if ys:
        _exchange(m, chosen, j, ys)
    singular = m.equal(column[j], m.number(0))
    pivot = m.reciprocal(m.select(singular, m.number(1), column[j]))
    after = m.select(m.column_is("sgt", j), rows[j], m.number(0))
    factors = {i: m.over(column[i], pivot) for i in range(j + 1, m.n)}
    for i, factor in factors.items():
        rows[i] = m.less_product(rows[i], factor, after)
        if ys:
            ys[i] = m.less_product(ys[i], factor, ys[j])
    return _Step(chosen, pivot, m.negated(singular), factors)


def _largest(m: MatrixTiles, xs: dict[int, Tile]) -> Tile:
    """The key of the number with the largest magnitude, of the first among equals. As in LAPACK,
    NaN is chosen only if it is the first."""
    sizes = {i: m.op("math.absf", x) for i, x in xs.items()}
    first = next(iter(sizes))
    best, found = sizes.pop(first), m.integer(first)
    for i, size in sizes.items():
        larger = m.greater(size, best)
        best, found = m.select(larger, size, best), m.select(larger, m.integer(i), found)
    return found


def _exchange(m: MatrixTiles, chosen: Tile, j: int, xs: dict[int, Tile] | list[Tile]) -> None:
    """Exchange what is in place j with what is in a place after it, or in the same."""
    first = xs[j]
    for i in range(j + 1, m.n):
        here = m.equal(chosen, m.integer(i))
        xs[j] = m.select(here, xs[i], xs[j])
        xs[i] = m.select(here, first, xs[i])


def _substitute(
    m: MatrixTiles, rows: list[Tile], order: Sequence[int], pivots: list[Reciprocal] | None,
    ys: list[Tile],
) -> None:  # fmt: skip
    """Solve a triangular system in place, for unknowns in this order. Without pivots, there are
    ones on the diagonal."""
    for place, j in enumerate(order):
        if pivots is not None:
            ys[j] = m.over(ys[j], pivots[j])
        for i in order[place + 1 :]:
            ys[i] = m.less_product(ys[i], m.at(rows[i], j), ys[j])


KERNELS: dict[str, Callable[..., SmallMatrixKernel]] = {
    "cholesky": cholesky_kernel, "lu": lu_kernel, "solve": solve_kernel,
    "inverse": inverse_kernel, "triangular_solve": triangular_solve_kernel,
}  # fmt: skip
