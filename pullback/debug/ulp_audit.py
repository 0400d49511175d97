"""The compiled program against NumPy, node by node, in units of the last place."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.debug.debugged_function import DebuggedFunction
from pullback.debug.ulp import ulp_distance, ulp_magnitude
from pullback.engines.engine_registry import engine_for
from pullback.engines.mesh import mesh_for_engine
from pullback.errors import Location
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.lazy.mesh_watch import MeshWatch, mesh_watch_result
from pullback.lazy.settings import current
from pullback.lazy.value_reports import ReportedLoop, value_report_title
from pullback.lazy.values import value_to_host
from pullback.ops.prelude import Op, interpret
from pullback.ops.watch import WatchedRun
from pullback.transforms.call_rules import is_result_node

MOST_RUNS = 3  # of a loop's body that are compared
MOST_ROWS = 20  # of a printed report


@dataclass(frozen=True)
class AuditedNode:
    """One op. `own` is its own error: its compiled result against NumPy's on the same operands.
    `total` is the distance to NumPy's program, which includes the errors of the operands. Both are
    the largest of all elements, in units of the last place. Where terms are added, and may cancel,
    that is the unit of the largest term. A distance is infinite where only one is a number.
    """

    op: str
    rule: str  # the op whose derivative rule emitted it
    where: Location
    type: Type
    own: float
    total: float
    loops: tuple[ReportedLoop, ...]

    def __str__(self) -> str:
        name = f"{self.op} in the rule of {self.rule}" if self.rule else self.op
        place = "" if self.where is None else f" ({self.where})"
        within = "".join([f", in {loop}" for loop in self.loops])
        errors = f"{_audit_ulp(self.own):>9} {_audit_ulp(self.total):>9}"
        return f"{errors}  {name}{place}: {self.type}{within}"


@dataclass(frozen=True)
class AuditReport:
    """What `audit` found: all nodes in the order of the program, and the distance of the results.

    `results` compares the program as it is compiled, without intermediate results, with NumPy, in
    units of the last place of the largest element.
    """

    nodes: tuple[AuditedNode, ...]
    results: tuple[float, ...]
    tolerance: float
    engine: str

    @property
    def diverging(self) -> tuple[AuditedNode, ...]:
        """The nodes whose own error is larger than the tolerance."""
        return tuple([n for n in self.nodes if n.own > self.tolerance])

    @property
    def worst(self) -> AuditedNode | None:
        """The node with the largest own error."""
        return max(self.nodes, key=lambda n: n.own, default=None)

    def __bool__(self) -> bool:
        """Whether no node diverges."""
        return not self.diverging

    def __str__(self) -> str:
        largest = _audit_ulp(max(self.results, default=0.0))
        lines = [f"{self.engine} against NumPy: results differ by at most {largest} ulp"]
        exact = sum(n.own == 0 for n in self.nodes)
        lines.append(f"{exact} of {len(self.nodes)} ops are exact, {len(self.diverging)} diverge "
                     f"by more than {_audit_ulp(self.tolerance)} ulp")  # fmt: skip
        rows = [n for n in self.nodes if n.own > 0]
        if len(rows) > MOST_ROWS:
            least = sorted([n.own for n in rows], reverse=True)[MOST_ROWS - 1]
            rows = [n for n in rows if n.own >= least][:MOST_ROWS]
        if rows:
            lines += [f"{'own':>9} {'total':>9}", *map(str, rows)]
        return "\n".join(lines)

    __repr__ = __str__


@with_argument_checks
def audit(f: Callable[..., Any], tolerance: float = 16) -> Callable[..., AuditReport]:
    """Return a function that compares the compiled program of `f` with NumPy, node by node.

    The program is compiled with every intermediate value among its results. Each value is compared
    with what NumPy computes from the same operands (`own`), and with NumPy's whole program
    (`total`), in units of the last place. Bodies of loops and branches are compared too.

    >>> report = pb.debug.audit(lambda x: pb.exp(x).sum())(pb.tensor([0.5, 1.5]))
    >>> [node.op for node in report.nodes], bool(report)
    (['exp', 'sum'], True)
    """

    @boundary
    @functools.wraps(f)
    def audited(*args: Any, **kwargs: Any) -> AuditReport:
        program = DebuggedFunction("audit", f, args, kwargs)
        graph, arrays = program.closed(program.outputs)
        graph = canonicalise(graph)
        rows, root = _audit_compare(graph, arrays, ())
        wanted = [np.asarray(root.notes[y]) for y in graph.outputs]
        pairs = zip(_audit_execute(graph, arrays), wanted, strict=True)
        results = tuple([ulp_distance(y, z, ulp_magnitude(z)) for y, z in pairs])
        return AuditReport(tuple(rows), results, tolerance, current().engine)

    return audited


def _audit_compare(
    graph: Graph, arrays: Sequence[np.ndarray], loops: tuple[ReportedLoop, ...]
) -> tuple[list[AuditedNode], WatchedRun]:
    """Compare all values of a program, and those of the graphs inside it; also return NumPy's."""
    inner = graph.nodes[len(graph.inputs) :]
    nodes = [n for n in inner if n.inputs and not isinstance(n.type, tuple)]
    compiled = dict(zip(nodes, _audit_execute(Graph(graph.inputs, nodes), arrays), strict=True))
    compiled |= dict(zip(graph.inputs, map(np.asarray, arrays), strict=True))
    with _AuditWatch() as watch, np.errstate(all="ignore"):
        interpret(graph, arrays)
    made = []
    for node in inner:
        if not node.inputs or is_result_node(node):
            continue
        results = (
            [n for n in nodes if n.inputs[0] is node] if isinstance(node.type, tuple) else [node]
        )
        made += [_audited(node, r, compiled, watch.root, loops) for r in results]
        for run in watch.root.inner.get(node, ()):
            around = (*loops, ReportedLoop(value_report_title(node), node.where, run.iteration))
            made += _audit_compare(run.graph, [run.notes[x] for x in run.graph.inputs], around)[0]
    return made, watch.root


