"""Calls of kernels that work on rows: the last axes of operands that are stored by rows."""

from __future__ import annotations

from typing import Any

from pullback.graph.dtypes import float32, float64

_LONG = 1 << 17  # elements of a row that are worth more than one thread
# Rows that do not fill a vector take the kernels a few stalls each. Loops that XLA makes over many
# of them are faster, unless a row has more elements than XLA reduces without a library.
_SHORT, _SMALL = 8, 1 << 14  # elements of a row, and of an array that has few of them


def row_kernel_call(
    b: Any, name: str, *xs: Any, out: Any, axes: tuple[int, ...], flags: int = 0
) -> Any:
    """Call a kernel on the rows of `xs[0]` along `axes`; None if they are not the last axes, or the
    kernel would be no faster. Kernels give each row to one thread."""
    x, rank = xs[0], len(xs[0].shape)
    if not axes or axes != tuple(range(rank - len(axes), rank)):
        return None
    if x.dtype not in (float32, float64):
        return None
    n = 1
    for i in axes:
        n *= x.shape[i]
    if n > _LONG and x.type.size // n < 4:
        return None
    if n <= _SHORT and x.type.size > _SMALL and n * x.dtype.itemsize < b.kernel_vector_bytes:
        return None
    return b.kernel(name, *xs, out=out, dims=len(axes), flags=flags)
