"""Scan: a loop of known length, with a state and values that come and go one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import float64, int32, int64
from pullback.graph.graph import Graph
from pullback.graph.subgraph import embed
from pullback.graph.types import show
from pullback.ops.control import partition, scan_rules
from pullback.ops.control.holder import (
    Holder,
    held,
    hold,
    places_among,
    row,
    run,
    stacked,
    states_among,
)
from pullback.ops.control.varying import Axes, scan_body
from pullback.ops.elementwise.base import cast
from pullback.ops.prelude import TABLE, Axis, Node, Type
from pullback.ops.samples import real
from pullback.ops.sources import Input
from pullback.ops.wrap.call import check_operands
from pullback.sharding.spec import layout


class Scan(Holder):
    """Runs `body` `length` times, over rows in reverse order if `reverse`.

    Operands are the first `carries` (the state), `scanned` tensors whose first dimension counts
    the rounds, and constants. The body takes the state, a row of each tensor, and the constants;
    it gives the new state, and rows of results. The op gives the last state, and these rows
    stacked. `unroll` rounds are written out at a time.
    """

    body: Graph
    carries: int
    scanned: int
    length: int
    reverse: bool = False
    unroll: int = 1

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        state, rows, constants = self.split([x.plain for x in xs])
        for x in rows:
            if x.shape[:1] != (self.length,):
                what = f"the first dimension must count {self.length} rounds, got {x}"
                raise ShapeError(what, code="E3002")
        check_operands(self.body, [*state, *map(row, rows), *constants])
        outs = [y.type.plain for y in self.body.outputs]
        if outs[: self.carries] != state:
            got = f"{show(state)} to {show(outs[: self.carries])}"
            raise ShapeError(f"the state must keep its types, got {got}", code="E2001")
        return (*state, *[stacked(t, self.length) for t in outs[self.carries :]])

    def over(self, axes: Sequence[Axes]) -> Scan:
        body = held(scan_body(self.body, axes, self.carries))
        return self.with_body(body, self.carries, self.scanned)

    def split(self, xs: Sequence) -> tuple[list, list, list]:
        """Operands, or what belongs to them, as state, rows and constants."""
        n, m = self.carries, self.carries + self.scanned
        return list(xs[:n]), list(xs[n:m]), list(xs[m:])

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        state, rows, constants = self.split(xs)
        n, rounds = self.carries, range(self.length)
        outs = [y.type for y in self.body.outputs[n:]]
        made = [np.empty((self.length, *t.shape), t.dtype.numpy) for t in outs]
        for i in reversed(rounds) if self.reverse else rounds:
            found = run(self.body, [*state, *[x[i] for x in rows], *constants])
            state = found[:n]
            for into, y in zip(made, found[n:], strict=True):
                into[i] = y
        return (*state, *made)

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> tuple:
        n = self.carries
        state, rows, constants = self.split(xs)
        count = int32 if self.length < 2**31 else int64

        def turn(at: Any, values: Sequence) -> list:
            """Round `at`, counted from the first that is run."""
            if self.reverse:
                last = b.constant(self.length - 1, count)
                at = b.op("stablehlo.subtract", last, at, out=at.type)
            given = [_read(b, x, at) for x in rows]
            found = b.inline(self.body, [*values[:n], *given, *constants], held=True)
            pairs = zip(values[n:], found[n:], strict=True)
            return [*found[:n], *[_write(b, into, y, at) for into, y in pairs]]

        def turns(at: Any, *values: Any) -> list:
            made = list(values)
            for _ in range(self.unroll):
                made = turn(at, made)
                at = b.op("stablehlo.add", at, b.constant(1, count), out=at.type)
            return [at, *made]

        def more(at: Any, *values: Any) -> Any:
            return b.compare("LT", at, b.constant(looped, count))

        values = [*state, *[b.full(t, 0) for t in out[n:]]]
        looped = self.length - self.length % self.unroll
        if looped <= self.unroll:  # a loop of one round is none
            looped = 0
        else:
            start = b.constant(0, count)
            values = list(b.loop([start, *values], more, turns, stops=False)[1:])
        for i in range(looped, self.length):
            values = turn(b.constant(i, count), values)
        return tuple(values)

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        state, made = self._settled(mesh, xs)
        rows = [partition.behind(y, mesh) for y in made[self.carries :]]
        return [*[t.sharding for t in state], *rows]

    def _settled(self, mesh: Any, xs: Sequence[Type]) -> tuple[list[Type], list[Type]]:
        state, rows, constants = self.split(xs)
        others = [*[partition.row(t, mesh) for t in rows], *constants]
        return partition.settled(mesh, self.body, state, others)

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:
        n, mesh = self.carries, to.mesh
        types = [x.type(mesh) for x in xs]
        state, _ = self._settled(mesh, types)
        _, rows, constants = self.split(types)
        inner = [*state, *[partition.row(t, mesh) for t in rows], *constants]
        kept = [layout(t) for t in state]
        layouts = [*kept, *[((), *layout(t)[1:]) for t in rows], *map(layout, constants)]
        operands = [to.ask(x, dims) for x, dims in zip(xs, layouts, strict=True)]
        body, ys = partition.local_body(to, self.body, inner, kept)
        for i, y in enumerate(ys[:n]):
            if y.partial:
                operands[i] = to.on_first(operands[i], y.partial, self)
        found = to.results(self.with_body(body, n, self.scanned), [x.node for x in operands])
        dims = [y.dims if i < n else ((), *y.dims) for i, y in enumerate(ys)]
        return to.placed(found, type, dims, [y.partial for y in ys])

    def vjp(
        self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        return scan_rules.pull_back(self, g, out, xs, need, gradients)

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence, tangents: Callable) -> Any:
        return scan_rules.push_forward(self, xs, ts, tangents)

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Any:
        return scan_rules.batch(self, axis, xs, mapped, batched_graph)

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """Another loop does the same if it has this state and these rows among its own."""
        if not isinstance(other, Scan) or self._rounds() != other._rounds():
            return None
        n, m = other.carries, other.carries + other.scanned
        mine, theirs = self.split(xs), other.split(ys)
        state = states_among(mine[0], theirs[0])
        rows, constants = places_among(mine[1], theirs[1]), places_among(mine[2], theirs[2])
        if state is None or rows is None or constants is None:
            return None
        inputs = [*state, *[n + i for i in rows], *[m + i for i in constants]]
        found = embed(self.body, other.body, inputs)
        if found is None:
            return None
        targets = other.body.outputs
        if any(targets[i] is not y for i, y in zip(state, found)):
            return None
        emitted = places_among(found[self.carries :], targets[n:])
        return None if emitted is None else [*state, *[n + i for i in emitted]]

    def _rounds(self) -> tuple:
        return self.length, self.reverse, self.unroll

    def with_body(self, body: Graph, carries: int, scanned: int, turned: bool = False) -> Scan:
        """A loop of as many rounds; `turned` goes the other way."""
        return Scan(body, carries, scanned, self.length, self.reverse is not turned, self.unroll)

    @classmethod
    def samples(cls) -> Any:
        h, x, w = (Input(label, (3,), float64)() for label in "hxw")
        i, k = Input("i", (), int64)(), Input("k", (3,), int64)()
        tanh, gather = TABLE["Tanh"](), TABLE["Gather"](0)
        cell = hold((h, x, w), (tanh(h * w + x), h * x))
        for arguments in ((4,), (4, True), (5, False, 2), (0,), (1, True, 3)):
            operands = real(3), real(arguments[0], 3, salt=1), real(3, salt=2)
            yield cls(cell, 1, 1, *arguments), operands
        # an index in the state, rows of integers, a result that is the state before
        counted = hold((i, h, k, w), (i + 1, tanh(gather(w, i) * h), gather(w, k) * h, i, h))
        rows = np.array([[0, 2, 1], [1, 1, 0]])
        yield cls(counted, 2, 1, 2), (np.int64(1), real(3), rows, real(3, salt=1))
        yield cls(hold((x,), (x * x, cast(x, int64))), 0, 1, 3, True), (real(3, 3),)
        yield cls(hold((h,), (h * h,)), 1, 0, 3), (real(3, low=0.5, high=1),)


def _starts(b: Any, at: Any, rank: int) -> list:
    return [at, *[b.constant(0, at.dtype)] * (rank - 1)]


def _read(b: Any, x: Any, at: Any) -> Any:
    """Row `at` of `x`."""
    out = Type((1, *x.shape[1:]), x.dtype)
    starts = _starts(b, at, len(x.shape))
    found = b.op("stablehlo.dynamic_slice", x, *starts, out=out, slice_sizes=out.shape)
    return b.reshape(found, x.shape[1:])


def _write(b: Any, into: Any, y: Any, at: Any) -> Any:
    """`into` with `y` as row `at`."""
    starts = _starts(b, at, len(into.shape))
    update = b.reshape(y, (1, *y.shape))
    return b.op("stablehlo.dynamic_update_slice", into, update, *starts, out=into.type)
