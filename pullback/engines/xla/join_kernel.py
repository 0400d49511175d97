"""Concatenations of what mostly kernels return, by a kernel that reads its operands where they are.

XLA computes the elements of a concatenation one by one where operands are transposed or reshaped.
The gradients of queries, keys and values, which one product made, are joined that way.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction
from pullback.engines.xla.strided_views import row_strides, strided_view
from pullback.ops.merged_dims import merged_dims

if TYPE_CHECKING:
    from pullback.engines.xla.builder import Builder

_LEAST = 1 << 16  # bytes that are worth a call


def with_join_kernels(block: HloBlock, b: Builder) -> HloBlock:
    """The program with calls of the kernel in place of such concatenations."""
    written = [_join_call(i, b) or i for i in block.instructions]
    for i in written:
        for y in i.results:
            y.made_by = i
    return dataclasses.replace(block, instructions=written)


def _join_call(i: HloInstruction, b: Builder) -> HloInstruction | None:
    if i.name != "concatenate" or i.types[0].nbytes < _LEAST or i.types[0].dtype.is_complex:
        return None
    parts = [x for x in i.operands if x.type.size]
    views = [strided_view(x) for x in parts]
    made = [base.made_by is not None and base.made_by.name == "custom_call" for base, *_ in views]
    if sum(made) <= len(made) / 2:  # XLA computes the others in the same loop
        return None
    strides, axis = row_strides(i.types[0].shape), i["dimension"]
    places, dims, start = [], [], 0
    for x, (_, first, distances) in zip(parts, views, strict=True):
        places += [first, start * strides[axis]]
        own = merged_dims(list(zip(x.shape, distances, strides, strict=True))) or [(1, 1, 1)]
        dims += [len(own), *[n for dim in own for n in dim]]
        start += x.shape[axis]
    given = [base for base, *_ in views]
    b.kernel("join", *given, out=i.types[0], places=tuple(places), dims=tuple(dims))
    return dataclasses.replace(b.instructions.pop(), results=i.results, location=i.location)
