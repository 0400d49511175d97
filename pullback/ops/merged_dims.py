"""Dimensions that follow each other in memory, as one: kernels have shorter loops then."""

from __future__ import annotations

from collections.abc import Sequence

# Dimensions, from the outermost: a size, and the distances along it in several arrays
Dims = list[tuple[int, ...]]


def merged_dims(dims: Sequence[tuple[int, ...]]) -> Dims:
    """Return the dimensions of more than one element; neighbours are one where all distances allow
    it."""
    found: Dims = []
    for n, *strides in dims:
        if n == 1:
            continue
        if found and all(s == n * t for s, t in zip(found[-1][1:], strides, strict=True)):
            found[-1] = (found[-1][0] * n, *strides)
        else:
            found.append((n, *strides))
    return found
