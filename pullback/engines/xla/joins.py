"""Sums of padded arrays that do not overlap, as reverse mode makes of slices: concatenations."""

from __future__ import annotations

import dataclasses
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


def with_joined_pads(block: HloBlock) -> HloBlock:
    """The program with such sums written as concatenations, which read each array once."""
    uses: dict[HloValue, int] = {}
    for i in block.instructions:
        for x in i.operands:
            uses[x] = uses.get(x, 0) + 1
    sums: dict[HloValue, list[JoinedPad]] = {}
    written = []
    for i in block.instructions:
        if i.name == "add" and (pads := _pads_in_sum(i, sums, uses)):
            sums[i.results[0]] = pads
            i = _joined_sum(i, pads) or i
        written.append(i)
        for y in i.results:
            y.made_by = i
    return dataclasses.replace(block, instructions=written)


def _pads_in_sum(
    i: HloInstruction, sums: dict[HloValue, list[JoinedPad]], uses: dict[HloValue, int]
) -> list[JoinedPad]:
    """The padded arrays that are added up, also by earlier sums; none if others are added, too."""
    found: list[JoinedPad] = []
    for x in i.operands:
        made = x.made_by
        if uses[x] > 1 or made is None:
            return []
        if made.name == "add":
            pads = sums.get(x, [])
        else:
            pad = _padded_to_join(x)
            pads = [pad] if pad is not None else []
        if not pads:
            return []
        found += pads
    return found


def _joined_sum(i: HloInstruction, pads: list[JoinedPad]) -> HloInstruction | None:
    (y,) = i.results
    found = sorted(pads, key=lambda p: p.start)
    dimension = found[0].dimension
    ends = [0, *[p.stop for p in found]]
    starts = [*[p.start for p in found], y.shape[dimension]]
    if starts != ends or any(p.dimension != dimension for p in found):
        return None
    xs, attributes = tuple([p.x for p in found]), {"dimension": f"{dimension} : i64"}
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
