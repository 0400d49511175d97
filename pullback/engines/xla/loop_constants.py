"""Matrices that are the same in each iteration of a loop, packed before it for its products."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    hlo_instruction_attribute,
)
from pullback.engines.xla.kernels import PREFIX
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.builder import Builder

_WIDEST = 16  # elements of a vector: columns are padded to a multiple of that
_LARGEST = 1 << 22  # bytes of a matrix: with more, a second copy in memory is not worth it
_DEEPEST = 2048  # terms: products with more are split by terms, and pack what they need

Numbers = tuple[int, ...]
Matrix = tuple[HloValue, Numbers, Numbers]  # a value, columns and depth, and where they are in it


def with_packed_constants(block: HloBlock, b: Builder) -> HloBlock:
    """The program with such matrices packed; loops may be in loops."""
    written: list[HloInstruction] = []
    for i in block.instructions:
        if i.regions:
            regions = [with_packed_constants(r, b) for r in i.regions]
            if i.name == "while":
                packed: dict[Matrix, HloInstruction] = {}
                regions[1] = _with_packed_operands(regions[1], b, packed)
                written += packed.values()
            i = dataclasses.replace(i, regions=tuple(regions))
        written.append(i)
    for i in written:
        for y in i.results:
            y.made_by = i
    return dataclasses.replace(block, instructions=written)


def _with_packed_operands(
    body: HloBlock, b: Builder, packed: dict[Matrix, HloInstruction]
) -> HloBlock:
    inside = {*body.arguments, *[y for i in body.instructions for y in i.results]}
    written = []
    for i in body.instructions:
        if _is_product(i) and i.operands[1] not in inside:
            i = _with_packed_operand(i, b, packed)
        written.append(i)
    return dataclasses.replace(body, instructions=written)


def _with_packed_operand(
    i: HloInstruction, b: Builder, packed: dict[Matrix, HloInstruction]
) -> HloInstruction:
    x, y, *addends = i.operands
    sizes, places, batch = (_option(i, name) for name in ("sizes", "places", "batch"))
    _, columns, depth = sizes
    count = -(-columns // _WIDEST) * _WIDEST * depth
    out = Type((count,), y.dtype)
    if batch or depth > _DEEPEST or out.nbytes > _LARGEST:
        return i
    matrix = y, (columns, depth), places[3:6]
    if matrix not in packed:
        b.kernel("pack_product", y, out=out, sizes=matrix[1], places=matrix[2])
        packed[matrix] = b.instructions.pop()
    given = x, packed[matrix].results[0], *addends
    places = *places[:3], 0, -1, 0, *places[6:]
    b.kernel("product", *given, out=i.types[0], sizes=sizes, places=places, batch=batch)
    return dataclasses.replace(b.instructions.pop(), results=i.results, location=i.location)


def _is_product(i: HloInstruction) -> bool:
    return i.attributes.get("call_target_name") == f'"{PREFIX}product"'


def _option(i: HloInstruction, name: str) -> Numbers:
    found = re.search(rf"\b{name} = (array<[^>]*>)", i.attributes["backend_config"])
    assert found is not None
    numbers: Numbers = hlo_instruction_attribute(found[1])
    return numbers
