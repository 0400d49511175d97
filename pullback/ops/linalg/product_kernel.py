"""The call of the kernel that multiplies matrices on CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pullback.graph.dtypes import float32, float64
from pullback.graph.types import Type
from pullback.ops.merged_dims import Dims, merged_dims

_ADDENDS = 2  # `kAddends` in product.h
# Measured: XLA is faster where there are fewer rows, columns or terms.
_LEAST = 8
_LEAST_OF_LARGE = 16, 48  # rows and columns of a single product
_MOST_OF_NARROW = 512, 32  # rows and columns of one with fewer columns
_LEAST_OF_TRANSPOSED = 16  # rows, if XLA would have to transpose the first operand
_SMALL = 1 << 17  # products of numbers, which take XLA longer to start


def product_call(
    b: Any, out: Type, x: Any, y: Any, contract: Any, batch: Any, addends: Sequence[Any] = ()
) -> Any:
    """Call the kernel for the result of `stablehlo.dot_general`; None where XLA is as fast.

    The kernel takes matrices that are anywhere in memory. Dimensions of a kind are merged where
    they follow each other there, as those that are summed over must. Others become loops around
    the product. Up to two values that broadcast to the result are added to it.
    """
    if x.dtype not in (float32, float64) or not (out.size and x.type.size):
        return None
    (base_x, start_x, at_x), (base_y, start_y, at_y) = b.strided(x), b.strided(y)
    added = [b.strided(b.broadcast(v, out.shape)) for v in addends]
    at_out = iter(_product_strides(out.shape, [strides for *_, strides in added]))
    own_x, own_y = ({*c, *shared} for c, shared in zip(contract, batch, strict=True))
    pairs = zip(*batch, strict=True)
    loops: Dims = [(x.shape[i], at_x[i], at_y[j], *next(at_out)) for i, j in pairs]
    rows, columns = (
        merged_dims([(v.shape[i], at[i], *next(at_out)) for i in range(len(at)) if i not in own])
        for v, at, own in ((x, at_x, own_x), (y, at_y, own_y))
    )
    sums: Dims = [(x.shape[i], at_x[i], at_y[j]) for i, j in zip(*contract, strict=True)]
    sums = merged_dims(sorted(sums, key=lambda dim: dim[1:], reverse=True))
    if len(sums) != 1 or not rows or not columns:
        return None
    row, column, depth = rows.pop(rows.index(max(rows))), columns.pop(), sums[0]
    loops += [(n, s, 0, *t) for n, s, *t in rows] + [(n, 0, s, *t) for n, s, *t in columns]
    loops, sizes = merged_dims(loops), (row[0], column[0], depth[0])
    if not _is_worthwhile_product(sizes, bool(loops), transposed=row[1] < depth[1]):
        return None
    if any(s != 1 for s in column[3 : 3 + len(added)]):  # the kernel adds rows
        return None
    places = [start_x, row[1], depth[1], start_y, depth[2], column[1], row[2]]
    places += [n for (_, start, _), s in zip(added, row[3:]) for n in (start, s)]
    flat = tuple([n for loop in loops for n in loop])
    operands = [base_x, base_y, *[base for base, *_ in added]]
    return b.kernel("product", *operands, out=out, sizes=sizes, places=tuple(places), batch=flat)


def _product_strides(shape: Sequence[int], addends: Sequence[Sequence[int]]) -> Dims:
    """The distances along each dimension in the result, and in as many addends as there can be."""
    own = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    none = [[0] * len(shape)] * (_ADDENDS - len(addends))
    return list(zip(own, *addends, *none, strict=True))


def _is_worthwhile_product(sizes: tuple[int, ...], batched: bool, transposed: bool) -> bool:
    rows, columns, _ = sizes
    if min(sizes) < _LEAST:
        return False
    if batched or math.prod(sizes) < _SMALL:
        return True
    if transposed:
        return rows >= _LEAST_OF_TRANSPOSED
    if rows <= _MOST_OF_NARROW[0] and columns <= _MOST_OF_NARROW[1]:
        return rows >= _LEAST_OF_LARGE[0]
    return rows >= _LEAST_OF_LARGE[0] and columns >= _LEAST_OF_LARGE[1]
