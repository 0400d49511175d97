"""Groups of values whose layouts are chosen together, and the cost of each choice.

An input or a heavy op, such as a matrix product, starts a group; other ops follow their heaviest
operand. The choices of a group are the layouts of its input, or the ways to split its heavy op; the
layouts of its other values follow, so a program of many ops becomes a few decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pullback.graph.graph import Graph, graphs_in_parameters
from pullback.graph.node import Node
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.graph.types import Type
from pullback.sharding.auto.layouts import layout_splits
from pullback.sharding.cost import Machine, arithmetic_cost
from pullback.sharding.factors import FactorForm, SizedFactors
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.local_value import LocalValue
from pullback.sharding.partition.prices import (
    Prices,
    operations_price,
    priced_result_types,
    priced_rule,
)
from pullback.sharding.propagate import PropagationPlan, plan_propagation
from pullback.sharding.spec import Dims, layout, spec_on_mesh


class GroupClaim(NamedTuple):
    """An axis, and dimensions of values that it may split.

    The partition pass splits a factor along an axis only if a dimension of an operand is split so:
    a choice claims this. If the only operand with an earlier factor is split there, the pass splits
    that factor: other choices ignore this.
    """

    axis: str
    places: tuple[tuple[Node, int], ...]


@dataclass(eq=False)
class GroupChoice:
    """One choice for a group: the layouts of its values and their cost."""

    layouts: dict[Node, Any]
    seconds: float = 0.0
    asks: dict[tuple[Node, Dims], None] = field(default_factory=dict)  # values of other groups
    largest: float = 0.0  # bytes of its largest value on a device
    scattered: tuple[str, ...] = ()  # axes that a sum over devices was split along
    key: tuple[Dims, ...] = ()  # the chosen layouts, which determine the others
    claims: tuple[GroupClaim, ...] = ()
    ignores: tuple[GroupClaim, ...] = ()


@dataclass(eq=False)
class LayoutGroup:
    """Values whose layouts are chosen together."""

    choices: list[GroupChoice]


class FollowingGroupPlan(NamedTuple):
    """The layouts and the cost of an op that follows one operand."""

    operands: Sequence[Dims | None]
    results: tuple[Dims, ...]
    seconds: float


class Groups:
    """The groups of a program whose inputs may have the layouts in `inputs`."""

    def __init__(
        self, graph: Graph, inputs: Sequence[list[Dims]], mesh: DeviceMesh, machine: Machine
    ) -> None:
        self.graph, self.mesh, self.machine = graph, mesh, machine
        self.groups: list[LayoutGroup] = []
        self.of: dict[Node, LayoutGroup] = {}  # values in no group can be computed in any layout
        self._prices = Prices(mesh, machine)
        self._priced: dict[tuple, float] = {}
        self._plans: dict[tuple, FollowingGroupPlan] = {}
        self._weight: dict[Node, float] = {}
        for x, allowed in zip(graph.inputs, inputs, strict=True):
            self._weight[x] = _layout_group_bytes(x)
            self._start(x, [self._choice(x, dims) for dims in allowed])
        for node in graph.nodes[len(graph.inputs) :]:
            self._weight[node] = _layout_group_bytes(node)
            self._add(node)

    def price(
        self, type: Type, have: Dims, want: Dims, partial: tuple = (), combine: str = "sum"
    ) -> float:
        """Return the seconds to move a value from one layout to another."""
        if have == want and not partial:
            return 0.0
        key = type, have, want, partial, combine
        if key not in self._priced:
            p = LocalValue(None, type, have, partial, combine)  # type: ignore[arg-type]
            self._priced[key] = self._prices.price(p, want)
        return self._priced[key]

    def nbytes(self, type: Type, dims: Dims) -> int:
        """Return the bytes of a value on each device."""
        return self._prices.nbytes(type, dims)

    def _add(self, node: Node) -> None:
        if node.inputs and isinstance(node.inputs[0].type, tuple):
            self._add_result(node)
            return
        heavy = self._heaviest(node)
        if heavy is None:
            return
        rule = priced_rule(node)
        if self._leads(node, heavy, rule):
            self._start(node, self._splits(node, rule))
            return
        if node.op.cheap and len(node.inputs) == 1:
            self._weight[node] = min(_layout_group_bytes(node), self._weight[node.inputs[heavy]])
        self._follow(node, heavy)

    def _heaviest(self, node: Node) -> int | None:
        """Return the operand that a node follows, or None if any layout costs the same."""
        known = [i for i, x in enumerate(node.inputs) if x in self.of]
        ranked = [i for i in known if node.inputs[i].type.rank]
        if not known or (node.op.cheap and not ranked):
            return None
        return max(ranked or known, key=lambda i: (self._weight[node.inputs[i]], -i))

    def _leads(self, node: Node, heavy: int, rule: SizedFactors) -> bool:
        """Return whether a node starts a group: its heaviest operand says too little about it."""
        if isinstance(node.type, tuple) or hasattr(node.op, "partition"):
            return False
        known = {f for dim in rule.operands[heavy] for f in dim}
        more = [f for dim in rule.results[0] for f in dim if f not in known]
        return isinstance(node.op, SumOfProductsKind) or (
            not node.op.cheap and any(rule.extents[f] > 1 for f in more)
        )

    def _start(self, node: Node, choices: list[GroupChoice]) -> None:
        self.of[node] = LayoutGroup(choices)
        self.groups.append(self.of[node])

    def _choice(self, node: Node, dims: Dims) -> GroupChoice:
        return GroupChoice({node: dims}, largest=self.nbytes(node.type.plain, dims), key=(dims,))

    def _add_result(self, node: Node) -> None:
        """Add one of several results of an op."""
        source = node.inputs[0]
        if source in self.of:
            self.of[node] = self.of[source]
            for c in self.of[source].choices:
                c.layouts[node] = c.layouts[source][node.op.index]  # type: ignore[attr-defined]

    def _splits(self, node: Node, rule: SizedFactors) -> list[GroupChoice]:
        """Return the ways to split an op: the cheapest one for each combination of layouts."""
        type = node.type.plain
        total = arithmetic_cost(node.op, rule.extents, [type, *[x.type for x in node.inputs]])
        best: dict[tuple, GroupChoice] = {}
        for split in layout_splits(rule, type, self.mesh):
            result = split.plan.results[0]
            c = self._choice(node, split.dims)
            c.seconds = self._computing(total, split.plan.axes.values()) + self.price(
                type, result.dims, split.dims, result.partial, node.op.parts.combine
            )
            c.scattered = split.scattered
            c.asks = self._asks(node, split.plan.operands)
            c.key = (split.dims, *split.plan.operands)
            c.claims = self._claims(node, split.plan)
            c.ignores = self._ignores(node, rule, split.plan)
            if c.key not in best or c.seconds < best[c.key].seconds:
                best[c.key] = c
        return list(best.values())

    def _computing(self, total: float, split: Iterable[tuple[str, ...]]) -> float:
        """Return the seconds for `total` operations that are split along axes."""
        return self.machine.computing(total / self.mesh.extent([a for by in split for a in by]))

    def _asks(self, node: Node, wanted: Iterable[Dims | None]) -> dict[tuple[Node, Dims], None]:
        pairs = zip(node.inputs, wanted, strict=True)
        return {(x, dims): None for x, dims in pairs
                if dims is not None and x in self.of and x.type.rank}  # fmt: skip

    def _claims(self, node: Node, split: PropagationPlan) -> tuple[GroupClaim, ...]:
        return tuple([GroupClaim(a, self._places(node, split.form, factor))
                      for factor, axes in split.axes.items() for a in axes])  # fmt: skip

    def _ignores(
        self, node: Node, rule: SizedFactors, split: PropagationPlan
    ) -> tuple[GroupClaim, ...]:
        order = [f for dims in rule.results for factors in dims for f in factors[:1]]
        found = []
        for a, size in self.mesh.sizes.items():
            for factor in [*order, *rule.contracted]:
                if a in split.axes.get(factor, ()):
                    break  # later factors cannot use the axis
                places = self._places(node, rule.form, factor)
                if len(places) == 1 and rule.extents[factor] % size == 0:
                    found.append(GroupClaim(a, places))
        return tuple(found)

    def _places(self, node: Node, form: FactorForm, factor: str) -> tuple[tuple[Node, int], ...]:
        """Return the dimensions of operands whose first factor is `factor`."""
        pairs = zip(node.inputs, form.operands, strict=True)
        return tuple([(x, d) for x, dims in pairs if x in self.of
                      for d, factors in enumerate(dims) if factor in factors[:1]])  # fmt: skip

    def _follow(self, node: Node, heavy: int) -> None:
        group = self.of[node] = self.of[node.inputs[heavy]]
        types = priced_result_types(node)
        for c in group.choices:
            found = self._plan(node, heavy, c.layouts[node.inputs[heavy]])
            c.layouts[node] = found.results if isinstance(node.type, tuple) else found.results[0]
            c.seconds += found.seconds
            c.largest = max(c.largest, sum(map(self.nbytes, types, found.results)))
            for x, dims in self._asks(node, found.operands):
                if self.of[x] is group:
                    c.seconds += self.price(x.type.plain, c.layouts[x], dims)
                else:
                    c.asks[x, dims] = None

    def _plan(self, node: Node, heavy: int, have: Dims) -> FollowingGroupPlan:
        types = [x.type.plain for x in node.inputs]
        key = node.op, tuple(types), heavy, have
        if key not in self._plans:
            types[heavy] = types[heavy].sharded(spec_on_mesh(self.mesh, have))
            if hasattr(node.op, "partition"):
                self._plans[key] = self._plan_by_type(node, types, have)
            else:
                self._plans[key] = self._plan_by_rule(node, types)
        return self._plans[key]

    def _plan_by_rule(self, node: Node, xs: list[Type]) -> FollowingGroupPlan:
        ys = priced_result_types(node)
        found = plan_propagation(node.op, xs, ys, self.mesh)
        total = arithmetic_cost(node.op, found.form.extents([*xs, *ys]), [*xs, *ys])
        reducing = [self.price(y, r.dims, r.dims, r.partial, node.op.parts.combine)
                    for y, r in zip(ys, found.results, strict=True)]  # fmt: skip
        seconds = self._computing(total, found.axes.values()) + sum(reducing)
        return FollowingGroupPlan(found.operands, tuple([r.dims for r in found.results]), seconds)

    def _plan_by_type(self, node: Node, xs: list[Type], have: Dims) -> FollowingGroupPlan:
        """Return the plan of an op whose types include layouts: a loop, or the user's choice."""
        out = node.op.type_of(*xs)
        types = out if isinstance(out, tuple) else (out,)
        found = tuple(map(layout, types))
        operands: list[Dims | None] = [None] * len(xs)
        if len(xs) == len(types) == 1 and types[0].shape == xs[0].shape:
            operands[0] = found[0]
        rounds = getattr(node.op, "length", 1)
        total = rounds * sum(map(operations_price, graphs_in_parameters(node.op.parameters())))
        return FollowingGroupPlan(operands, found, self._computing(total, have))


def _layout_group_bytes(node: Node) -> float:
    return sum([t.nbytes for t in priced_result_types(node)])
