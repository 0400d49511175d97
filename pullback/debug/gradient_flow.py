"""How cotangents flow from results to an argument, and where a path carries none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import Location, PullbackError
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node
from pullback.graph.op_kinds import Detached, InputSourceKind, RunsAs, Transparent
from pullback.lazy.mesh_watch import MeshWatch
from pullback.lazy.value_reports import value_range_report, value_report_title
from pullback.ops.prelude import interpret, ones
from pullback.ops.watch import WatchedRun
from pullback.transforms.call_rules import is_any_type_inexact, is_result_node
from pullback.transforms.reverse import derive_in_reverse, reverse_between, reverse_reach

MOST_CUTS, MOST_STEPS = 8, 12  # that a report lists for an argument, and of a path
MOST_RUNS = 4  # of a loop's body that are examined
# Cuts worth telling beside a gradient that flows: comparisons and integers are as they should be
BESIDE = ("detached", "dead")
Found = tuple[Node, "GradientFlowCut"]  # a cut, and the operand of its op on the path


@dataclass(frozen=True)
class GradientFlowCut:
    """A place where no derivative passes.

    `kind` is "read" (the host read the value), "detached", "discrete" (the op's result has no
    derivative because of its dtype), "constant" (the op's derivative is 0 everywhere), "dead" (it
    is 0 for these values) or "cancelled" (derivatives add up to 0). `path` leads there from the
    argument.
    """

    kind: str
    op: str
    where: Location
    reason: str
    path: tuple[tuple[str, Location], ...] = ()

    def __str__(self) -> str:
        head = f"{self.kind} at {_flow_step(self.op, self.where)}: {self.reason}"
        if len(self.path) < 2:
            return head
        return f"{head}\n  path: {' -> '.join(_flow_step(*step) for step in self.path)}"

    @classmethod
    def read(cls, where: Location) -> GradientFlowCut:
        return cls("read", "host read", where, "what is computed from the number is a constant")

    @classmethod
    def cancelled(cls, x: Node) -> GradientFlowCut:
        return cls("cancelled", "argument", None, "derivatives arrive, but add up to 0")


def _flow_step(op: str, where: Location) -> str:
    return op if where is None else f"{op} ({where})"


class GradientFlow:
    """The cotangents of outputs that flow to targets, with all values that decide where they pass.

    `closed` gives the program of a list of nodes, and the arrays to run it on.
    """

    def __init__(
        self, outputs: Sequence[Node], targets: Sequence[Node],
        closed: Callable[[list[Node]], tuple[Graph, Sequence[np.ndarray]]],
    ) -> None:  # fmt: skip
        self.outputs = outputs
        self._nodes = graph_ancestors(outputs)
        self._users: dict[Node, list[tuple[Node, int]]] = {}
        for node in self._nodes:
            for k, x in enumerate(node.inputs):
                self._users.setdefault(x, []).append((node, k))
        reached = reverse_reach(outputs, targets)
        self._active = reverse_between(reached, targets)
        self._pulled: dict[Node, Sequence[Node | None]] = {}
        seeds = [ones(y.type) if y.type.inexact else None for y in outputs]
        found, _ = derive_in_reverse(reached, outputs, seeds, targets, self._watch)
        self.gradients = dict(zip(targets, found, strict=True))
        wanted = self._values_needed()
        graph, arrays = closed(wanted)
        with _FlowInputWatch() as watch, np.errstate(all="ignore"):
            self.values = dict(zip(wanted, interpret(graph, arrays), strict=True))
        # The runs of the graphs that an op holds, found through one of its results
        pairs = zip(wanted, graph.outputs, strict=True)
        self._runs: dict[Node, list[WatchedRun]] = {
            n.inputs[0]: watch.root.inner.get(y.inputs[0], [])
            for n, y in pairs
            if is_result_node(n)
        }

    def _watch(self, node: Node, cotangents: Sequence[Node | None]) -> None:
        self._pulled[node] = cotangents

    def _values_needed(self) -> list[Node]:
        """Cotangents, operands of differentiated nodes, and results."""
        cotangents = [g for gs in self._pulled.values() for g in gs]
        operands = [x for node in self._pulled for x in node.inputs]
        nodes = dict.fromkeys([*self.gradients.values(), *cotangents, *operands, *self.outputs])
        return [n for n in nodes if n is not None and not isinstance(n.type, tuple)]

    def depends(self, x: Node) -> bool:
        """Whether a result depends on an argument in any way."""
        return not self._descendants(x).isdisjoint(self.outputs)

    def is_zero(self, g: Node | None) -> bool:
        return g is None or not np.any(self.values[g] != 0)

    def cuts(self, x: Node) -> list[GradientFlowCut]:
        """The places between results and an argument where no derivative passes.

        The walk goes on below a dead op, but only for cuts that do not depend on values.
        """
        below = self._descendants(x)
        alive = {y: True for y in self.outputs if y in below and y.type.inexact}
        made: dict[GradientFlowCut, None] = {}
        for node in reversed(self._nodes):
            if node not in alive or node is x:
                continue
            if alive[node] and self._cancels(node):
                alive[node] = False
                made[
                    _flow_cut_with_path(
                        (_first_flow_below(node, below), _flow_cancelled(node)), x, below
                    )
                ] = None
            for k, operand in enumerate(node.inputs):
                if operand not in below:
                    continue
                found = self._edge(node, k, operand, below)
                dead = found is not None and any(c.kind == "dead" for _, c in found)
                kept = [c for c in found or () if alive[node] or c[1].kind != "dead"]
                made.update(dict.fromkeys([_flow_cut_with_path(c, x, below) for c in kept]))
                if found is None or dead:
                    flows = alive[node] and not dead
                    alive[operand] = alive.get(operand, False) or flows
        return list(made)[:MOST_CUTS]

    def _cancels(self, x: Node) -> bool:
        """Whether derivatives that arrive at a node from its users add up to 0."""
        users = [(node, k) for node, k in self._users.get(x, ()) if node in self._pulled]
        found = [self._pulled[node][k] for node, k in users]
        arrived = [self.values[g] for g in found if g is not None and not self.is_zero(g)]
        if len(arrived) < 2 or x in self.outputs or isinstance(x.type, tuple):
            return False
        return not np.any(sum([_flow_summed_to(g, x.type.shape) for g in arrived]))

    def _descendants(self, x: Node) -> set[Node]:
        """The argument and all nodes that depend on it, also where no derivative does."""
        found = {x}
        for node in self._nodes:
            if not found.isdisjoint(node.inputs):
                found.add(node)
        return found

    def _edge(self, node: Node, k: int, x: Node, below: set[Node]) -> list[Found] | None:
        """Why no derivative passes from a node to operand `k`; None if it does."""
        if isinstance(node.op, Detached):
            return [(x, self._detached(node))]
        if not is_any_type_inexact(x.type):
            maker = _flow_discretised(x, below)
            return [(_first_flow_below(maker, below), _flow_discrete(maker))]
        pulled = self._pulled.get(node, ())
        if isinstance(node.op, RunsAs) and any(pulled) and pulled[k] is None:
            return []  # a user's rule takes the place of this path
        if not pulled or x not in self._active:
            return None  # the derivative ends further down
        g = pulled[k]
        if is_result_node(node) or not self.is_zero(g):
            return None
        inner = _flow_cuts_in_all(self._runs.get(node, ()))
        if inner:
            return [(x, c) for c in inner]
        return [(x, _flow_constant(node) if g is None else self._dead(node))]

    def _dead(self, node: Node) -> GradientFlowCut:
        """The rule gave a cotangent, but all of its elements are 0 for these operands."""
        shown = []
        for x in node.inputs:
            if is_any_type_inexact(x.type) and x in self.values:
                spread = str(value_range_report(np.asarray(self.values[x]), x.type))
                shown.append(spread.partition(": ")[2])
        operands = f"operand{'s' if len(shown) > 1 else ''} {'; '.join(shown)}"
        reason = f"its derivative is 0 here, {operands}"
        return GradientFlowCut("dead", value_report_title(node), node.where, reason)

    def _detached(self, node: Node) -> GradientFlowCut:
        """What the user detached; `no_grad` does so where the value is used."""
        if node.where != node.inputs[0].where:
            return GradientFlowCut(
                "detached", value_report_title(node), node.where, "its result counts as a constant"
            )
        user, _ = self._users.get(node, [(node, 0)])[0]
        reason = (
            f"{value_report_title(user)} is inside the block, and its result counts as a constant"
        )
        return GradientFlowCut("detached", "no_grad", user.where, reason)


class _FlowInputWatch(MeshWatch):
    """Keeps the inputs of the first runs of each graph that an op holds."""

    def __init__(self) -> None:
        super().__init__(_flow_input_value)

    def skips(self, outer: WatchedRun) -> bool:
        return len(outer.inner.get(outer.current, ())) >= MOST_RUNS  # type: ignore[arg-type]


def _flow_input_value(node: Node, xs: Sequence[Any], made: Any) -> Any:
    return np.asarray(made) if isinstance(node.op, InputSourceKind) else None


def _flow_cuts_in_all(runs: Sequence[WatchedRun]) -> list[GradientFlowCut]:
    """The cuts inside a graph that an op holds which are there in each of its runs."""
    found = [cuts for run in runs if (cuts := _flow_cuts_within(run)) is not None]
    if not found:
        return []
    places = [{(c.kind, c.op, c.where) for c in cuts} for cuts in found]
    return [c for c in found[0] if all((c.kind, c.op, c.where) in others for others in places)]


def _flow_cuts_within(run: WatchedRun) -> dict[GradientFlowCut, None] | None:
    """The cuts between the results of a run and its inputs; None if the graph has no derivative,
    as the condition of a loop. Which results matter to the loop is not known here, so cuts beside
    a derivative that flows are included."""
    graph = run.graph
    targets = [x for x in graph.inputs if x.type.inexact]
    if not targets or not any(y.type.inexact for y in graph.outputs):
        return None
    arrays = [run.notes[x] for x in graph.inputs]
    try:
        flow = GradientFlow(
            graph.outputs, targets, lambda nodes: (Graph(graph.inputs, nodes), arrays)
        )
    except PullbackError:  # a rule that needs values, or an op without one
        return None
    return dict.fromkeys([
        c for x in targets for c in flow.cuts(x)
        if flow.is_zero(flow.gradients[x]) or c.kind in BESIDE
    ])  # fmt: skip


def _flow_cut_with_path(found: Found, x: Node, below: set[Node]) -> GradientFlowCut:
    """The cut with the ops that lead to it from the argument."""
    node, cut = found
    steps: list[tuple[str, Location]] = [*reversed(cut.path)] or [(cut.op, cut.where)]
    while node is not x:
        if not isinstance(node.op, Transparent) and not isinstance(node.type, tuple):
            op = node.inputs[0] if is_result_node(node) else node
            steps.append((value_report_title(op), op.where))
        node = _first_flow_below(node, below)
    if len(steps) > MOST_STEPS:
        steps[MOST_STEPS // 2 : -MOST_STEPS // 2] = [("...", None)]
    return GradientFlowCut(cut.kind, cut.op, cut.where, cut.reason, tuple(reversed(steps)))


def _first_flow_below(node: Node, below: set[Node]) -> Node:
    """An operand on the way to the argument, if possible one that carries a derivative."""
    operands = [x for x in node.inputs if x in below]
    return next((x for x in operands if is_any_type_inexact(x.type)), operands[0])


def _flow_discretised(x: Node, below: set[Node]) -> Node:
    """The node at which a value became an integer or bool, on the way to `x`."""
    while not is_any_type_inexact(_first_flow_below(x, below).type):
        x = _first_flow_below(x, below)
    return x


def _flow_cancelled(node: Node) -> GradientFlowCut:
    return GradientFlowCut(
        "cancelled", value_report_title(node), node.where, "derivatives arrive, but add up to 0"
    )


def _flow_summed_to(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A cotangent summed over the dimensions along which its operand was broadcast."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple([i for i, n in enumerate(shape) if n == 1]), keepdims=True)


def _flow_discrete(node: Node) -> GradientFlowCut:
    types = f"{node.type[0]}, ..." if isinstance(node.type, tuple) else str(node.type)
    reason = f"its result is {types}, and only floats have derivatives"
    return GradientFlowCut("discrete", value_report_title(node), node.where, reason)


def _flow_constant(node: Node) -> GradientFlowCut:
    return GradientFlowCut(
        "constant", value_report_title(node), node.where, "its derivative is 0 everywhere"
    )
