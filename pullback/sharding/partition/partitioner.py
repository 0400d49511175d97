"""The partition pass: it applies each op of a program to the shards that its factor rule needs.

The program is walked twice. The first walk learns in which layouts each value is needed. The second
reduces a sum over devices at once if its users need different layouts, directly into shards if all
need the same shards, and later if all can continue with partial sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pullback.errors import EngineError
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node, apply_op_to_nodes, node_varying_over, result_nodes
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.ops.composite import CompositeOnMesh
from pullback.ops.parts import op_for_parts
from pullback.ops.prelude import Op, Type
from pullback.ops.sources import placeholder
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import (
    LocalValue,
    LocalValueOrigin,
    LocalValueRemake,
    neutral_local_value,
)
from pullback.sharding.partition.prices import priced_result_types
from pullback.sharding.partition.reasons import ChooserWithReasons, Reason, wired_with_reasons
from pullback.sharding.propagate import PropagationPlan, plan_propagation, propagate_along
from pullback.sharding.spec import Dims, layout
from pullback.transforms.call_rules import calling_rules

LocalValues = tuple[LocalValue, ...]
Asked = dict[int, set]  # the layouts in which a value is needed, by its number
_PARTIAL = "partial"  # stands for the layout of a user that continues with partial sums
_DEEPEST = 32  # the longest chain of ops that is recomputed as shards


class Partitioned(NamedTuple):
    """A per-device program, and where its nodes come from."""

    graph: Graph
    made_for: dict[Node, Node]  # the node of the whole program for each node
    reasons: dict[Node, Reason]  # of collectives
    within: dict[Node, Reason]  # of collectives in graphs that ops hold


def partition(graph: Graph, mesh: DeviceMesh) -> Partitioned:
    """Return the per-device program.

    Inputs and outputs are shards by the shardings of their types; without one they are replicated.
    """
    first = Partitioner(mesh)
    first.whole_program(graph)
    second = Partitioner(mesh, first.asked)
    local = second.whole_program(graph)
    return Partitioned(local, second.made_for, second.reasons, second.within)


class Partitioner(ChooserWithReasons):
    """One walk through a graph; ops that hold graphs partition these with it."""

    def __init__(self, mesh: DeviceMesh, known: Asked | None = None) -> None:
        super().__init__(mesh)
        self.known, self.asked = known or Asked(), Asked()  # by the first walk, by this one
        self._count = 0

    def whole_program(self, graph: Graph) -> Graph:
        pairs = zip(graph.inputs, graph.names, strict=True)
        inputs = [self.placeholder(name, x.type) for x, name in pairs]
        values, outputs = self.run(graph, inputs), []
        with calling_rules():
            for y, p in zip(graph.outputs, values, strict=True):
                thread.where = y.where
                outputs.append(self.finished(self.ask(p, layout(y.type))))
        return Graph([x.node for x in inputs], outputs, graph.names)

    def placeholder(self, name: str, type: Type) -> LocalValue:
        """Return an input of the per-device program, for an input of the given type."""
        whole, dims = type.plain, layout(type)
        priority = () if type.sharding is None else type.sharding.spec.priority
        node = placeholder(name, self.local(whole, dims))
        return LocalValue(node, whole, dims, priority=priority)

    def run(self, graph: Graph, xs: Sequence[LocalValue]) -> list[LocalValue]:
        """Return the outputs of a graph for operands `xs`."""
        known: dict[Node, Any] = dict(zip(graph.inputs, xs, strict=True))
        user, outermost = self._user, self.node is None
        with calling_rules():
            for node in graph.nodes[len(graph.inputs) :]:
                thread.where, thread.forward_op = node.where, node.forward_op
                self.node = node if outermost else self.node
                operands = [known[x] for x in node.inputs]
                if operands and isinstance(operands[0], tuple):
                    known[node] = operands[0][node.op.index]  # type: ignore[attr-defined]
                else:
                    values = self.apply(node, operands)
                    known[node] = values if isinstance(node.type, tuple) else values[0]
        self._user = user
        return [known[y] for y in graph.outputs]

    def ask(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Return a value in the layout that a user needs."""
        self.asked.setdefault(p.number, set()).add(dims)
        return self.move(p, dims)

    def partial_sum(self, p: LocalValue, dims: Dims) -> LocalValue:
        """Return a value in a layout for a user that can continue with partial sums."""
        split = {a for axes in dims for a in axes}
        if p.combine != "sum" or split.intersection(p.partial):
            return self.ask(p, dims)
        self.asked.setdefault(p.number, set()).add(_PARTIAL if p.partial else dims)
        return replace(self.move(replace(p, partial=()), dims), partial=p.partial)

    def finished(self, p: LocalValue) -> Node:
        """Return a complete value as a result of a program."""
        rest = [a for a in p.node.type.varying if a not in p.axes]
        if rest:  # computed from different shards
            op = p.node.op.title
            raise EngineError(f"a result must be whole along {', '.join(rest)}, but varies", op=op)
        return node_varying_over(p.node, tuple(sorted(p.axes)))

    def local_values(
        self, nodes: Sequence[Node], types: Sequence[Type], dims: Sequence[Dims],
        partial: Sequence[tuple[str, ...]] = (),
    ) -> LocalValues:  # fmt: skip
        """Return results of the given whole types, whose shards or partial sums are `nodes`."""
        rows = zip(nodes, types, dims, partial or [()] * len(nodes), strict=True)
        return tuple([LocalValue(n, t.plain, split, axes) for n, t, split, axes in rows])

    def inline(self, graph: Graph, xs: Sequence[Node]) -> tuple[Node, ...]:
        """Insert a per-device program for the op that is being partitioned."""
        outputs = graph(*xs)
        new = [n for n in graph_ancestors(outputs, set(xs).__contains__) if n not in xs]
        self.stand_for(*new)
        for old, n in zip(wired_with_reasons(graph.nodes), wired_with_reasons(new), strict=True):
            if old in self.reasons:
                self.reasons[n] = self.reasons[old]
        return outputs

    def apply(self, node: Node, xs: list[LocalValue]) -> LocalValues:
        """Apply the op of a node to the shards of its operands; return its results."""
        op: Any = node.op
        self._user = op.title
        if hasattr(op, "partition"):
            held, self._held = self._held, []
            found = op.partition(self, xs, node.type)
            self._held = held
            return self._numbered(node, found if isinstance(found, tuple) else (found,))
        if not any(x.axes for x in xs):
            return self._numbered(node, self._on_every_device(node, xs))
        if isinstance(op, CompositeOnMesh) and type(op).factors is Op.factors:
            return self._expanded(op, xs)
        split = self.cheapest(op, xs, priced_result_types(node))
        if isinstance(op, CompositeOnMesh) and self._must_gather(split, xs):
            return self._expanded(op, xs)
        return self._numbered(node, self._on_shards(node, xs, split))

    def _on_every_device(self, node: Node, xs: list[LocalValue]) -> LocalValues:
        """Apply an op to whole operands: every device does the same."""
        local = apply_op_to_nodes(node.op, tuple([x.node for x in xs]))
        self.stand_for(local)
        if isinstance(node.type, tuple):
            dims = [((),) * t.rank for t in node.type]
            return self.local_values(result_nodes(local), node.type, dims)
        whole, remake = node.type.plain, self._remake(node, xs)
        return (LocalValue(local, whole, ((),) * whole.rank, remake=remake),)

    def _remake(self, node: Node, xs: list[LocalValue]) -> LocalValueRemake | None:
        """Return how to recompute shards of a value that is made from little data.

        These are random numbers, iotas, and values computed from them and from smaller values.
        """
        op, out = node.op, node.type.plain
        little = all(x.remake is not None or x.whole.size < out.size for x in xs)
        derived = any(x.remake for x in xs) and not isinstance(op, SumOfProductsKind)
        if op.fallible or not little or not (hasattr(op, "part") or op.cheap or derived):
            return None
        depth = 1 + max([x.remake.depth for x in xs if x.remake is not None], default=0)

        def remake(dims: Dims) -> Node | None:
            form = plan_propagation(op, [x.whole for x in xs], [out], self.mesh).form
            wanted = [(fs, by) for fs, by in zip(form.results[0], dims, strict=True) if by]
            axes = {fs[0]: by for fs, by in wanted if len(fs) == 1}
            combined = [f for operand in form.operands for fs in operand if fs[1:] for f in fs]
            if len(axes) < len(wanted) or not axes.keys().isdisjoint(combined):
                return None
            operands = propagate_along(form, self.mesh, axes).operands
            shards = [self.move(x, split).node for x, split in zip(xs, operands, strict=True)]
            return self.apply_local(op, shards, out, dims)

        return LocalValueRemake(remake, depth) if depth <= _DEEPEST else None

    def _expanded(self, op: CompositeOnMesh, xs: list[LocalValue]) -> LocalValues:
        """Apply the ops of a composite's expansion."""
        return tuple(self.run(op.expansion([x.whole for x in xs]), xs))

    def _must_gather(self, split: PropagationPlan, xs: list[LocalValue]) -> bool:
        """Return whether an operand is split along a dimension that the op needs whole."""
        return any(
            not factors and have and not want
            for x, dims, wanted in zip(xs, split.form.operands, split.operands, strict=True)
            for factors, have, want in zip(dims, x.dims, wanted, strict=True)
        )

    def _on_shards(self, node: Node, xs: list[LocalValue], split: PropagationPlan) -> LocalValues:
        """Move the operands to the layouts of a plan, and apply the op to their shards."""
        op, ys = node.op, priced_result_types(node)
        deferred = self._deferred(node, xs, split)
        nodes = self._operands(op, xs, split, bool(deferred))
        outs = [self.local(y, r.dims).plain for y, r in zip(ys, split.results, strict=True)]
        if isinstance(node.type, tuple):
            local = apply_op_to_nodes(
                op_for_parts(op, [x.type.plain for x in nodes], tuple(outs)), nodes
            )
        else:
            local = self.apply_local(op, nodes, ys[0], split.results[0].dims)
        self.stand_for(local)
        nodes = result_nodes(local) if isinstance(node.type, tuple) else (local,)
        reduction = type(op) if op.parts.combine == "again" else op.parts.combine
        values = []
        for y, n, t, r in zip(ys, nodes, outs, split.results, strict=True):
            if n.type.plain is not t:
                message = f"the shard of its result must be {t} by its factors, got {n.type}"
                raise EngineError(message, op=op.title)
            partial = tuple(sorted({*r.partial, *deferred}))
            combine = reduction if r.partial else "sum"
            origin = None if partial else self._origin(op, xs, split)
            values.append(LocalValue(n, y, r.dims, partial, combine, r.priority, origin=origin))
        return tuple(values)

    def _operands(
        self, op: Op, xs: list[LocalValue], split: PropagationPlan, deferred: bool
    ) -> tuple[Node, ...]:
        found, partial = [], split.results[0].partial
        for i, (x, dims) in enumerate(zip(xs, split.operands, strict=True)):
            moved = self.partial_sum(x, dims) if deferred and x.partial else self.ask(x, dims)
            moved = self._mask(op, i, moved, split)
            if i in op.parts.counted_once and partial:
                moved = self.on_first(moved, partial, op)
            found.append(moved.node)
        return tuple(found)

    def _origin(
        self, op: Op, xs: list[LocalValue], split: PropagationPlan
    ) -> LocalValueOrigin | None:
        """Return the origin of a result's elements, if the op only moves those of one operand."""
        single = all(len(fs) == 1 for side in (split.form.operands, split.form.results)
                     for dims in side for fs in dims)  # fmt: skip
        moves = len(xs) == 1 and op.linear and op.cheap and single
        return LocalValueOrigin(xs[0], op, split.form) if moves and not xs[0].partial else None

    def _deferred(
        self, node: Node, xs: list[LocalValue], split: PropagationPlan
    ) -> tuple[str, ...]:
        """Return the axes over which operands stay partial sums, since the result is then one."""
        partial = [x for x in xs if x.partial]
        if not partial or isinstance(node.type, tuple) or self._needed_complete(partial):
            return ()
        first, op = partial[0], node.op
        if any(x.combine != "sum" or x.partial != first.partial for x in partial):
            return ()
        used = {a for axes in split.axes.values() for a in axes}
        sums = not split.results[0].partial or op.parts.combine == "sum"
        if used.intersection(first.partial) or not sums:
            return ()
        jointly = op.linear and len(partial) == len(xs)
        alone = len(partial) == 1 and xs.index(first) in op.parts.linear_in and node.type.inexact
        same = node.type.dtype is first.whole.dtype and node.type.size <= first.whole.size
        return first.partial if (jointly or alone) and same else ()

    def _needed_complete(self, xs: list[LocalValue]) -> bool:
        """Return whether another user needs one of the values complete."""
        return any(self.known.get(x.number, {_PARTIAL}) != {_PARTIAL} for x in xs)

    def _mask(self, op: Op, i: int, x: LocalValue, split: PropagationPlan) -> LocalValue:
        """Mask the padding of operand i so that it neither changes the result nor fails."""
        positions = op.fallible if op.parts.positions is None else i >= op.parts.positions
        for dim, factors in enumerate(split.form.operands[i]):
            if positions:
                x = self.masked(x, dim, 0)
            elif factors and factors[0] in split.form.contracted:
                x = self.masked(x, dim, neutral_local_value(op, x.whole.dtype))
        return x

    def _numbered(self, node: Node, values: LocalValues) -> LocalValues:
        """Number new values, and reduce partial ones at once if their users need other layouts."""
        found = []
        for p in values:
            self._count += 1
            self._makers[self._count] = node
            p = replace(p, number=self._count)
            several = len(self.known.get(p.number, ())) > 1
            found.append(self.reduce(p) if p.partial and several else p)
        return tuple(found)
