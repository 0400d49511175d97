"""Scan: a loop of known length over a state, with one row of inputs and outputs per iteration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import float64, int32, int64
from pullback.graph.graph import Graph
from pullback.graph.subgraph import embed_subgraph
from pullback.graph.types import show_types
from pullback.ops.control import body_partition, holder, late_sums, scan_rules
from pullback.ops.control.holder import (
    Holder,
    canonical_holder_graph,
    held_row,
    hold,
    run_held,
    stacked_held_type,
)
from pullback.ops.control.varying import Axes, varying_scan_body
from pullback.ops.elementwise.functions import cast
from pullback.ops.prelude import TABLE, Node, Type
from pullback.ops.samples import real
from pullback.ops.sources import Input
from pullback.ops.traits import HasLateSums
from pullback.ops.wrap.call import check_call_operands
from pullback.sharding.spec import layout, spec_on_mesh


class Scan(Holder, HasLateSums):
    """Runs `body` `length` times, over rows in reverse order if `reverse`.

    Operands are the state (the first `carries`), `scanned` tensors with one row for each iteration,
    and constants. The body takes the state, a row of each tensor, and the constants; it returns the
    new state and rows of results. The op returns the last state and the stacked rows. Each
    iteration of the lowered loop runs the body `unroll` times.
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
                what = f"the first dimension must have {self.length} rows, one per iteration"
                raise ShapeError(f"{what}, got {x}", code="E3002")
        check_call_operands(self.body, [*state, *map(held_row, rows), *constants])
        outs = [y.type.plain for y in self.body.outputs]
        if outs[: self.carries] != state:
            got = f"{show_types(state)}, then {show_types(outs[: self.carries])}"
            raise ShapeError(f"the state must keep its types, got {got}", code="E2001")
        return (*state, *[stacked_held_type(t, self.length) for t in outs[self.carries :]])

    def over(self, axes: Sequence[Axes]) -> Scan:
        body = canonical_holder_graph(varying_scan_body(self.body, axes, self.carries))
        return self.with_body(body, self.carries, self.scanned)

    def split(self, xs: Sequence) -> tuple[list, list, list]:
        """Split operands, or values that belong to them, into state, rows and constants."""
        n, m = self.carries, self.carries + self.scanned
        return list(xs[:n]), list(xs[n:m]), list(xs[m:])

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        state, rows, constants = self.split(xs)
        n, steps = self.carries, range(self.length)
        types = [y.type for y in self.body.outputs[n:]]
        stacks = [np.empty((self.length, *t.shape), t.dtype.numpy) for t in types]
        for i in reversed(steps) if self.reverse else steps:
            found = run_held(self.body, [*state, *[x[i] for x in rows], *constants], i)
            state = found[:n]
            for stack, y in zip(stacks, found[n:], strict=True):
                stack[i] = y
        return (*state, *stacks)

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> tuple:
        n = self.carries
        state, rows, constants = self.split(xs)
        count = int32 if self.length < 2**31 else int64

        def step(i: Any, values: Sequence) -> list:
            """Run iteration `i`, counted in the order of execution."""
            if self.reverse:
                last = b.constant(self.length - 1, count)
                i = b.op("stablehlo.subtract", last, i, out=i.type)
            given = [*values[:n], *b.read_rows(rows, i), *constants]
            found = b.inline(self.body, given, held=True)
            return [*found[:n], *b.write_rows(values[n:], found[n:], i)]

        def steps(i: Any, *values: Any) -> list:
            made = list(values)
            for _ in range(self.unroll):
                made = step(i, made)
                i = b.op("stablehlo.add", i, b.constant(1, count), out=i.type)
            return [i, *made]

        def condition(i: Any, *values: Any) -> Any:
            return b.compare("LT", i, b.constant(looped, count))

        values = [*state, *[b.unwritten_stack(t) for t in out[n:]]]
        looped = self.length - self.length % self.unroll
        if looped <= self.unroll:  # a single iteration needs no loop
            looped = 0
        else:
            start = b.constant(0, count)
            values = list(b.loop([start, *values], condition, steps, stops=False)[1:])
        for i in range(looped, self.length):
            values = step(b.constant(i, count), values)
        return tuple(values)

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        state, outputs = self._stable_state(mesh, xs)
        rows = [spec_on_mesh(mesh, ((), *layout(y))) for y in outputs[self.carries :]]
        return [*[t.sharding for t in state], *rows]

    def _stable_state(self, mesh: Any, xs: Sequence[Type]) -> tuple[list[Type], list[Type]]:
        state, rows, constants = self.split(xs)
        others = [*[body_partition.body_partition_row_type(t, mesh) for t in rows], *constants]
        return body_partition.body_partition_state(mesh, self.body, state, others)

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:
        n, mesh = self.carries, to.mesh
        types = [x.type(mesh) for x in xs]
        state, _ = self._stable_state(mesh, types)
        _, rows, constants = self.split(types)
        inner = [
            *state,
            *[body_partition.body_partition_row_type(t, mesh) for t in rows],
            *constants,
        ]
        kept = [layout(t) for t in state]
        layouts = [*kept, *[((), *layout(t)[1:]) for t in rows], *map(layout, constants)]
        operands = [to.ask(x, dims) for x, dims in zip(xs, layouts, strict=True)]
        body, ys = body_partition.partitioned_body(to, self.body, inner, kept)
        for i, y in enumerate(ys[:n]):
            if y.partial:
                operands[i] = to.on_first(operands[i], y.partial, self)
        found = to.results(self.with_body(body, n, self.scanned), [x.node for x in operands])
        dims = [y.dims if i < n else ((), *y.dims) for i, y in enumerate(ys)]
        return to.local_values(found, type, dims, [y.partial for y in ys])

    vjp = scan_rules.scan_vjp  # type: ignore[assignment]
    jvp = scan_rules.scan_jvp  # type: ignore[assignment]
    batch = scan_rules.batch_scan  # type: ignore[assignment]
    with_late_sums = late_sums.with_late_sums  # type: ignore[assignment]

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """`other` must have this state and these rows among its own."""
        if not isinstance(other, Scan):
            return None
        if self.with_body(other.body, other.carries, other.scanned) is not other:
            return None  # another length, order or unrolling
        n, m = other.carries, other.carries + other.scanned
        mine, theirs = self.split(xs), other.split(ys)
        state = holder.holder_states_among(mine[0], theirs[0])
        rows, constants = (holder.holder_positions_among(mine[i], theirs[i]) for i in (1, 2))
        if state is None or rows is None or constants is None:
            return None
        inputs = [*state, *[n + i for i in rows], *[m + i for i in constants]]
        found = embed_subgraph(self.body, other.body, inputs)
        if found is None:
            return None
        targets = other.body.outputs
        if any(targets[i] is not y for i, y in zip(state, found)):
            return None
        emitted = holder.holder_positions_among(found[self.carries :], targets[n:])
        return None if emitted is None else [*state, *[n + i for i in emitted]]

    def with_body(self, body: Graph, carries: int, scanned: int, flip: bool = False) -> Scan:
        """Return a scan of the same length; with `flip`, in the opposite order."""
        return Scan(body, carries, scanned, self.length, self.reverse is not flip, self.unroll)

    @classmethod
    def samples(cls) -> Any:
        h, x, w = (Input(label, (3,), float64)() for label in "hxw")
        i, k = Input("i", (), int64)(), Input("k", (3,), int64)()
        tanh, gather = TABLE["Tanh"](), TABLE["Gather"](0)
        cell = hold((h, x, w), (tanh(h * w + x), h * x))
        for arguments in ((4,), (4, True), (5, False, 2), (0,), (1, True, 3)):
            operands = real(3), real(arguments[0], 3, salt=1), real(3, salt=2)
            yield cls(cell, 1, 1, *arguments), operands
        # An index in the state, rows of integers, a result that is the previous state.
        counted = hold((i, h, k, w), (i + 1, tanh(gather(w, i) * h), gather(w, k) * h, i, h))
        rows = np.array([[0, 2, 1], [1, 1, 0]])
        yield cls(counted, 2, 1, 2), (np.int64(1), real(3), rows, real(3, salt=1))
        yield cls(hold((x,), (x * x, cast(x, int64))), 0, 1, 3, True), (real(3, 3),)
        yield cls(hold((h,), (h * h,)), 1, 0, 3), (real(3, low=0.5, high=1),)
