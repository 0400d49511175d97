"""Finding where the first NaN or infinity of a program comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import InvalidNumber, Location, NumericOverflow, PullbackError
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_kinds import PerElementKind
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.lazy.mesh_watch import MeshWatch
from pullback.lazy.value_reports import (
    ReportedLoop,
    ValueRangeReport,
    is_reported_inexact,
    short_value_report,
    value_range_report,
    value_report_title,
)
from pullback.ops.prelude import interpret
from pullback.ops.watch import WatchedRun


class Noted(NamedTuple):
    """A value that is not finite, and what it was computed from."""

    nan: bool
    values: tuple[np.ndarray, ...]
    operands: Sequence[Any]


class NonfiniteOrigin(NamedTuple):
    """A node whose result is not finite, in a run of its graph within the loops around it."""

    node: Node
    noted: Noted
    loops: tuple[ReportedLoop, ...]


@dataclass(frozen=True)
class NonFinite:
    """The first value of a program that is not finite.

    `kind` is "NaN" or "infinity". `rule` is the op whose derivative rule emitted the op, in a
    backward pass. `index` is the first element that is not finite, `count` the number of them.
    """

    kind: str
    op: str
    rule: str
    where: Location
    type: Type
    count: int
    index: tuple[int, ...]
    operands: tuple[ValueRangeReport, ...]
    loops: tuple[ReportedLoop, ...]

    @property
    def direction(self) -> str:
        return "backward" if self.rule else "forward"

    @property
    def subject(self) -> str:
        """The op and, in a backward pass, the op whose rule emitted it."""
        return f"{self.op} in the rule of {self.rule}" if self.rule else self.op

    @property
    def amount(self) -> str:
        """How many elements are not finite, and which is the first."""
        what = "NaN" if self.kind == "NaN" else "infinite"
        if self.type.size == 1:
            return f"the result is {what}"
        first = f", the first at {list(self.index)}" if self.index else ""
        verb = "is" if self.count == 1 else "are"
        return f"{self.count} of {self.type.size} elements {verb} {what}{first}"

    def details(self) -> list[str]:
        """The result, the operands and the loops, a line each."""
        made = [f"result   {self.type}: {self.amount.removeprefix('the result is ')}"]
        made += [f"operand  {x}" for x in self.operands]
        made += [f"in       {loop}" for loop in self.loops]
        return made

    def __str__(self) -> str:
        place = "" if self.where is None else f" ({self.where})"
        head = f"{self.kind} in the {self.direction} pass, from {self.subject}{place}"
        return "\n".join([head, *[f"  {line}" for line in self.details()]])

    def error(self) -> PullbackError:
        """The error that `check_nan` raises."""
        kind = InvalidNumber if self.kind == "NaN" else NumericOverflow
        message = f"{self.amount}, in the {self.direction} pass"
        hint = "\n".join(self.details()[1:])
        return kind(message, op=self.subject, where=self.where, hint=hint or None)


class _NonfiniteOriginWatch(MeshWatch):
    """Notes values that are not finite; a loop only until its state is not."""

    def __init__(self) -> None:
        super().__init__(_note_nonfinite)

    def skips(self, outer: WatchedRun) -> bool:
        runs = outer.inner.get(outer.current, ())  # type: ignore[arg-type]
        return any(y in r.notes for r in runs for y in r.graph.outputs)


def _note_nonfinite(node: Node, xs: Sequence[Any], made: Any) -> Noted | None:
    values = (
        tuple(map(np.asarray, made)) if isinstance(made, (tuple, list)) else (np.asarray(made),)
    )
    bad = [v for v in values if is_reported_inexact(v) and not np.isfinite(v).all()]
    return Noted(any(np.isnan(v).any() for v in bad), values, xs) if bad else None


def watched_for_nonfinite(graph: Graph, arrays: Sequence[np.ndarray]) -> WatchedRun:
    """Run a graph in NumPy and note every value that is not finite."""
    with _NonfiniteOriginWatch() as watch, np.errstate(all="ignore"):
        interpret(graph, arrays)
    return watch.root


def find_nonfinite(run: WatchedRun, targets: Sequence[Node]) -> NonFinite | None:
    """The value that made targets NaN or infinite; None if it came in from outside, or if they are
    finite."""
    found = _origin_of_nonfinite(run, [y for y in targets if y in run.notes], ())
    return None if found is None else _described_nonfinite(found)


def harmless_nonfinite_origins(run: WatchedRun) -> list[NonFinite]:
    """Values of the forward pass that are not finite although all their operands are."""
    made = []
    for node, noted in run.notes.items():
        inside = not _is_nonfinite_origin_outside(node) and not node.backward
        if inside and not _nonfinite_origin_operands(run, node):
            made.append(_described_nonfinite(NonfiniteOrigin(node, noted, ())))
    return made


def _origin_of_nonfinite(
    run: WatchedRun, targets: Sequence[Node], loops: tuple[ReportedLoop, ...]
) -> NonfiniteOrigin | None:
    """Where the values of targets became NaN or, if none is, infinite."""
    notes = run.notes
    nans = [y for y in targets if notes[y].nan]
    for node in _nonfinite_ends(
        nans or list(targets), lambda x: _nonfinite_origins_of_kind(run, x)
    ):
        # A NaN that was made from an infinity: the infinity came first, unless a user wrote it
        infinite = [x for x in node.inputs if x in notes] if notes[node].nan else []
        firsts = _nonfinite_ends(infinite, lambda x: _nonfinite_origin_operands(run, x))
        for first in [*firsts, node]:
            if not _is_nonfinite_origin_outside(first):
                return _descend_to_nonfinite_origin(run, first, loops)
    return None


def _nonfinite_ends(nodes: Sequence[Node], before: Callable[[Node], list[Node]]) -> list[Node]:
    """The nodes that the walk along `before` ends at, in the order of recording."""
    stack = list(dict.fromkeys(nodes))
    seen, ends = set(stack), []
    for node in stack:  # grows while it is walked
        more = before(node)
        if not more:
            ends.append(node)
        for x in more:
            if x not in seen:
                seen.add(x)
                stack.append(x)
    return sorted(ends, key=lambda n: n.number)


def _nonfinite_origin_operands(run: WatchedRun, node: Node) -> list[Node]:
    return [x for x in node.inputs if x in run.notes]


def _nonfinite_origins_of_kind(run: WatchedRun, node: Node) -> list[Node]:
    """The operands that are NaN if the node is, else those that are not finite."""
    bad, nan = _nonfinite_origin_operands(run, node), run.notes[node].nan
    return [x for x in bad if run.notes[x].nan or not nan]


def _is_nonfinite_origin_outside(node: Node) -> bool:
    """Whether a user gave the value: an argument, a number, a constant."""
    return not node.inputs


def _descend_to_nonfinite_origin(
    run: WatchedRun, node: Node, loops: tuple[ReportedLoop, ...]
) -> NonfiniteOrigin:
    """The node, or the one in a graph that its op holds."""
    for inner in run.inner.get(node, ()):
        bad = [y for y in inner.graph.outputs if y in inner.notes]
        around = (*loops, ReportedLoop(value_report_title(node), node.where, inner.iteration))
        found = _origin_of_nonfinite(inner, bad, around) if bad else None
        if found is not None:
            return found
    return NonfiniteOrigin(node, run.notes[node], loops)


def _described_nonfinite(found: NonfiniteOrigin) -> NonFinite:
    node, (nan, values, operands), loops = found
    is_bad = np.isnan if nan else np.isinf
    k = next(i for i, v in enumerate(values) if is_reported_inexact(v) and is_bad(v).any())
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    places = np.argwhere(is_bad(values[k]))
    index = tuple(int(i) for i in places[0])
    rule = TABLE[node.forward_op].title if node.forward_op in TABLE else node.forward_op
    ranges = []
    for x, array in zip(node.inputs, operands, strict=True):
        if isinstance(x.type, Type):
            at = (
                _nonfinite_element(array, types[k].shape, index)
                if isinstance(node.op, PerElementKind)
                else None
            )
            ranges.append(value_range_report(np.asarray(array), x.type, at))
    where = node.where or next((loop.where for loop in reversed(loops) if loop.where), None)
    kind = "NaN" if nan else "infinity"
    return NonFinite(
        kind,
        value_report_title(node),
        rule,
        where,
        types[k].plain,
        len(places),
        index,
        tuple(ranges),
        loops,
    )


def _nonfinite_element(array: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> Any:
    """The element of an operand that an element of the result was computed from."""
    try:
        return short_value_report(np.broadcast_to(array, shape)[index])
    except ValueError:
        return None


def nonfinite_errors(
    outputs: Sequence[np.ndarray], program: Callable[[], tuple[Graph, Sequence[np.ndarray]]]
) -> dict[int, PullbackError]:
    """The errors of results that are not finite, each at the line of the op that made it so.

    `program` gives the graph and its arguments, which are needed only then. NaN and infinities
    that were in the arguments are no errors.
    """
    bad = [i for i, y in enumerate(outputs) if is_reported_inexact(y) and not np.isfinite(y).all()]
    if not bad:
        return {}
    graph, arrays = program()
    run = watched_for_nonfinite(graph, arrays)
    made: dict[int, PullbackError] = {}
    for i in bad:
        found = find_nonfinite(run, [graph.outputs[i]])
        if found is not None:
            made[i] = found.error()
        elif graph.outputs[i] not in run.notes:
            made[i] = InvalidNumber(
                "a result is not finite, but NumPy's is", where=graph.outputs[i].where,
                hint="Compiling changes the rounding: pb.debug.audit(f)(*args) shows where.",
            )  # fmt: skip
    return made
