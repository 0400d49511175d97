"""Rewrite instructions of other writers of StableHLO into those that `to_stablehlo` writes."""

from __future__ import annotations

from dataclasses import replace

from pullback.engines.xla.builder import COMPARISONS
from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue
from pullback.graph.dtypes import bool_, int64
from pullback.graph.types import Type

_RULES = ("compare", "convert", "iota", "select")


def rewrite_foreign(block: HloBlock) -> HloBlock:
    """The same program, made of the instructions that the ops are lowered to."""
    return _ForeignRewriter().block(block)


class _ForeignRewriter:
    def __init__(self) -> None:
        self.same: dict[HloValue, HloValue] = {}  # values that were replaced by others

    def block(self, block: HloBlock) -> HloBlock:
        made: list[HloInstruction] = []
        for i in block.instructions:
            operands = tuple([self.same.get(x, x) for x in i.operands])
            i = replace(i, operands=operands, regions=tuple(map(self.block, i.regions)))
            made += getattr(self, i.name)(i) if i.name in _RULES else [i]
        results = tuple([self.same.get(y, y) for y in block.results])
        return replace(block, instructions=made, results=results)

    def compare(self, i: HloInstruction) -> list[HloInstruction]:
        """Add the kind of comparison, also where the dtype leaves no choice."""
        kind = COMPARISONS[i.operands[0].dtype.kind]
        added = {"compare_type": f"#stablehlo<comparison_type {kind}>"}
        return [replace(i, attributes={**added, **i.attributes})]

    def convert(self, i: HloInstruction) -> list[HloInstruction]:
        """Drop a conversion to the type that the operand has."""
        if i.operand_types != i.types:
            return [i]
        self.same[i.results[0]] = i.operands[0]
        return []

    def iota(self, i: HloInstruction) -> list[HloInstruction]:
        """Count floats as integers."""
        (result,) = i.results
        if not result.dtype.is_float:
            return [i]
        counted = HloValue(result.name, result.type.with_dtype(int64))
        return [
            replace(i, results=(counted,)),
            HloInstruction("stablehlo.convert", (counted,), i.results, {}, where=i.where),
        ]

    def select(self, i: HloInstruction) -> list[HloInstruction]:
        """Broadcast a single condition to all elements."""
        condition, (result,) = i.operands[0], i.results
        if condition.shape == result.shape:
            return [i]
        spread = HloValue(condition.name, Type(result.shape, bool_))
        dims = {"broadcast_dimensions": "array<i64>"}
        name = "stablehlo.broadcast_in_dim"
        return [
            HloInstruction(name, (condition,), (spread,), dims, where=i.where),
            replace(i, operands=(spread, *i.operands[1:])),
        ]
