"""Moves of single rows: from any device to any device, or from any example to any example.

With these, a value changes its layout along several axes at once, and only what a device lacks is
sent to it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import bool_, int64
from pullback.ops.collective.move import AllGather, PSlice
from pullback.ops.collective.reduce import Exchange
from pullback.ops.composite import Composite
from pullback.ops.elementwise.functions import where
from pullback.ops.index.lowering import gather
from pullback.ops.instructions import sliced
from pullback.ops.prelude import TABLE, Axis, Node, Type, constant, jvp_in_first
from pullback.ops.samples import real
from pullback.sharding.rounds import components, rounds

NOTHING = -1  # the source of a row of zeros


class Message(NamedTuple):
    """One row that a device sends to another."""

    source: int
    target: int
    row: int  # of the source
    slot: int  # row of the target


class MoveRows(Exchange):
    """Rows from all devices: row q of device t is `sources[t * n + q]` of the rows of all devices.

    Each device has `rows` rows and gets n, along its first dimension. Devices are counted along
    `axes`, of the given sizes, the last one fastest. The source -1 stands for zeros.
    """

    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: int
    sources: tuple[int, ...]
    linear = True

    @cached_property
    def devices(self) -> int:
        return math.prod(self.sizes)

    @cached_property
    def count(self) -> int:
        """The number of rows that each device gets."""
        return len(self.sources) // self.devices

    def named_axes(self) -> tuple[str, ...]:
        return self.axes

    def communicates(self) -> tuple[str, ...]:
        return self.axes if self.messages else ()

    def infer(self, x: Type) -> Type:
        if not x.rank or x.shape[0] != self.rows:
            raise ShapeError(f"the first dimension must have size {self.rows}, got {x}")
        return x.with_shape((self.count, *x.shape[1:]))

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The result varies along an axis if what a device gets depends on its place there."""
        keys = self._keys(axes)
        kept = [a for a in axes if a not in self.axes]
        return tuple(sorted([*kept, *[a for k, a in enumerate(self.axes) if _depends(keys, k)]]))

    def _keys(self, varying: Sequence[str]) -> np.ndarray:
        """Return the rows that each device gets, as numbers among the rows of the devices along
        `varying`; other devices hold the same rows."""
        own = np.arange(self.devices * self.rows).reshape(*self.sizes, self.rows)
        first = tuple([slice(None) if a in varying else slice(1) for a in self.axes])
        distinct = own[first]
        numbers = np.arange(distinct.size).reshape(distinct.shape)
        of_row = np.broadcast_to(numbers, own.shape).ravel()
        sources = np.array(self.sources, np.int64)
        keys = np.where(sources == NOTHING, NOTHING, of_row[sources])
        return keys.reshape(*self.sizes, self.count)

    @cached_property
    def messages(self) -> list[Message]:
        """The rows that devices send each other."""
        found = []
        for i, source in enumerate(self.sources):
            (target, slot), (device, row) = divmod(i, self.count), divmod(source, self.rows)
            if source != NOTHING and device != target:
                found.append(Message(device, target, row, slot))
        return found

    @cached_property
    def exchange(self) -> list[list[int]]:
        """The groups in which all devices send each other equally many rows, if there are such."""
        groups = components([m[:2] for m in self.messages], self.devices)
        size = len(groups[0])
        if size == 1 or self.count % size or any(len(g) != size for g in groups):
            return []
        for group in groups:
            for t in group:
                rows = self.sources[t * self.count : (t + 1) * self.count]
                given = [s // self.rows for s in rows if s != NOTHING]
                if any(given.count(s) * size != self.count for s in group):
                    return []
        return groups

    @cached_property
    def rounds(self) -> list[list[Message]]:
        """The messages of each round; an exchange takes one."""
        if self.exchange:
            return [self.messages]
        turns = rounds([m[:2] for m in self.messages])
        return [[self.messages[i] for i in turn] for turn in turns]

    @property
    def wire(self) -> str:  # type: ignore[override]
        if not self.messages:
            return ""
        return "all_to_all" if self.exchange else "permute"

    def sent(self, before: float, after: float, devices: int) -> float:
        return after / self.count * len(self.messages) / self.devices

    def steps(self) -> int:
        return len(self.rounds)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return _Lowering(self, b, out, x).result()

    def batch_apart(self, x: Node) -> Node:
        return _swapped(self(_swapped(x)))

    def batch_over(self, axis: Axis, x: Node, mapped: bool) -> Node:
        """Gather the rows of all devices, and take those that are needed."""
        varying = [a for a in self.axes if a in x.type.varying or (mapped and a == axis.name)]
        keys = self._keys(varying)
        for a in reversed(varying):
            op = AllGather(a, self.sizes[self.axes.index(a)], 0)
            x = op.batch(axis, (x,), (mapped,)) if mapped else op(x)
            mapped = mapped and a != axis.name
        lead, shape = x.type.shape[:mapped], x.type.shape[mapped:]
        folded = math.prod(shape[: len(varying) + 1]), *shape[len(varying) + 1 :]
        return self._taken(axis, TABLE["Reshape"]((*lead, *folded))(x), mapped, keys)

    def _taken(self, axis: Axis, x: Node, mapped: bool, keys: np.ndarray) -> Node:
        """Take the rows with the given keys, on each device its own."""
        needed = [a for k, a in enumerate(self.axes) if _depends(keys, k)]
        keys = keys[tuple([slice(None) if a in needed else 0 for a in self.axes])]
        index, given = constant(np.maximum(keys, 0), int64), constant(keys != NOTHING, bool_)
        chosen = False
        for a in needed:
            op = PSlice(a, self.sizes[self.axes.index(a)], 0)
            own = a == axis.name
            index, given = [op.batch(axis, (y,), (chosen,)) if own or chosen else op(y)
                            for y in (index, given)]  # fmt: skip
            chosen = chosen or own
        take = TABLE["Gather"](0)
        made = take.batch(axis, (x, index), (mapped, chosen)) if mapped or chosen else take(x, index)
        lead = (1,) * (mapped and not chosen)
        ones = (1,) * (made.type.rank - given.type.rank - len(lead))
        return where(TABLE["Reshape"]((*lead, *given.type.shape, *ones))(given), made, 0)


def _depends(keys: np.ndarray, k: int) -> bool:
    return bool((keys != keys.take([0], k)).any())


def _swapped(x: Node) -> Node:
    """Exchange the first two dimensions."""
    return TABLE["Transpose"]((1, 0, *range(2, x.type.rank)))(x)


class PermuteRows(Composite):
    """The rows of `x` in another order: row i is row `sources[i]`, or zeros for -1.

    No row is taken twice. This is a permutation of the examples of a vmap; on a mesh, devices send
    each other the rows that they lack.
    """

    sources: tuple[int, ...]
    linear = True

    def infer(self, x: Type) -> Type:
        if not x.rank or x.shape[0] != len(self.sources):
            raise ShapeError(f"the first dimension must have size {len(self.sources)}, got {x}")
        return x

    def expand(self, x: Node) -> Node:
        sources = np.array(self.sources, np.int64)
        moved = TABLE["Gather"](0)(x, constant(np.maximum(sources, 0), int64))
        given = (sources != NOTHING).reshape(-1, *[1] * (x.type.rank - 1))
        return moved if given.all() else where(constant(given, bool_), moved, 0)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        sources = np.array(self.sources, np.int64)
        moved = gather(b, out, x, [b.constant(np.maximum(sources, 0), int64)], [0])
        if (sources != NOTHING).all():
            return moved
        given = b.broadcast_in_dim(b.constant(sources != NOTHING, bool_), out.shape, [0])
        return b.select(given, moved, b.full(out, 0))

    def factors(self, x: Type) -> str:
        names = " ".join([f"i{k}" for k in range(x.rank)])
        return f"{names} -> {names}"

    def partition(self, to: Any, xs: Sequence[Any], type: Type) -> Any:
        dims = xs[0].dims
        axes = dims[0] if len(self.sources) % to.mesh.extent(dims[0]) == 0 else ()
        dims = (axes, *dims[1:])
        x = to.ask(xs[0], dims)
        op: Any = self
        if axes:
            sizes = tuple([to.mesh.sizes[a] for a in axes])
            op = MoveRows(axes, sizes, len(self.sources) // math.prod(sizes), self.sources)
        node = to.note(op(x.node), x, "rows of other devices") if axes else op(x.node)
        to.stand_for(node)
        return to.local_values([node], [type], [dims])[0]

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:  # type: ignore[override]
        target = {source: i for i, source in enumerate(self.sources)}
        back = tuple([target.get(i, NOTHING) for i in range(len(self.sources))])
        return [PermuteRows(back)(g)]

    jvp = jvp_in_first

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:  # type: ignore[override]
        return _swapped(self(_swapped(xs[0])))

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 0, 1)), (real(3, 2),)
        yield cls((NOTHING, 0, 3, NOTHING)), (real(4),)


