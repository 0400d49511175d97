"""Kernels for stacks of small square matrices: factorizations, and systems of linear equations.

The algorithms are unrolled. Rows are tiles (`matrix_tiles.py`), so exchanges of rows are selects.
The first arguments of a kernel are its operands, the others its results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from pullback.engines.xla.triton.matrix_tiles import (
    MATRIX_KINDS,
    MatrixStack,
    MatrixTiles,
    Reciprocal,
)
from pullback.engines.xla.triton.tile_text import Tile

LARGEST = 16  # rows of a matrix: larger ones need more registers than a lane has
MOST_COLUMNS = (1 << 16) - 1  # right-hand sides: programs along the second axis of the grid
MOST = 1 << 30  # matrices, which i32 counts


def has_kernel(kind: str, count: int, n: int, k: int = 1) -> bool:
    """Whether there are kernels for `count` matrices of n rows, and k right-hand sides."""
    return kind in MATRIX_KINDS and count <= MOST and n <= LARGEST and k <= MOST_COLUMNS


def cholesky_kernel(kind: str, count: int, n: int) -> MatrixTiles:
    """The lower triangular factors; NaN for a matrix that is not positive definite."""
    m = MatrixTiles(f"cholesky_{n}_{kind}", kind, count, n, [MatrixStack(n)] * 2)
    with m.loop():
        rows = m.load(0)
        good = m.all([_cholesky_step(m, j, rows) for j in range(n)])
        lower = [m.select(m.column_is("sle", i), row, m.number(0)) for i, row in enumerate(rows)]
        m.store(1, [m.select(good, row, m.number(np.nan)) for row in lower])
    return m


def lu_kernel(kind: str, count: int, n: int, columns: bool) -> MatrixTiles:
    """The factors and the exchanges of rows; with `columns`, those of the transpose."""
    name, stack = f"lu_{n}_{'columns' if columns else 'rows'}_{kind}", MatrixStack(n, columns)
    m = MatrixTiles(name, kind, count, n, [stack, stack, MatrixStack(1, kind="i32")])
    with m.loop():
        rows, chosen = m.load(0), []
        for j in range(n):
            step = _eliminated(m, j, rows, [])
            chosen.append(step.chosen)
            for i, factor in step.factors.items():
                rows[i] = m.select(m.column_is("eq", j), factor, rows[i])
        m.store(1, rows)
        m.store(2, chosen)
    return m


def solve_kernel(kind: str, count: int, n: int, k: int, transposed: bool) -> MatrixTiles:
    """The x for which a x = b, or a.T x = b; NaN for a singular matrix."""
    name, sides = f"solve_{n}x{k}_{'t' if transposed else 'n'}_{kind}", MatrixStack(k, wide=True)
    m = MatrixTiles(name, kind, count, n, [MatrixStack(n, transposed), sides, sides])
    with m.loop():
        m.store(2, _solved(m, m.load(0), m.load(1)))
    return m


def inverse_kernel(kind: str, count: int, n: int) -> MatrixTiles:
    """The inverses; NaN for a singular matrix.

    They are those of the transposes, with the pivots of `lu_kernel` with columns: the derivative of
    a determinant is the product with the inverse, in which the error of a tiny pivot cancels.
    """
    m = MatrixTiles(f"inverse_{n}_{kind}", kind, count, n, [MatrixStack(n, transposed=True)] * 2)
    with m.loop():
        unit = [m.select(m.column_is("eq", i), m.number(1), m.number(0)) for i in range(n)]
        m.store(1, _solved(m, m.load(0), [m.k.broadcast(y, m.shape) for y in unit]))
    return m


def triangular_solve_kernel(
    kind: str, count: int, n: int, k: int, lower: bool, transposed: bool, unit: bool
) -> MatrixTiles:
    """The x for which a x = b, or a.T x = b, with the lower or upper triangle of a."""
    how = ("l" if lower else "u") + ("t" if transposed else "n") + ("u" if unit else "n")
    name, sides = f"triangular_solve_{n}x{k}_{how}_{kind}", MatrixStack(k, wide=True)
    m = MatrixTiles(name, kind, count, n, [MatrixStack(n, transposed), sides, sides])
    with m.loop():
        rows, ys = m.load(0), m.load(1)
        pivots = None if unit else [m.reciprocal(m.at(rows[i], i)) for i in range(n)]
        _substitute(m, rows, range(n) if lower != transposed else range(n)[::-1], pivots, ys)
        m.store(2, ys)
    return m


def _cholesky_step(m: MatrixTiles, j: int, rows: list[Tile]) -> Tile:
    """Compute column j of the factors; return whether its pivots are positive. What is above the
    diagonal does not count."""
    column = {i: m.at(rows[i], j) for i in range(j, m.n)}
    root = m.square_root(column[j])
    inverse = m.inverted(root)  # finite: no number has a square root that is so small
    factors = {i: m.times(column[i], inverse) for i in range(j + 1, m.n)}
    turned = m.k.broadcast(m.number(0), m.shape)  # the column as a row
    for i, factor in factors.items():
        turned = m.select(m.column_is("eq", i), factor, turned)
    for i, factor in [(j, root), *factors.items()]:
        rest = m.less_product(rows[i], factor, turned) if i > j else rows[i]
        rows[i] = m.select(m.column_is("eq", j), factor, rest)
    return m.greater(column[j], m.number(0))


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


KERNELS: dict[str, Callable[..., MatrixTiles]] = {
    "cholesky": cholesky_kernel, "lu": lu_kernel, "solve": solve_kernel,
    "inverse": inverse_kernel, "triangular_solve": triangular_solve_kernel,
}  # fmt: skip
