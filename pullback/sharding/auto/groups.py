"""Groups of values that are laid out together, and what each way to lay one out costs.

An input and a heavy op (a product of matrices, say) begin a group; other ops follow their heaviest
operand. The choices of a group are the layouts of its input, or the ways to split its heavy op: all
else in it follows, so a program of many ops becomes a few decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pullback.graph.graph import Graph, graphs_within
from pullback.graph.kinds import SumOfProducts
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.sharding.auto.layouts import splits
from pullback.sharding.cost import Machine, work
from pullback.sharding.factors import FactorRule, Form, instantiate
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import Placed
from pullback.sharding.partition.prices import Prices, operations
from pullback.sharding.propagate import PropagationPlan, plan
from pullback.sharding.spec import Dims, on_mesh


class Claim(NamedTuple):
    """Dimensions of values that may be split along an axis. The partition pass splits a factor
    only if one of the operands' dimensions is: a choice claims this. And if the one operand with
    an earlier factor is split there, the pass does so too: other choices ignore this."""

    axis: str
    places: tuple[tuple[Node, int], ...]


@dataclass(eq=False)
class LayoutChoice:
    """One way to lay a group out: how its values lie, the seconds that this takes, the values of
    other groups that it asks for, and the bytes of its largest value on a device."""

    lies: dict[Node, Any]
    seconds: float = 0.0
    asks: dict[tuple[Node, Dims], None] = field(default_factory=dict)
    largest: float = 0.0
    scattered: tuple[str, ...] = ()  # axes that a sum over devices was split along
    key: tuple[Dims, ...] = ()  # the layouts that were chosen: all else follows from them
    claims: tuple[Claim, ...] = ()
    ignores: tuple[Claim, ...] = ()


@dataclass(eq=False)
class LayoutGroup:
    """Values that lie together, and the ways in which they may."""

    choices: list[LayoutChoice]


class LayoutStep(NamedTuple):
    """How an op follows one operand: what it asks of each, how its results lie, what it costs."""

    wants: Sequence[Dims | None]
    lies: tuple[Dims, ...]
    seconds: float


class Groups:
    """The groups of a program. `inputs` are the layouts that each input may have."""

    def __init__(
        self, graph: Graph, inputs: Sequence[list[Dims]], mesh: DeviceMesh, machine: Machine
    ) -> None:
        self.graph, self.mesh, self.machine = graph, mesh, machine
        self.groups: list[LayoutGroup] = []
        self.of: dict[Node, LayoutGroup] = {}  # values that are in none can be made anywhere
        self._prices = Prices(mesh, machine)
        self._priced: dict[tuple, float] = {}
        self._steps: dict[tuple, LayoutStep] = {}
        self._weight: dict[Node, float] = {}
        for x, allowed in zip(graph.inputs, inputs, strict=True):
            self._begin(x, [self._chosen(x, dims) for dims in allowed])
        for node in graph.nodes[len(graph.inputs) :]:
            self._add(node)

    # -- prices ------------------------------------------------------------------------------------

    def price(
        self, type: Type, have: Dims, want: Dims, partial: tuple = (), combine: str = "sum"
    ) -> float:
        """Seconds from one layout to another."""
        if have == want and not partial:
            return 0.0
        key = type, have, want, partial, combine
        if key not in self._priced:
            p = Placed(None, type, have, partial, combine)  # type: ignore[arg-type]
            self._priced[key] = self._prices.price(p, want)
        return self._priced[key]

    def nbytes(self, type: Type, dims: Dims) -> int:
        """What a device has of a value."""
        return self._prices.nbytes(type, dims)

    # -- one node ----------------------------------------------------------------------------------

    def _add(self, node: Node) -> None:
        if node.inputs and isinstance(node.inputs[0].type, tuple):
            self._result(node)
            return
        heavy = self._heaviest(node)
        self._weight[node] = _size(node)
        if heavy is None:
            return
        rule = self._rule(node)
        if node.op.cheap and len(node.inputs) == 1:
            self._weight[node] = min(_size(node), self._weight[node.inputs[heavy]])
        if self._leads(node, heavy, rule):
            self._begin(node, self._ways(node, rule))
        else:
            self._follow(node, heavy)

    def _heaviest(self, node: Node) -> int | None:
        """The operand that a node follows; none, if it can be made in parts anywhere."""
        bound = [i for i, x in enumerate(node.inputs) if x in self.of and x.type.rank]
        if not bound and (node.op.cheap or not any(x in self.of for x in node.inputs)):
            return None
        known = bound or [i for i, x in enumerate(node.inputs) if x in self.of]
        return max(known, key=lambda i: (self._weight[node.inputs[i]], -i))

    def _leads(self, node: Node, heavy: int, rule: FactorRule) -> bool:
        """Whether the operand that it would follow says too little about its result."""
        if isinstance(node.type, tuple) or hasattr(node.op, "partition"):
            return False
        known = {f for dim in rule.operands[heavy] for f in dim}
        more = [f for dim in rule.results[0] for f in dim if f not in known]
        return isinstance(node.op, SumOfProducts) or (
            not node.op.cheap and any(rule.extents[f] > 1 for f in more)
        )

    def _rule(self, node: Node) -> FactorRule:
        xs = [x.type.plain for x in node.inputs]
        return instantiate(node.op.factors(*xs), xs, _results(node))

    def _begin(self, node: Node, choices: list[LayoutChoice]) -> None:
        group = LayoutGroup(choices)
        self.groups.append(group)
        self.of[node] = group
        self._weight[node] = _size(node)

    def _chosen(self, node: Node, dims: Dims) -> LayoutChoice:
        return LayoutChoice({node: dims}, largest=self.nbytes(node.type.plain, dims), key=(dims,))

    def _result(self, node: Node) -> None:
        """One of several results of an op."""
        source = node.inputs[0]
        self._weight[node] = _size(node)
        if source not in self.of:
            return
        self.of[node] = self.of[source]
        for c in self.of[source].choices:
            c.lies[node] = c.lies[source][node.op.index]  # type: ignore[attr-defined]

    # -- leaders -----------------------------------------------------------------------------------

    def _ways(self, node: Node, rule: FactorRule) -> list[LayoutChoice]:
        """The ways to split an op, without those that another one is never worse than."""
        type = node.type.plain
        total = work(node.op, rule.extents, [type, *[x.type for x in node.inputs]])
        best: dict[tuple, LayoutChoice] = {}
        for split in splits(rule, type, self.mesh):
            parts = self.mesh.extent([a for by in split.plan.axes.values() for a in by])
            made = split.plan.results[0]
            joining = self.price(type, made.dims, split.dims, made.partial, node.op.parts.combine)
            c = self._chosen(node, split.dims)
            c.seconds, c.scattered = (
                self.machine.computing(total / parts) + joining,
                split.scattered,
            )
            c.asks = self._asks(node, split.plan.operands)
            c.key = (split.dims, *split.plan.operands)
            c.claims = self._claims(node, split.plan)
            c.ignores = self._ignores(node, rule, split.plan)
            if c.key not in best or c.seconds < best[c.key].seconds:
                best[c.key] = c
        return list(best.values())

    def _asks(self, node: Node, wanted: Iterable[Dims | None]) -> dict[tuple[Node, Dims], None]:
        pairs = zip(node.inputs, wanted, strict=True)
        return {(x, dims): None for x, dims in pairs
                if dims is not None and x in self.of and x.type.rank}  # fmt: skip

    def _claims(self, node: Node, split: PropagationPlan) -> tuple[Claim, ...]:
        found = []
        for factor, axes in split.axes.items():
            places = tuple(self._places(node, split.form, factor))
            found += [Claim(a, places) for a in axes]
        return tuple(found)

    def _ignores(self, node: Node, rule: FactorRule, split: PropagationPlan) -> tuple[Claim, ...]:
        order = [f for dims in rule.results for factors in dims for f in factors[:1]]
        found = []
        for a, size in self.mesh.sizes.items():
            for factor in [*order, *rule.contracted]:
                if a in split.axes.get(factor, ()):
                    break  # those that come later have no say
                places = self._places(node, rule.form, factor)
                if len(places) == 1 and rule.extents[factor] % size == 0:
                    found.append(Claim(a, tuple(places)))
        return tuple(found)

    def _places(self, node: Node, form: Form, factor: str) -> list[tuple[Node, int]]:
        """The dimensions of operands that are, or begin with, a factor."""
        pairs = zip(node.inputs, form.operands, strict=True)
        return [(x, d) for x, dims in pairs if x in self.of
                for d, factors in enumerate(dims) if factor in factors[:1]]  # fmt: skip

    # -- followers ---------------------------------------------------------------------------------

    def _follow(self, node: Node, heavy: int) -> None:
        group = self.of[node] = self.of[node.inputs[heavy]]
        types = _results(node)
        for c in group.choices:
            step = self._step(node, heavy, c.lies[node.inputs[heavy]])
            c.lies[node] = step.lies if isinstance(node.type, tuple) else step.lies[0]
            c.seconds += step.seconds
            here = [self.nbytes(t, dims) for t, dims in zip(types, step.lies, strict=True)]
            c.largest = max(c.largest, sum(here))
            for x, dims in self._asks(node, step.wants):
                if self.of[x] is group:
                    c.seconds += self.price(x.type.plain, c.lies[x], dims)
                else:
                    c.asks[x, dims] = None

    def _step(self, node: Node, heavy: int, have: Dims) -> LayoutStep:
        key = node.op, tuple([x.type.plain for x in node.inputs]), heavy, have
        if key not in self._steps:
            find = self._held if hasattr(node.op, "partition") else self._split
            self._steps[key] = find(node, heavy, have)
        return self._steps[key]

    def _split(self, node: Node, heavy: int, have: Dims) -> LayoutStep:
        xs, ys = self._types(node, heavy, have), _results(node)
        found = plan(node.op, xs, ys, self.mesh)
        parts = self.mesh.extent([a for axes in found.axes.values() for a in axes])
        done = work(node.op, found.form.extents([*xs, *ys]), [*xs, *ys])
        seconds = self.machine.computing(done / parts) + sum(
            [self.price(y, r.dims, r.dims, r.partial, node.op.parts.combine)
             for y, r in zip(ys, found.results, strict=True)]
        )  # fmt: skip
        return LayoutStep(found.operands, tuple([r.dims for r in found.results]), seconds)

    def _held(self, node: Node, heavy: int, have: Dims) -> LayoutStep:
        """An op that says itself how its results lie: a loop, or a layout that the user wants."""
        made = node.op.type_of(*self._types(node, heavy, have))
        several = made if isinstance(made, tuple) else (made,)
        lies = tuple([t.sharding.dims(t.rank) if t.sharding else ((),) * t.rank for t in several])
        wants: list[Dims | None] = [None] * len(node.inputs)
        if len(wants) == len(lies) == 1 and several[0].shape == node.inputs[0].type.shape:
            wants[0] = lies[0]
        rounds = getattr(node.op, "length", 1)
        done = rounds * sum(map(operations, graphs_within(node.op.parameters())))
        parts = self.mesh.extent([a for axes in have for a in axes])
        return LayoutStep(wants, lies, self.machine.computing(done / parts))

    def _types(self, node: Node, heavy: int, have: Dims) -> list[Type]:
        """The operands' types, of which only one says how it lies."""
        types = [x.type.plain for x in node.inputs]
        types[heavy] = types[heavy].sharded(on_mesh(self.mesh, have))
        return types


def _results(node: Node) -> list[Type]:
    return [t.plain for t in (node.type if isinstance(node.type, tuple) else (node.type,))]


def _size(node: Node) -> float:
    return sum([t.nbytes for t in _results(node)])
