"""Moves of single rows: from any device to any device, or from any example to any example.

With these, a value changes its layout along several axes at once, and only what a device lacks is
sent to it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.dtypes import bool_, int64
from pullback.ops.collective.all_reduce import OneOperandCollective
from pullback.ops.collective.gather_scatter_permute import AllGather, PSlice
from pullback.ops.collective.rows_lowering import NOTHING, RowsLowering
from pullback.ops.composite import Composite
from pullback.ops.elementwise.functions import where
from pullback.ops.index.index_lowering import gather
from pullback.ops.prelude import TABLE, Axis, Node, Type, constant_node, jvp_in_first
from pullback.ops.samples import real
from pullback.sharding.rounds import device_groups_of_rounds, rounds


class RowsMessage(NamedTuple):
    """The rows that one device sends to another."""

    source: int
    target: int
    rows: list[int]  # of the source
    slots: list[int]  # rows of the target


class MoveRows(OneOperandCollective):
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
        _check_row_sources(self.sources, self.devices * self.rows)
        return x.with_shape((self.count, *x.shape[1:]))

    def varies(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The result varies along an axis if what a device gets depends on its place there."""
        keys = self._keys(axes)
        kept = [a for a in axes if a not in self.axes]
        return tuple(
            sorted(
                [
                    *kept,
                    *[
                        a
                        for k, a in enumerate(self.axes)
                        if _differ_between_collective_rows(keys, k)
                    ],
                ]
            )
        )

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
    def messages(self) -> list[RowsMessage]:
        """The messages from each device to each other one."""
        found: dict[tuple[int, int], RowsMessage] = {}
        for i, source in enumerate(self.sources):
            (target, slot), (device, row) = divmod(i, self.count), divmod(source, self.rows)
            if source != NOTHING and device != target:
                ends = device, target
                message = found.setdefault(ends, RowsMessage(*ends, [], []))
                message.rows.append(row)
                message.slots.append(slot)
        return list(found.values())

    @cached_property
    def exchange(self) -> list[list[int]]:
        """The groups in which all devices send each other equally many rows, if there are such."""
        groups = device_groups_of_rounds([m[:2] for m in self.messages], self.devices)
        size = len(groups[0])
        if size == 1 or self.count % size or any(len(g) != size for g in groups):
            return []
        for group in groups:
            for t in group:
                rows = self.sources[t * self.count : (t + 1) * self.count]
                given = Counter([s // self.rows for s in rows if s != NOTHING])
                if any(given[s] * size != self.count for s in group):
                    return []
        return groups

    @cached_property
    def shares(self) -> bool:
        """Whether every device of an exchange sends the same rows to all."""
        sent: dict[int, set] = {}
        for device in range(self.devices):
            own = self.sources[device * self.count : (device + 1) * self.count]
            sent[device] = {tuple([s % self.rows for s in own if s // self.rows == device])}
        for m in self.messages:
            sent[m.source].add(tuple(m.rows))
        return bool(self.exchange) and all(len(rows) == 1 for rows in sent.values())

    @cached_property
    def rounds(self) -> list[list[RowsMessage]]:
        """The messages of each round, which are equally long; an exchange takes one round."""
        if self.exchange:
            return [self.messages]
        found = []
        for length in sorted({len(m.rows) for m in self.messages}):
            alike = [m for m in self.messages if len(m.rows) == length]
            found += [[alike[i] for i in turn] for turn in rounds([m[:2] for m in alike])]
        return found

    @property
    def wire(self) -> str:  # type: ignore[override]
        if not self.messages:
            return ""
        return "all_gather" if self.shares else "all_to_all" if self.exchange else "permute"

    def sent(self, before: float, after: float, devices: int) -> float:
        rows = sum([len(m.rows) for m in self.messages])
        return after / self.count * rows / self.devices

    def steps(self) -> int:
        return len(self.rounds)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return RowsLowering(self, b, out, x).result()

    def batch_apart(self, x: Node) -> Node:
        return _swapped_collective_rows(self(_swapped_collective_rows(x)))

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
        needed = [a for k, a in enumerate(self.axes) if _differ_between_collective_rows(keys, k)]
        keys = keys[tuple([slice(None) if a in needed else 0 for a in self.axes])]
        index, given = (
            constant_node(np.maximum(keys, 0), int64),
            constant_node(keys != NOTHING, bool_),
        )
        chosen = False
        for a in needed:
            op = PSlice(a, self.sizes[self.axes.index(a)], 0)
            own = a == axis.name
            index, given = [op.batch(axis, (y,), (chosen,)) if own or chosen else op(y)
                            for y in (index, given)]  # fmt: skip
            chosen = chosen or own
        take = TABLE["Gather"](0)
        made = (
            take.batch(axis, (x, index), (mapped, chosen)) if mapped or chosen else take(x, index)
        )
        lead = (1,) * (mapped and not chosen)
        ones = (1,) * (made.type.rank - given.type.rank - len(lead))
        return where(TABLE["Reshape"]((*lead, *given.type.shape, *ones))(given), made, 0)


def _differ_between_collective_rows(keys: np.ndarray, k: int) -> bool:
    return bool((keys != keys.take([0], k)).any())


def _check_row_sources(sources: Sequence[int], rows: int) -> None:
    if not all(NOTHING <= s < rows for s in sources):
        what = f"sources must be rows, numbered from 0 to {rows - 1}, or {NOTHING} for zeros"
        raise ArgumentError(f"{what}, got {list(sources)}")


def _swapped_collective_rows(x: Node) -> Node:
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
        _check_row_sources(self.sources, len(self.sources))
        if len({s for s in self.sources if s >= 0}) < sum([s >= 0 for s in self.sources]):
            raise ArgumentError(f"a row must not be taken twice, got {list(self.sources)}")
        return x

    def expand(self, x: Node) -> Node:
        sources = np.array(self.sources, np.int64)
        moved = TABLE["Gather"](0)(x, constant_node(np.maximum(sources, 0), int64))
        given = (sources != NOTHING).reshape(-1, *[1] * (x.type.rank - 1))
        return moved if given.all() else where(constant_node(given, bool_), moved, 0)

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

    jvp = jvp_in_first  # type: ignore[assignment]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:  # type: ignore[override]
        return _swapped_collective_rows(self(_swapped_collective_rows(xs[0])))

    @classmethod
    def samples(cls) -> Any:
        yield cls((2, 0, 1)), (real(3, 2),)
        yield cls((NOTHING, 0, 3, NOTHING)), (real(4),)
