"""Where the first NaN or infinity of a function and its gradient comes from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pullback.debug.debugged_function import DebuggedFunction
from pullback.errors import UnsupportedOp
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.lazy.nonfinite_origins import (
    NonFinite,
    find_nonfinite,
    harmless_nonfinite_origins,
    watched_for_nonfinite,
)


@dataclass(frozen=True)
class NanReport:
    """What `trace_nan` found; it is true if a result or a gradient is not finite.

    `first` is the value that the NaN or infinity comes from; None if there is none, or if it is in
    the `arguments` already. `results` and `gradients` name what is not finite, `hidden` are values
    of the forward pass that are not finite but reach no result.
    """

    first: NonFinite | None
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    gradients: tuple[str, ...]
    hidden: tuple[NonFinite, ...]
    undifferentiated: str  # why there is no gradient

    def __bool__(self) -> bool:
        return bool(self.results or self.gradients)

    def __str__(self) -> str:
        lines = [] if self.first is None else [str(self.first)]
        if self.arguments:
            lines.append(f"not finite when given: {', '.join(self.arguments)}")
        lines += [f"  reaches  {what}" for what in self._reached()]
        if not self:
            lines.append("all results and gradients are finite")
        for value in self.hidden:
            place = "" if value.where is None else f" ({value.where})"
            lines.append(f"  {value.kind} in {value.op}{place} reaches no result")
        if self.undifferentiated:
            lines.append(f"  no gradient: {self.undifferentiated}")
        return "\n".join(lines)

    __repr__ = __str__

    def _reached(self) -> list[str]:
        return [*self.results, *[f"the gradient of {name}" for name in self.gradients]]


@with_argument_checks
def trace_nan(f: Callable[..., Any]) -> Callable[..., NanReport]:
    """Return a function that finds the first NaN or infinity of `f` and of its gradient.

    The program is run in NumPy, one op after the other, first forward and then backward, with a
    cotangent of ones for each result. Of all values that are not finite, the report names the one
    that the others come from: its op, line and operands, in a loop also the iteration, and in the
    backward pass the op whose rule it belongs to.

    >>> report = pb.debug.trace_nan(lambda x: pb.sqrt(pb.sum(x * x)))(pb.zeros(2))
    >>> report.first.rule, report.gradients
    ('sqrt', ('x',))
    """

    @boundary
    @functools.wraps(f)
    def traced(*args: Any, **kwargs: Any) -> NanReport:
        program = DebuggedFunction("trace_nan", f, args, kwargs)
        why, found = "", []
        try:
            found = program.gradients()
        except UnsupportedOp as error:
            why = str(error).splitlines()[0]
        gradients = [
            (name, g)
            for name, g in zip(_nan_names_of(program), found, strict=False) if g is not None
        ]  # fmt: skip
        graph, arrays = program.closed([*program.outputs, *[g for _, g in gradients]])
        run = watched_for_nonfinite(graph, arrays)
        count = len(program.outputs)
        names = _nan_result_names(count)
        forward = _nan_found(run.notes, graph, names, 0)
        backward = _nan_found(run.notes, graph, [name for name, _ in gradients], count)
        first = find_nonfinite(run, graph.outputs[:count]) or (
            None if forward else find_nonfinite(run, graph.outputs)
        )
        given = [n for n, x in zip(graph.names, graph.inputs, strict=True) if x in run.notes]
        needed = tuple(given) if (forward or backward) and first is None else ()
        hidden = () if forward else tuple(harmless_nonfinite_origins(run))
        return NanReport(first, needed, tuple(forward), tuple(backward), hidden, why)

    return traced


def _nan_names_of(program: DebuggedFunction) -> list[str]:
    pairs = zip(program.names, program.inputs, strict=True)
    return [name for name, x in pairs if x.type.inexact]


def _nan_result_names(count: int) -> list[str]:
    return ["the result"] if count == 1 else [f"result {i}" for i in range(count)]


def _nan_found(notes: dict[Node, Any], graph: Graph, names: Sequence[str], start: int) -> list[str]:
    """The names of outputs, from `start` on, that are not finite."""
    outputs = graph.outputs[start : start + len(names)]
    return [name for name, y in zip(names, outputs, strict=True) if y in notes]
