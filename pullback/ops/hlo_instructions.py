"""StableHLO instructions that ops of several families write, with the types of their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.graph.types import Type


def hlo_slice_instruction(
    b: Any, x: Any, starts: Sequence[int], stops: Sequence[int], strides: Sequence[int] = ()
) -> Any:
    """Write a slice; without `strides`, of adjacent elements."""
    strides = strides or (1,) * len(starts)
    shape = tuple([len(range(*bounds)) for bounds in zip(starts, stops, strides, strict=True)])
    return b.op(
        "stablehlo.slice", x, out=Type(shape, x.dtype), start_indices=tuple(starts),
        limit_indices=tuple(stops), strides=tuple(strides),
    )  # fmt: skip


def hlo_stack_instruction(b: Any, xs: Sequence[Any], axis: int) -> Any:
    """Write values of one type side by side along a new dimension."""
    shape = list(xs[0].shape)
    shape.insert(axis, 1)
    parts = [b.reshape(x, tuple(shape)) for x in xs]
    shape[axis] = len(xs)
    if len(xs) == 1:
        return parts[0]
    out = Type(tuple(shape), xs[0].dtype)
    return b.op("stablehlo.concatenate", *parts, out=out, dimension=axis)


def hlo_lookup_instruction(b: Any, values: Any, index: Any) -> Any:
    """The elements of a vector at an array of indices, which are in range."""
    rank = len(index.shape)
    numbers = f"collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {rank}"
    return b.op(
        "stablehlo.gather", values, b.reshape(index, (*index.shape, 1)),
        out=Type(index.shape, values.dtype), dimension_numbers=f"#stablehlo.gather<{numbers}>",
        slice_sizes=(1,), indices_are_sorted=False,
    )  # fmt: skip
