"""Which result of a program takes the memory of which donated argument."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue

DONOR_MARKS = b"jax.buffer_donor", b"tf.aliasing_output"  # one of them is in the text
_DONOR = " {jax.buffer_donor = true}"  # XLA looks for a result by itself
_MOST_VALUES = 64  # that are followed from a result back to arguments
_ALIAS = re.compile(r"output_tuple_indices = \[(\d*)\], operand_index = (\d+)")


def donor_marks(main: HloBlock, donated: Sequence[int]) -> list[str]:
    """Return the attributes of a program's arguments.

    XLA pairs donated arguments with results of their type in the order they come in. A result that
    is computed element by element from another argument than its own then needs copies of both. So
    results are paired with the nearest argument they are computed from.
    """
    marks = [_DONOR if i in donated else "" for i in range(len(main.arguments))]
    if not donated:
        return marks
    position = {main.arguments[i]: i for i in donated}
    makers = {y: i for i in main.instructions for y in i.results}
    near = [
        (distance, k, position[x])
        for k, y in enumerate(main.results)
        for x, distance in _nearest_donors_to_mark(y, makers)
        if x in position
    ]
    taken: set[HloValue] = set()
    for _, k, i in sorted(near):
        result = main.results[k]
        if marks[i] == _DONOR and result not in taken:
            taken.add(result)
            marks[i] = f" {{tf.aliasing_output = {k} : i32}}"
    return marks


def _nearest_donors_to_mark(
    result: HloValue, makers: dict[HloValue, HloInstruction]
) -> Iterator[tuple[HloValue, int]]:
    """Yield arguments of the same type that a result is computed from, with their distances."""
    seen, level, distance = {result}, [result], 0
    while level and len(seen) < _MOST_VALUES:
        following: list[HloValue] = []
        for y in level:
            made = makers.get(y)
            if made is None:
                yield y, distance
                continue
            fresh = [
                x
                for x in _operands_to_mark_as_donors(made, y)
                if x.type == y.type and x not in seen
            ]
            seen.update(fresh)
            following += fresh
        level, distance = following, distance + 1


def _operands_to_mark_as_donors(made: HloInstruction, y: HloValue) -> Sequence[HloValue]:
    """Return the operands whose memory a result may take."""
    aliases = _ALIAS.findall(made.attributes.get("output_operand_aliases", ""))
    if not aliases:
        return made.operands
    index = made.results.index(y)
    return [made.operands[int(i)] for k, i in aliases if int(k or 0) == index]
