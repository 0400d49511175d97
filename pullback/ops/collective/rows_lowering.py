"""StableHLO that moves rows between the devices of a mesh, for `MoveRows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.graph.dtypes import int64
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.index.index_lowering import gather
from pullback.ops.prelude import Type

if TYPE_CHECKING:
    from pullback.ops.collective.rows import MoveRows

NOTHING = -1  # the source of a row of zeros


class RowsLowering:
    """Writes the instructions of one `MoveRows`."""

    def __init__(self, op: MoveRows, b: Any, out: Type, x: Any) -> None:
        self.op, self.b, self.out, self.x = op, b, out, x
        self.groups = b.mesh.groups(op.axes)

    def result(self) -> Any:
        if self.op.exchange:
            return self._exchanged()
        givers = [{self._source(t, q)[0] for q in range(self.op.count)}
                  for t in range(self.op.devices)]  # fmt: skip
        single = [g for some in givers for g in some if g != NOTHING]
        if all(len(some) == 1 for some in givers) and len(set(single)) == len(single):
            return self._permuted()
        return self._in_rounds()

    def _exchanged(self) -> Any:
        """One all_to_all or all_gather within each group, of rows in the order of the group."""
        op, size = self.op, len(self.op.exchange[0])
        each = op.count // size
        place = {d: i for group in op.exchange for i, d in enumerate(group)}  # in its group
        slots: dict[tuple[int, int], list[int]] = {}  # of the target, by source and target
        for t in range(op.devices):
            for q in range(op.count):
                slots.setdefault((self._source(t, q)[0], t), []).append(q)
        leaving: list[list[int]] = [[]] * op.devices
        arriving = [[0] * op.count for _ in range(op.devices)]
        for group in op.exchange:
            for d in group:
                leaving[d] = [self._source(t, q)[1] for t in group for q in slots[d, t]]
                for s in group:
                    for n, q in enumerate(slots[s, d]):
                        arriving[d][q] = place[s] * each + n
        positions = [[g[d] for d in group] for g in self.groups for group in op.exchange]
        if op.shares:
            rows = self._rows(self.x, [given[:each] for given in leaving])
            moved = self.b.all_gather(rows, positions, 0)
        else:
            moved = self.b.all_to_all(self._rows(self.x, leaving), positions, 0, 0)
        return self._rows(moved, arriving)

    def _permuted(self) -> Any:
        """One permute: every device gets all rows from one device, or zeros."""
        op = self.op
        pairs = [(self._source(t, 0)[0], t) for t in range(op.devices)]
        pairs = [(s, t) for s, t in pairs if s != NOTHING]
        rows = {s: [self._source(t, q)[1] for q in range(op.count)] for s, t in pairs}
        table = [rows.get(d, [0] * op.count) for d in range(op.devices)]
        return self._permute(self._rows(self.x, table), pairs)

    def _in_rounds(self) -> Any:
        """Collect a device's own rows and those that arrive in each round, and put them in order.

        A device that gets nothing in a round does not use what arrived there.
        """
        op, b = self.op, self.b
        parts, places, count = [self.x], {}, op.rows
        for t in range(op.devices):
            for q in range(op.count):
                device, row = self._source(t, q)
                if device == t:
                    places[t, q] = row
        for turn in op.rounds:
            sending = {m.source: m.rows for m in turn}
            nothing = [0] * len(turn[0].rows)
            leaving = [sending.get(d, nothing) for d in range(op.devices)]
            parts.append(self._permute(self._rows(self.x, leaving), [m[:2] for m in turn]))
            places |= {(m.target, q): count + i for m in turn for i, q in enumerate(m.slots)}
            count += len(nothing)
        if NOTHING in op.sources:
            parts.append(b.full(Type((1, *self.x.shape[1:]), self.x.dtype), 0))
        table = [[places.get((t, q), count) for q in range(op.count)] for t in range(op.devices)]
        out = Type((sum([p.shape[0] for p in parts]), *self.x.shape[1:]), self.x.dtype)
        return self._rows(b.op("stablehlo.concatenate", *parts, out=out, dimension=0), table)

    def _source(self, t: int, q: int) -> tuple[int, int]:
        """Return the device and the row that a row comes from."""
        source = self.op.sources[t * self.op.count + q]
        return (NOTHING, 0) if source == NOTHING else divmod(source, self.op.rows)

    def _permute(self, row: Any, pairs: Sequence[tuple[int, int]]) -> Any:
        return self.b.collective_permute(row, [(g[s], g[t]) for g in self.groups for s, t in pairs])

    def _rows(self, x: Any, table: Sequence[Sequence[int]]) -> Any:
        """Return rows of `x`, those that the table gives for each device."""
        b, wanted = self.b, table[0]
        if len(set(map(tuple, table))) == 1:
            if list(wanted) == list(range(wanted[0], wanted[0] + len(wanted))):
                return self._sliced(x, wanted[0], len(wanted))
            index = b.constant(np.array(wanted), int64)
        elif len(wanted) == 1:
            starts = [self._number([row for (row,) in table]),
                      *[b.constant(0, int64)] * (len(x.shape) - 1)]  # fmt: skip
            sizes = (1, *x.shape[1:])
            out = Type(sizes, x.dtype)
            return b.op("stablehlo.dynamic_slice", x, *starts, out=out, slice_sizes=sizes)
        else:
            rows = b.constant(np.array(self._by_position(table)), int64)
            start = b.convert(b.position(), int64)
            sizes = (1, len(wanted))
            index = b.op("stablehlo.dynamic_slice", rows, start, b.constant(0, int64),
                         out=Type(sizes, int64), slice_sizes=sizes)  # fmt: skip
            index = b.reshape(index, (len(wanted),))
        return gather(b, Type((len(wanted), *x.shape[1:]), x.dtype), x, [index], [0])

    def _number(self, numbers: Sequence[int]) -> Any:
        """Return a number for each device."""
        return self.b.by_position(self._by_position(numbers))

    def _by_position(self, values: Sequence[Any]) -> list[Any]:
        found = {p: value for g in self.groups for p, value in zip(g, values, strict=True)}
        return [found[p] for p in range(len(found))]

    def _sliced(self, x: Any, start: int, count: int) -> Any:
        if (start, count) == (0, x.shape[0]):
            return x
        zeros = (0,) * (len(x.shape) - 1)
        return hlo_slice_instruction(self.b, x, (start, *zeros), (start + count, *x.shape[1:]))
