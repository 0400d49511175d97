"""The partition pass: each op of a program is applied to the parts that its factor rule asks for.

The program is walked twice. The first walk learns how each value is asked for; in the second, a
sum over devices is joined at once where several users need it in different ways, straight into
parts where all need the same parts, and not yet where all can go on with contributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pullback.errors import EngineError
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph, ancestors
from pullback.graph.kinds import SumOfProducts
from pullback.graph.node import Node, emit, results, vary_over
from pullback.ops.composite import Expandable
from pullback.ops.parts import local_op
from pullback.ops.prelude import Op, Type
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import Origin, Placed, Remake, neutral
from pullback.sharding.partition.reasons import Explained, Reason, wired
from pullback.sharding.propagate import PropagationPlan, along, plan
from pullback.sharding.spec import Dims, layout
from pullback.transforms.call_rules import deriving

Asked = dict[int, set]  # by the number of a value: how it was asked for
_AS_IT_IS = "as it is"
_DEEPEST = 32  # how long a chain of ops may be that is made anew in parts


class Partitioned(NamedTuple):
    """A per-device program, the ops of the whole one that its ops are parts of, and why there are
    collectives in it, and in what its ops hold."""

    graph: Graph
    made_for: dict[Node, Node]
    reasons: dict[Node, Reason]
    within: dict[Node, Reason]


def partition(graph: Graph, mesh: DeviceMesh) -> Partitioned:
    """The per-device program. Inputs and outputs are parts, as their types' shardings say; one
    without a sharding is whole on every device."""
    first = Partitioner(mesh)
    first.whole_program(graph)
    second = Partitioner(mesh, first.asked)
    made = second.whole_program(graph)
    return Partitioned(made, second.made_for, second.reasons, second.within)


class Partitioner(Explained):
    """One walk through a graph. Ops that hold graphs are handed it, to partition those."""

    def __init__(self, mesh: DeviceMesh, known: Asked | None = None) -> None:
        super().__init__(mesh)
        self.known, self.asked = known, Asked()
        self._count = 0

    def whole_program(self, graph: Graph) -> Graph:
        pairs = zip(graph.inputs, graph.names, strict=True)
        inputs = [self.placeholder(name, x.type) for x, name in pairs]
        ys = []
        made = self.run(graph, inputs)
        with deriving():
            for y, p in zip(graph.outputs, made, strict=True):
                thread.where = y.where
                ys.append(self.finished(self.ask(p, layout(y.type))))
        return Graph([x.node for x in inputs], ys, graph.names)

    def placeholder(self, name: str, type: Type) -> Placed:
        """An input of the per-device program, for one of the given type."""
        whole, dims = type.plain, layout(type)
        priority = () if type.sharding is None else type.sharding.spec.priority
        return Placed(placeholder(name, self.local(whole, dims)), whole, dims, priority=priority)

    def run(self, graph: Graph, xs: Sequence[Placed]) -> list[Placed]:
        """The graph's outputs over operands `xs`."""
        known: dict[Node, Any] = dict(zip(graph.inputs, xs, strict=True))
        around, outermost = self._user, self.node is None
        with deriving():
            for node in graph.nodes[len(graph.inputs) :]:
                thread.where, thread.backward = node.where, node.backward
                self.node = node if outermost else self.node
                operands = [known[x] for x in node.inputs]
                if operands and isinstance(operands[0], tuple):
                    known[node] = operands[0][node.op.index]  # type: ignore[attr-defined]
                else:
                    known[node] = self.apply(node, operands)
        self._user = around
        return [known[y] for y in graph.outputs]

    def ask(self, p: Placed, dims: Dims) -> Placed:
        """A value as a user of it needs it."""
        self.asked.setdefault(p.number, set()).add(dims)
        return self.place(p, dims)

    def contributions(self, p: Placed, dims: Dims) -> Placed:
        """A value as a user needs it that goes on with contributions to a sum, if it is one."""
        split = {a for axes in dims for a in axes}
        if p.combine != "sum" or split.intersection(p.partial):
            return self.ask(p, dims)
        self.asked.setdefault(p.number, set()).add(_AS_IT_IS if p.partial else dims)
        return replace(self.place(replace(p, partial=()), dims), partial=p.partial)

    # -- for ops that hold graphs ------------------------------------------------------------------

    def finished(self, p: Placed) -> Node:
        """A complete value as a result of a program. What is the same on all devices must not have
        been made from parts that differ."""
        rest = [a for a in p.node.type.varying if a not in p.axes]
        if rest:
            op = p.node.op.title
            raise EngineError(f"a result that must be whole along {', '.join(rest)} is not", op=op)
        return vary_over(p.node, tuple(sorted(p.axes)))

    def placed(
        self, nodes: Sequence[Node], types: Sequence[Type], dims: Sequence[Dims],
        partial: Sequence[tuple[str, ...]] = (),
    ) -> tuple:  # fmt: skip
        """Results of the given whole types, whose parts, or contributions, are nodes."""
        rows = zip(nodes, types, dims, partial or [()] * len(nodes), strict=True)
        return tuple([Placed(n, t.plain, split, left) for n, t, split, left in rows])

    # -- one application ---------------------------------------------------------------------------

    def apply(self, node: Node, xs: list[Placed]) -> Any:
        """The op on the parts of its operands: a value, or a tuple for several results."""
        op: Any = node.op
        self._user = op.title
        if hasattr(op, "partition"):
            around, self._held = self._held, []
            made = op.partition(self, xs, node.type)
            self._held = around
            return self._noted(node, made)
        if not any(x.axes for x in xs):
            return self._noted(node, self._everywhere(node, xs))
        if isinstance(op, Expandable) and type(op).factors is Op.factors:
            return self._written_out(node, xs)
        several = isinstance(node.type, tuple)
        ys = [t.plain for t in (node.type if several else (node.type,))]
        split = self.cheapest(op, xs, ys)
        if isinstance(op, Expandable) and self._must_gather(split, xs):
            return self._written_out(node, xs)
        return self._noted(node, self._in_parts(node, xs, split, ys))

    def _everywhere(self, node: Node, xs: list[Placed]) -> Any:
        """Whole operands: every device does the same."""
        made = emit(node.op, tuple([x.node for x in xs]))
        self.stand_for(made)
        if isinstance(node.type, tuple):
            return tuple([self._whole(y, t) for y, t in zip(results(made), node.type, strict=True)])
        return replace(self._whole(made, node.type), remake=self._remaker(node, xs))

    def _whole(self, node: Node, type: Type) -> Placed:
        return Placed(node, type.plain, ((),) * type.rank)

    def inline(self, graph: Graph, xs: Sequence[Node]) -> tuple[Node, ...]:
        """A program of one device, written into this one for the op whose rule is running."""
        made = graph(*xs)
        new = [n for n in ancestors(made, set(xs).__contains__) if n not in xs]
        self.stand_for(*new)
        self.copied(wired(graph), new)
        return made

    def _remaker(self, node: Node, xs: list[Placed]) -> Remake | None:
        """How to make only parts of a value that is made from little: numbers that are drawn or
        counted, and what is computed from them and from smaller values."""
        op, out = node.op, node.type.plain
        own = hasattr(op, "part")
        little = all(x.remake is not None or x.whole.size < out.size for x in xs)
        again = own or op.cheap or (any(x.remake for x in xs) and not isinstance(op, SumOfProducts))
        if op.fallible or not again or not little:
            return None
        depth = 1 + max([x.remake.depth for x in xs if x.remake is not None], default=0)

        def remake(dims: Dims) -> Node | None:
            form = plan(op, [x.whole for x in xs], [out], self.mesh).form
            wanted = [(fs, by) for fs, by in zip(form.results[0], dims, strict=True) if by]
            axes = {fs[0]: by for fs, by in wanted if len(fs) == 1}
            several = [f for operand in form.operands for fs in operand if fs[1:] for f in fs]
            if len(axes) < len(wanted) or not axes.keys().isdisjoint(several):
                return None
            operands = along(form, self.mesh, axes).operands
            parts = [self.place(x, split).node for x, split in zip(xs, operands, strict=True)]
            return self.made(op, parts, out, dims)

        return Remake(remake, depth) if depth <= _DEEPEST else None

    def _written_out(self, node: Node, xs: list[Placed]) -> Any:
        """A composite: the ops that it is written as, in parts."""
        made = self.run(node.op.expansion([x.whole for x in xs]), xs)  # type: ignore[attr-defined]
        return tuple(made) if isinstance(node.type, tuple) else made[0]

    def _must_gather(self, split: PropagationPlan, xs: list[Placed]) -> bool:
        """Whether an operand is split along a dimension that the op needs whole."""
        for x, dims, wanted in zip(xs, split.form.operands, split.operands, strict=True):
            for factors, have, want in zip(dims, x.dims, wanted, strict=True):
                if not factors and have and not want:
                    return True
        return False

    def _in_parts(
        self, node: Node, xs: list[Placed], split: PropagationPlan, ys: list[Type]
    ) -> Any:
        op = node.op
        deferred = self._deferred(node, xs, split)
        operands = []
        for i, (x, dims) in enumerate(zip(xs, split.operands, strict=True)):
            moved = self.contributions(x, dims) if deferred and x.partial else self.ask(x, dims)
            moved = self._neutral(op, i, moved, split)
            if i in op.parts.counted_once and split.results[0].partial:
                moved = self.on_first(moved, split.results[0].partial, op)
            operands.append(moved)
        outs = [self.local(y, r.dims).plain for y, r in zip(ys, split.results, strict=True)]
        nodes = tuple([x.node for x in operands])
        if isinstance(node.type, tuple):
            made = emit(local_op(op, [x.type.plain for x in nodes], tuple(outs)), nodes)
        else:
            made = self.made(op, nodes, ys[0], split.results[0].dims)
        self.stand_for(made)
        nodes = results(made) if isinstance(node.type, tuple) else (made,)
        placed = []
        for y, n, t, r in zip(ys, nodes, outs, split.results, strict=True):
            if n.type.plain is not t:
                raise EngineError(
                    f"its part on one device is {n.type}, its rule says {t}", op=op.title
                )
            partial = tuple(sorted({*r.partial, *deferred}))
            again = type(op) if op.parts.combine == "again" else op.parts.combine
            combine = again if r.partial else "sum"
            origin = self._origin(op, xs, split) if not partial else None
            placed.append(Placed(n, y, r.dims, partial, combine, r.priority, origin=origin))
        return tuple(placed) if isinstance(node.type, tuple) else placed[0]

    def _origin(self, op: Op, xs: list[Placed], split: PropagationPlan) -> Origin | None:
        """Where a result's elements come from, if the op only moves one operand's."""
        single = all(len(fs) == 1 for side in (split.form.operands, split.form.results)
                     for dims in side for fs in dims)  # fmt: skip
        moves = len(xs) == 1 and op.linear and op.cheap and single
        return Origin(xs[0], op, split.form) if moves and not xs[0].partial else None

    def _deferred(self, node: Node, xs: list[Placed], split: PropagationPlan) -> tuple[str, ...]:
        """The axes over which operands may stay contributions: those whose sum is the result."""
        partial = [x for x in xs if x.partial]
        if not partial or isinstance(node.type, tuple) or self._wanted_otherwise(partial):
            return ()
        first, op = partial[0], node.op
        if any(x.combine != "sum" or x.partial != first.partial for x in partial):
            return ()
        used = {a for axes in split.axes.values() for a in axes}
        if used.intersection(first.partial) or (
            split.results[0].partial and op.parts.combine != "sum"
        ):
            return ()
        jointly = op.linear and len(partial) == len(xs)
        alone = len(partial) == 1 and xs.index(first) in op.parts.linear_in and node.type.inexact
        same = node.type.dtype is first.whole.dtype and node.type.size <= first.whole.size
        return first.partial if (jointly or alone) and same else ()

    def _wanted_otherwise(self, xs: list[Placed]) -> bool:
        """Whether an operand is joined anyhow, because another user needs it complete."""
        known = self.known or {}
        return any(known.get(x.number, {_AS_IT_IS}) != {_AS_IT_IS} for x in xs)

    def _neutral(self, op: Op, i: int, x: Placed, split: PropagationPlan) -> Placed:
        """Where operand i's parts are padded: what pads must not count in the result, nor fail."""
        contracted = set(split.form.contracted)
        positions = op.fallible if op.parts.positions is None else i >= op.parts.positions
        for dim, factors in enumerate(split.form.operands[i]):
            if positions:
                x = self.masked(x, dim, 0)
            elif factors and factors[0] in contracted:
                x = self.masked(x, dim, neutral(op, x.whole.dtype))
        return x

    # -- what the second walk knows ----------------------------------------------------------------

    def _noted(self, node: Node, made: Any) -> Any:
        if isinstance(made, tuple):
            return tuple([self._numbered(node, p) for p in made])
        return self._numbered(node, made)

    def _numbered(self, node: Node, p: Placed) -> Placed:
        self._count += 1
        self._makers[self._count] = node
        p = replace(p, number=self._count)
        if p.partial and self.known is not None and len(self.known.get(p.number, ())) > 1:
            p = replace(self.join(p), number=self._count)
        return p
