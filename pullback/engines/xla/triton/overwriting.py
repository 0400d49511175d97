"""Let kernels write their results over arrays that nothing reads afterwards.

The gradient of a cross-entropy takes the memory of the logits, one of the largest arrays of a
program. XLA copies an array that it cannot prove dead, so others that read it must come first. A
kernel waits for these by taking what they compute as operands, which it does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    is_view_hlo_instruction,
)
from pullback.engines.xla.triton.flat_kernels import FlatKernel
from pullback.engines.xla.triton.row_clusters import RowCluster
from pullback.engines.xla.triton.row_terms import RowTermPart, Term, term_leaves
from pullback.engines.xla.triton.triton_elementwise import STORED, triton_writes_elementwise

# How many times larger an array must be than what is kept of it
SMALLER = 8

Kernel = RowCluster | FlatKernel
Unit = HloInstruction | Kernel
Needs = Callable[[Unit], Iterable[HloValue]]


def overwrite_dead_arrays(
    block: HloBlock, units: list[Unit], needed: set[HloValue], needs: Needs
) -> None:
    """Set what each kernel among the units overwrites, and what it waits for."""
    found = _DeadArrays(block, units, needs)
    for unit in units:
        if isinstance(unit, RowCluster):
            for y, x in overwritable_arrays(unit, needed):
                if y not in unit.overwrites and x not in unit.overwrites.values():
                    found.overwrite(unit, y, x)


def overwritable_arrays(
    cluster: RowCluster, needed: set[HloValue]
) -> Iterator[tuple[HloValue, HloValue]]:
    """The arrays that a kernel stores, each with an array whose memory it may take.

    It reads all of a tile's elements of that array before it writes the tile, and no others later.
    """
    parts: dict[HloValue, set[RowTermPart]] = {}
    for term in cluster.loads:
        parts.setdefault(term.value, set()).add(term.part)
    for y in cluster.arrays:
        if y not in needed:
            continue
        for term in term_leaves(Term(y, RowTermPart.ALL), cluster.stops) or ():
            if term.value.dtype is y.dtype and parts.get(term.value) == {RowTermPart.ALL}:
                yield y, term.value


class _DeadArrays:
    """Which arrays of a block are dead after a kernel."""

    def __init__(self, block: HloBlock, units: list[Unit], needs: Needs) -> None:
        self.needs = needs
        self.made = {y: unit for unit in units for y in unit.results}
        self.returned = set(map(_viewed, block.results))
        self.readers: dict[HloValue, list[Unit]] = {}
        for unit in units:
            if not _is_view(unit):
                for x in dict.fromkeys(map(_viewed, needs(unit))):
                    self.readers.setdefault(x, []).append(unit)

    def overwrite(self, cluster: RowCluster, y: HloValue, x: HloValue) -> None:
        """Let a result take the memory of an array, if that is dead then."""
        root = _viewed(x)
        if root not in self.made or (root.made_by is not None and root.made_by.array is not None):
            return  # an argument or a constant
        before = self._read_before(root, root.type.size // SMALLER, cluster)
        if before is not None and not self._depends(before, cluster):
            cluster.overwrites[y] = x
            cluster.after.update(dict.fromkeys(before))

    def _read_before(self, x: HloValue, most: int, cluster: RowCluster) -> list[HloValue] | None:
        """The small values that others compute from an array; None if one of those is large."""
        if x in self.returned:
            return None
        small: list[HloValue] = []
        for unit in self.readers.get(x, ()):
            if unit is cluster:
                continue
            if not isinstance(unit, HloInstruction) or len(unit.results) != 1:
                return None
            (y,) = unit.results
            if y.type.size <= most and y.dtype in STORED:
                small.append(y)
                continue
            if not triton_writes_elementwise(unit):  # XLA computes those again where they are read
                return None
            more = self._read_before(y, most, cluster)
            if more is None:
                return None
            small += more
        return small

    def _depends(self, values: list[HloValue], cluster: RowCluster) -> bool:
        """Whether one of the values is computed from what a kernel computes."""
        seen: set[Unit] = set()
        stack = list(values)
        while stack:
            unit = self.made.get(stack.pop())
            if unit is cluster:
                return True
            if unit is not None and unit not in seen:
                seen.add(unit)
                stack.extend(self.needs(unit))
        return False


def _is_view(unit: Unit) -> bool:
    return isinstance(unit, HloInstruction) and is_view_hlo_instruction(unit)


def _viewed(x: HloValue) -> HloValue:
    """The value that an array has the memory of, or may have."""
    while (made := x.made_by) is not None and is_view_hlo_instruction(made):
        x = made.operands[0]
    return x
