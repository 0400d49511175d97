"""The call of the kernel that multiplies matrices on CPUs."""

from __future__ import annotations

import math
from typing import Any

from pullback.graph.dtypes import float32, float64
from pullback.graph.types import Type

# Dimensions, from the outermost: a size, and the distances along it in several tensors
Dims = list[tuple[int, ...]]

# Measured: XLA is faster where there are fewer rows, columns or terms.
_LEAST = 8
_LEAST_OF_LARGE = 48  # rows and columns of a single product, which must pay for packing operands
_LEAST_OF_TRANSPOSED = 24  # rows, if XLA would have to transpose the first operand
_SMALL = 1 << 17  # products of numbers, which take XLA longer to start


def product_call(b: Any, out: Type, x: Any, y: Any, contract: Any, batch: Any) -> Any:
    """Call the kernel for the result of `stablehlo.dot_general`; None where XLA is as fast.

    The kernel takes matrices that are anywhere in memory. Dimensions of a kind are merged where
    they follow each other there, as those that are summed over must. Others become loops around
    the product.
    """
    if x.dtype not in (float32, float64) or not (out.size and x.type.size):
        return None
    (base_x, start_x, at_x), (base_y, start_y, at_y) = b.strided(x), b.strided(y)
    at_out = iter([math.prod(out.shape[i + 1 :]) for i in range(len(out.shape))])
    own_x, own_y = ({*c, *shared} for c, shared in zip(contract, batch, strict=True))
    pairs = zip(*batch, strict=True)
    loops: Dims = [(x.shape[i], at_x[i], at_y[j], next(at_out)) for i, j in pairs]
    rows, columns = (
        _merged_dims([(v.shape[i], at[i], next(at_out)) for i in range(len(at)) if i not in own])
        for v, at, own in ((x, at_x, own_x), (y, at_y, own_y))
    )
    sums: Dims = [(x.shape[i], at_x[i], at_y[j]) for i, j in zip(*contract, strict=True)]
    sums = _merged_dims(sorted(sums, key=lambda dim: dim[1:], reverse=True))
    if len(sums) != 1 or not rows or not columns:
        return None
    row, column = rows.pop(rows.index(max(rows))), columns.pop()
    sizes = row[0], column[0], sums[0][0]
    loops += [(n, s, 0, t) for n, s, t in rows] + [(n, 0, s, t) for n, s, t in columns]
    loops = _merged_dims(loops)
    if not _is_worthwhile(sizes, bool(loops), transposed=row[1] < sums[0][1]):
        return None
    places = start_x, row[1], sums[0][1], start_y, sums[0][2], column[1], row[2]
    flat = tuple([n for loop in loops for n in loop])
    return b.kernel("product", base_x, base_y, out=out, sizes=sizes, places=places, batch=flat)


def _is_worthwhile(sizes: tuple[int, ...], batched: bool, transposed: bool) -> bool:
    rows, columns, _ = sizes
    if min(sizes) < _LEAST:
        return False
    if batched or math.prod(sizes) < _SMALL:
        return True
    return rows >= _LEAST_OF_TRANSPOSED if transposed else min(rows, columns) >= _LEAST_OF_LARGE


def _merged_dims(dims: Dims) -> Dims:
    """Dimensions of more than one element; neighbours are one where all distances allow it."""
    found: Dims = []
    for n, *strides in dims:
        if n == 1:
            continue
        if found and all(s == n * t for s, t in zip(found[-1][1:], strides, strict=True)):
            found[-1] = (found[-1][0] * n, *strides)
        else:
            found.append((n, *strides))
    return found
