"""What other writers of StableHLO say in another way than `to_stablehlo` does, in its words."""

from __future__ import annotations

import dataclasses

from pullback.engines.xla.builder import COMPARISONS
from pullback.engines.xla.instructions import Block, HloInstruction
from pullback.graph.dtypes import bool_, int64
from pullback.graph.types import Type


def in_our_words(block: Block) -> Block:
    """The same program; each instruction that we have other words for is said in those."""
    return _Translator().block(block)


class _Translator:
    def __init__(self) -> None:
        self.same: dict[int, int] = {}  # values that are others
        self.last = 0

    def block(self, block: Block) -> Block:
        made: list[HloInstruction] = []
        for i in block.instructions:
            operands = tuple([self.same.get(x, x) for x in i.operands])
            regions = tuple(map(self.block, i.regions))
            i = dataclasses.replace(i, operands=operands, regions=regions)
            translate = TRANSLATED.get(i.name)
            made += translate(self, i) if translate else [i]
        results = tuple([self.same.get(y, y) for y in block.results])
        return dataclasses.replace(block, instructions=made, results=results)

    def fresh(self) -> int:
        """A number that no value has: those of a program are not negative."""
        self.last -= 1
        return self.last

    def compare(self, i: HloInstruction) -> list[HloInstruction]:
        """How is told, also where the element type leaves no choice."""
        kind = COMPARISONS[i.operand_types[0].dtype.kind]
        told = {"compare_type": f"#stablehlo<comparison_type {kind}>"}
        return [dataclasses.replace(i, attributes={**told, **i.attributes})]

    def convert(self, i: HloInstruction) -> list[HloInstruction]:
        """To the type that a value has already: it is that value."""
        if i.operand_types != i.types:
            return [i]
        self.same[i.results[0]] = i.operands[0]
        return []

    def iota(self, i: HloInstruction) -> list[HloInstruction]:
        """Floats are counted as integers."""
        (type,) = i.types
        if not type.dtype.is_float:
            return [i]
        counted, n = type.with_dtype(int64), self.fresh()
        return [
            dataclasses.replace(i, results=(n,), types=(counted,)),
            HloInstruction("convert", (n,), (counted,), i.results, i.types, {}, (), i.where),
        ]

    def select(self, i: HloInstruction) -> list[HloInstruction]:
        """One condition for all elements is a tensor of it."""
        given, (type,) = i.operand_types[0], i.types
        if given.shape == type.shape:
            return [i]
        spread, n = Type(type.shape, bool_), self.fresh()
        dims = {"broadcast_dimensions": "array<i64>"}
        operands, types = (n, *i.operands[1:]), (spread, *i.operand_types[1:])
        return [
            HloInstruction(
                "broadcast_in_dim", i.operands[:1], (given,), (n,), (spread,), dims, (), i.where
            ),
            dataclasses.replace(i, operands=operands, operand_types=types),
        ]


TRANSLATED = {
    "compare": _Translator.compare,
    "convert": _Translator.convert,
    "iota": _Translator.iota,
    "select": _Translator.select,
}
