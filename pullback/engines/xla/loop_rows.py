"""Rows of stacks, which loops read and write: one of each stack in an iteration.

XLA fuses the read of a row into the loops over its elements, which then do not use vectors, and
writes each row by a loop of its own. A kernel that copies all rows of an iteration is faster,
unless they are large.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.engines.xla.hlo_instructions import HloValue
from pullback.engines.xla.kernel_calls import KernelCalls
from pullback.graph.types import Type

_LARGEST = 1 << 18  # bytes of a row that is copied by the kernel


class LoopRows(KernelCalls):
    """The part of `Builder` that reads and writes rows."""

    _unwritten = 0  # stacks so far

    def unwritten_stack(self, type: Type) -> HloValue:
        """A stack of which each row is written before it is read."""
        if not (self._copies_rows and type.size):
            return self.full(type, 0)
        self._unwritten += 1  # XLA merges equal calls, and would copy the result for the second use
        return self.kernel("unwritten", out=type, number=self._unwritten)

    def read_rows(self, stacks: Sequence[HloValue], at: HloValue) -> list[HloValue]:
        """Return row `at` of each stack."""
        types = [Type(x.shape[1:], x.dtype) for x in stacks]
        copied = [i for i, t in enumerate(types) if self._is_copied(t)]
        found = {}
        if copied:
            taken = [stacks[i] for i in copied]
            made = self.kernel("read_rows", at, *taken, out=tuple([types[i] for i in copied]))
            found = dict(zip(copied, made, strict=True))
        return [found.get(i) or self._row(x, at) for i, x in enumerate(stacks)]

    def write_rows(
        self, stacks: Sequence[HloValue], rows: Sequence[HloValue], at: HloValue
    ) -> list[HloValue]:
        """Return each stack with a row in place of its row `at`."""
        copied = [i for i, y in enumerate(rows) if self._is_copied(y.type)]
        found = {}
        if copied:
            taken = [stacks[i] for i in copied]
            made = self.kernel(
                "write_rows", at, *[rows[i] for i in copied], *taken,
                out=tuple([x.type for x in taken]),
                in_place={k: 1 + len(copied) + k for k in range(len(copied))},
            )  # fmt: skip
            found = dict(zip(copied, made, strict=True))
        pairs = enumerate(zip(stacks, rows, strict=True))
        return [found.get(i) or self._with_row(x, y, at) for i, (x, y) in pairs]

    @property
    def _copies_rows(self) -> bool:
        return self.kernels and self.platform == "cpu"

    def _is_copied(self, row: Type) -> bool:
        return self._copies_rows and 0 < row.nbytes <= _LARGEST

    def _row(self, x: HloValue, at: HloValue) -> HloValue:
        out = Type((1, *x.shape[1:]), x.dtype)
        starts = self._row_starts(at, len(x.shape))
        found = self.op("stablehlo.dynamic_slice", x, *starts, out=out, slice_sizes=out.shape)
        return self.reshape(found, x.shape[1:])

    def _with_row(self, stack: HloValue, y: HloValue, at: HloValue) -> HloValue:
        update = self.reshape(y, (1, *y.shape))
        starts = self._row_starts(at, len(stack.shape))
        return self.op("stablehlo.dynamic_update_slice", stack, update, *starts, out=stack.type)

    def _row_starts(self, at: HloValue, rank: int) -> list[HloValue]:
        return [at, *[self.constant(0, at.dtype)] * (rank - 1)]