def _audited(
    node: Node, result: Node, compiled: dict[Node, np.ndarray], run: WatchedRun,
    loops: tuple[ReportedLoop, ...],
) -> AuditedNode:  # fmt: skip
    """Compare one value; `result` is the node, or one of its results."""
    xs = [compiled[x] if x in compiled else run.notes[x] for x in node.inputs]
    with np.errstate(all="ignore"):
        made = mesh_watch_result(node, xs)
    if result is not node:
        made = made[result.op.index]  # type: ignore[attr-defined]
    scale = _audit_scale(node.op, xs, compiled[result])
    own = ulp_distance(compiled[result], np.asarray(made), scale)
    total = ulp_distance(compiled[result], np.asarray(run.notes[result]), scale)
    rule = TABLE[node.forward_op].title if node.forward_op in TABLE else node.forward_op
    where = node.where or next((loop.where for loop in reversed(loops) if loop.where), None)
    return AuditedNode(value_report_title(node), rule, where, result.type.plain, own, total, loops)


def _audit_scale(op: Op, xs: Sequence[Any], result: np.ndarray) -> float | None:
    """The size of the terms that an op adds; None if it adds none."""
    sizes = [ulp_magnitude(np.asarray(x)) for x in xs]
    if isinstance(op, SumOfProductsKind):
        return max(math.prod(sizes), ulp_magnitude(result))
    return max([*sizes, ulp_magnitude(result)]) if op.linear or op.graphs else None


class _AuditWatch(MeshWatch):
    """Keeps all values, of loops those of the first iterations."""

    def __init__(self) -> None:
        super().__init__(lambda node, xs, made: made)

    def skips(self, outer: WatchedRun) -> bool:
        runs = outer.inner.get(outer.current, ())  # type: ignore[arg-type]
        bodies = [r for r in runs if r.iteration is not None]
        return len(bodies) >= MOST_RUNS


def _audit_execute(graph: Graph, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compile a program with the engine in use and run it."""
    mesh = mesh_for_engine([n.type for n in (*graph.outputs, *graph.inputs)])
    engine = engine_for(current(), mesh)
    if not graph.outputs:
        return []
    given = [engine.put(np.array(a), x.type) for a, x in zip(arrays, graph.inputs, strict=True)]
    made = engine.compile(graph).run(given)
    return [np.asarray(value_to_host(y)) for y in made[: len(graph.outputs)]]


def _audit_ulp(value: float) -> str:
    if 0 < value < 10 and value != round(value):
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 1e6 or math.isinf(value) else f"{value:.1e}"
