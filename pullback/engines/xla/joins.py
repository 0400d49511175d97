"""Sums of padded arrays that do not overlap, as reverse mode makes of slices: concatenations."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue


class JoinedPad(NamedTuple):
    """An array between zeros, along one dimension."""

    x: HloValue
    dimension: int
    start: int

    @property
    def stop(self) -> int:
        return self.start + self.x.shape[self.dimension]


_LEAST_IN_LOOPS = 512  # elements of a sum: XLA fuses the pads of smaller ones as well


def with_joined_pads(block: HloBlock, least: int = 0) -> HloBlock:
    """The program with such sums, of that many elements, written as concatenations, which read each
    array once."""
    sums: dict[HloValue, list[JoinedPad]] = {}
    written = []
    for i in block.instructions:
        if i.regions:
            regions = tuple([with_joined_pads(r, _LEAST_IN_LOOPS) for r in i.regions])
            i = dataclasses.replace(i, regions=regions)
        if i.name == "add" and (pads := _pads_in_sum(i, sums)):
            sums[i.results[0]] = pads
            i = _joined_sum(i, pads, least) or i
        written.append(i)
        for y in i.results:
            y.made_by = i
    return dataclasses.replace(block, instructions=written)


def _pads_in_sum(i: HloInstruction, sums: dict[HloValue, list[JoinedPad]]) -> list[JoinedPad]:
    """The padded arrays that are added up, also by earlier sums, in order; none if others are
    added, too, or if they overlap.

    Sums that differ in one array share a sum of the others: each of them reads all arrays again,
    since that takes less time than to write the shared sum.
    """
    found: list[JoinedPad] = []
    for x in i.operands:
        made = x.made_by
        if made is None:
            return []
        if made.name == "add":
            pads = sums.get(x, [])
        else:
            pad = _padded_to_join(x)
            pads = [pad] if pad is not None else []
        if not pads:
            return []
        found += pads
    found.sort(key=lambda p: p.start)
    apart = all(p.stop <= q.start for p, q in itertools.pairwise(found))
    return found if apart and len({p.dimension for p in found}) == 1 else []


def _joined_sum(i: HloInstruction, pads: list[JoinedPad], least: int) -> HloInstruction | None:
    (y,) = i.results
    dimension = pads[0].dimension
    ends = [0, *[p.stop for p in pads]]
    if [*[p.start for p in pads], y.shape[dimension]] != ends or y.type.size < least:
        return None
    xs, attributes = tuple([p.x for p in pads]), {"dimension": f"{dimension} : i64"}
    return HloInstruction("stablehlo.concatenate", xs, (y,), attributes, location=i.location)


def _padded_to_join(x: HloValue) -> JoinedPad | None:
    made = x.made_by
    if made is None or made.name != "pad" or any(made["interior_padding"]):
        return None
    value = made.operands[1].made_by
    if value is None or value.array is None or any(value.array.tobytes()):
        return None
    low, high = made["edge_padding_low"], made["edge_padding_high"]
    along = [n for n, pair in enumerate(zip(low, high, strict=True)) if any(pair)]
    if len(along) != 1 or min(*low, *high) < 0:
        return None
    return JoinedPad(made.operands[0], along[0], low[along[0]])
