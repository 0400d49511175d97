"""Order statistics by counting, written as StableHLO.

The bits of the wanted key (`integer_keys`) are found two at a time, from the first: a pass over all
keys counts those below three candidates. It ends when as many keys are below the bits found so far
as have to be below the wanted one, which is then the least of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.graph.dtypes import bool_, int32, int64
from pullback.graph.types import Type
from pullback.ops.sort.integer_keys import (
    elements_of_integer_keys,
    integer_keys,
    sorts_by_integer_keys,
)

COLUMNS = 256  # counts that are taken side by side
FIELD = 10  # bits of a count; three of them are in one integer
LEAST = 2**15  # elements for which passes take so much less time than a sort that they pay


def selection_pays(b: Any, x: Type, axis: int, ranks: Sequence[int]) -> bool:
    """Whether to search for single elements instead of sorting all."""
    n = x.shape[axis]
    return (
        bool(x.size)
        and n >= LEAST
        and len(_first_selection_ranks(ranks)) <= 4
        and sorts_by_integer_keys(b, n)
    )


def _first_selection_ranks(ranks: Sequence[int]) -> list[int]:
    """Return the ranks that do not follow another one."""
    return [r for i, r in enumerate(ranks) if not i or r != ranks[i - 1] + 1]


class SelectionBlocks(NamedTuple):
    """Keys of slices, in blocks of rows that a field of `FIELD` bits can count."""

    keys: Any  # [slices, blocks, rows, COLUMNS]

    def spread(self, b: Any, x: Any) -> Any:
        """Write a value of each slice for all its elements."""
        return b.broadcast_in_dim(x, self.keys.shape, (0,))

    def counts(self, b: Any, direction: str, thresholds: Sequence[Any]) -> list[Any]:
        """Write how many keys of each slice are below up to three thresholds (LT), or not above
        them (LE)."""
        packed = b.full(Type(self.keys.shape, int32), 0)
        for i, t in enumerate(thresholds):
            one = b.full(packed.type, 1 << (FIELD * i))
            below = b.compare(direction, self.keys, self.spread(b, t))
            found = b.select(below, one, b.full(packed.type, 0))
            packed = b.op("stablehlo.add", packed, found, out=packed.type)
        packed = b.reduce("add", packed, 0, (2,))
        made = []
        for i in range(len(thresholds)):
            field = b.op(
                "stablehlo.shift_right_logical", packed, b.full(packed.type, FIELD * i),
                out=packed.type,
            )  # fmt: skip
            mask = b.full(packed.type, (1 << FIELD) - 1)
            field = b.op("stablehlo.and", field, mask, out=packed.type)
            made.append(b.reduce("add", field, 0, (1, 2)))
        return made

    def least(self, b: Any, direction: str, threshold: Any) -> Any:
        """Write the least key of each slice that is at least a threshold (GE), or above it (GT)."""
        largest = np.iinfo(self.keys.dtype.numpy).max
        there = b.compare(direction, self.keys, self.spread(b, threshold))
        found = b.select(there, self.keys, b.full(self.keys.type, largest))
        return b.reduce("minimum", b.reduce("minimum", found, largest, (2,)), largest, (1, 2))


def _selection_blocks(b: Any, keys: Any) -> SelectionBlocks:
    """Write keys [slices, n] in blocks; what is missing in the last is larger than all."""
    slices, n = keys.shape
    rows = -(-n // COLUMNS)
    count = -(-rows // 512)
    rows = -(-rows // count)
    missing = count * rows * COLUMNS - n
    if missing:
        largest = b.constant(np.iinfo(keys.dtype.numpy).max, keys.dtype)
        keys = b.op(
            "stablehlo.pad", keys, largest, out=Type((slices, n + missing), keys.dtype),
            edge_padding_low=(0, 0), edge_padding_high=(0, missing), interior_padding=(0, 0),
        )  # fmt: skip
    return SelectionBlocks(b.reshape(keys, (slices, count, rows, COLUMNS)))


def selection_of_nth_key(b: Any, blocks: SelectionBlocks, rank: Any) -> Any:
    """Write the key of each slice that has `rank` (i32[slices]) others before it."""
    dtype = blocks.keys.dtype
    first = b.full(
        Type(rank.shape, dtype), np.iinfo(dtype.numpy).min
    )  # all bits are 0 but the sign

    def goes_on(shift: Any, found: Any, below: Any) -> Any:
        short = b.compare("NE", below, rank)
        open_ = b.reduce("or", short, False, (0,))
        more = b.compare("GE", shift, b.constant(0, dtype))
        return b.op("stablehlo.and", open_, more, out=Type((), bool_))

    def step(shift: Any, found: Any, below: Any) -> list[Any]:
        unit = b.op("stablehlo.shift_left", b.constant(1, dtype), shift, out=shift.type)
        unit = b.broadcast(unit, found.shape)
        ends = [found]
        for _ in range(3):
            ends.append(b.op("stablehlo.add", ends[-1], unit, out=found.type))
        counts = blocks.counts(b, "LT", ends[1:])
        for end, count in zip(ends[1:], counts, strict=True):
            fits = b.compare("LE", count, rank)
            found, below = b.select(fits, end, found), b.select(fits, count, below)
        shift = b.op("stablehlo.subtract", shift, b.constant(2, dtype), out=shift.type)
        return [shift, found, below]

    start = [b.constant(dtype.bits - 2, dtype), first, b.full(rank.type, 0)]
    _, found, _ = b.loop(start, goes_on, step)
    return blocks.least(b, "GE", found)


def _selection_keys(b: Any, blocks: SelectionBlocks, ranks: Sequence[int]) -> list[Any]:
    """Write the keys at ranks, which ascend."""
    made: list[Any] = []
    slices = blocks.keys.shape[0]
    for i, r in enumerate(ranks):
        if i and r == ranks[i - 1] + 1:
            (up_to,) = blocks.counts(b, "LE", made[-1:])
            again = b.compare("GT", up_to, b.full(up_to.type, r))
            made.append(b.select(again, made[-1], blocks.least(b, "GT", made[-1])))
        else:
            made.append(selection_of_nth_key(b, blocks, b.full(Type((slices,), int32), r)))
    return made


def _selection_slices(b: Any, x: Any, axis: int) -> Any:
    """Write the slices along an axis as rows of a matrix."""
    others = [i for i in range(len(x.shape)) if i != axis]
    moved = b.transpose(x, (*others, axis)) if axis != len(x.shape) - 1 else x
    return b.reshape(moved, (x.type.size // x.shape[axis], x.shape[axis]))


def _selection_columns(b: Any, found: Sequence[Any], out: Type, axis: int) -> Any:
    """Write values of slices as a result, along an axis."""
    columns = [b.reshape(k, (k.shape[0], 1)) for k in found]
    type = Type((found[0].shape[0], len(found)), found[0].dtype)
    made = b.op("stablehlo.concatenate", *columns, out=type, dimension=1)
    rank = out.rank
    others = [out.shape[i] for i in range(rank) if i != axis]
    made = b.reshape(made, (*others, len(found)))
    return b.transpose(made, (*range(axis), rank - 1, *range(axis, rank - 1)))


def _wide_selection_keys(b: Any, x: Any, equal_zeros: bool) -> Any:
    keys = integer_keys(b, x, equal_zeros)
    return b.convert(keys, int32) if keys.dtype.bits < 32 else keys


def selection_of_elements(b: Any, out: Type, x: Any, axis: int, ranks: Sequence[int]) -> Any:
    """Write the elements at ranks of the sorted order along an axis."""
    keys = _selection_slices(b, _wide_selection_keys(b, x, equal_zeros=False), axis)
    found = _selection_columns(b, _selection_keys(b, _selection_blocks(b, keys), ranks), out, axis)
    return elements_of_integer_keys(b, found, out)


def selection_of_indices(b: Any, out: Type, x: Any, axis: int, ranks: Sequence[int]) -> Any:
    """Write the indices of the elements at ranks of the sorted order along an axis."""
    rows = _selection_slices(b, _wide_selection_keys(b, x, equal_zeros=True), axis)
    blocks = _selection_blocks(b, rows)
    place = b.iota(rows.shape, int32, 1)
    made = []
    for r, key in zip(ranks, _selection_keys(b, blocks, ranks), strict=True):
        (below,) = blocks.counts(b, "LT", [key])
        equal = b.compare("EQ", rows, b.broadcast_in_dim(key, rows.shape, (0,)))
        places = b.select(equal, place, b.full(place.type, 2**31 - 1))
        rest = b.op("stablehlo.subtract", b.full(below.type, r), below, out=below.type)
        made.append(b.convert(selection_of_nth_key(b, _selection_blocks(b, places), rest), int64))
    return _selection_columns(b, made, out, axis)
