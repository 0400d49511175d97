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
    written = []
    for i in block.instructions:
        written.append(_joined(i, uses) or i)
        for y in i.results:
            y.made_by = written[-1]
    return dataclasses.replace(block, instructions=written)


def _joined(i: HloInstruction, uses: dict[HloValue, int]) -> HloInstruction | None:
    if i.name != "add":
        return None
    parts = [p for x in i.operands for p in _addends_to_join(x, uses)]
    (y,) = i.results
    if None in parts:
        return None
    found = sorted([p for p in parts if p is not None], key=lambda p: p.start)
    dimension = found[0].dimension
    ends = [0, *[p.stop for p in found]]
    starts = [*[p.start for p in found], y.shape[dimension]]
    if starts != ends or any(p.dimension != dimension for p in found):
        return None
    xs, attributes = tuple([p.x for p in found]), {"dimension": f"{dimension} : i64"}
    return HloInstruction("stablehlo.concatenate", xs, (y,), attributes, location=i.location)


def _addends_to_join(x: HloValue, uses: dict[HloValue, int]) -> list[JoinedPad | None]:
    """The padded arrays that a value is the sum of; None for other addends."""
    if uses[x] > 1:
        return [None]
    made = x.made_by
    if made is not None and made.name == "add":
        return [p for z in made.operands for p in _addends_to_join(z, uses)]
    return [_padded_to_join(x)]


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