class _Lowering:
    """Writes the instructions of one `MoveRows`."""

    def __init__(self, op: MoveRows, b: Any, out: Type, x: Any) -> None:
        self.op, self.b, self.out, self.x = op, b, out, x
        self.groups = b.mesh.groups(op.axes)

    def result(self) -> Any:
        if self.op.exchange:
            return self._exchanged()
        given = [s for s in self.op.sources if s != NOTHING]
        if self.op.count == 1 and len({s // self.op.rows for s in given}) == len(given):
            return self._permuted()
        return self._in_rounds()

    def _exchanged(self) -> Any:
        """One all_to_all within each group, between rows in the order of the group."""
        op, size = self.op, len(self.op.exchange[0])
        each = op.count // size
        leaving: list[list[int]] = [[]] * op.devices
        arriving: list[list[int]] = [[]] * op.devices
        for group in op.exchange:
            slots = {(s, t): [q for q in range(op.count) if self._source(t, q)[0] == s]
                     for s, t in itertools.product(group, group)}  # fmt: skip
            for i, d in enumerate(group):
                leaving[d] = [self._source(t, q)[1] for t in group for q in slots[d, t]]
                places = {q: j * each + n for j, s in enumerate(group)
                          for n, q in enumerate(slots[s, d])}  # fmt: skip
                arriving[d] = [places[q] for q in range(op.count)]
        positions = [[g[d] for d in group] for g in self.groups for group in op.exchange]
        moved = self.b.all_to_all(self._rows(self.x, leaving), positions, 0, 0)
        return self._rows(moved, arriving)

    def _permuted(self) -> Any:
        """One permute: every device gets one row, or zeros."""
        own = [(d, *self._source(d, 0)) for d in range(self.op.devices)]
        pairs = [(s, t) for t, s, _ in own if s >= 0]
        rows = dict([(s, [row]) for _, s, row in own])
        table = [rows.get(d, [0]) for d in range(self.op.devices)]
        return self._permute(self._rows(self.x, table), pairs)

    def _in_rounds(self) -> Any:
        """Local rows first; those that arrive in each round are written over them."""
        op, b = self.op, self.b
        zeros = b.full(Type((1, *self.x.shape[1:]), self.x.dtype), 0)
        wide = Type((op.rows + 1, *self.x.shape[1:]), self.x.dtype)
        table = []
        for t in range(op.devices):
            found = [self._source(t, q) for q in range(op.count)]
            table.append([row if s == t else op.rows for s, row in found] + [op.rows])
        made = b.op("stablehlo.concatenate", self.x, zeros, out=wide, dimension=0)
        made = self._rows(made, table)
        for turn in op.rounds:
            rows, slots = {m.source: m.row for m in turn}, {m.target: m.slot for m in turn}
            leaving = [[rows.get(d, 0)] for d in range(op.devices)]
            row = self._permute(self._rows(self.x, leaving), [m[:2] for m in turn])
            # a device that gets nothing writes behind the last row
            start = self._number([slots.get(d, op.count) for d in range(op.devices)])
            starts = [start, *[b.constant(0, int64)] * (len(self.x.shape) - 1)]
            made = b.op("stablehlo.dynamic_update_slice", made, row, *starts, out=made.type)
        return self._sliced(made, 0, op.count)

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
        return sliced(self.b, x, (start, *zeros), (start + count, *x.shape[1:]))
