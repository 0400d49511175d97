"""Roots of derivatives: what they depend on is computed before the derivative begins.

A root is never pending, so that each step of a training loop runs the same program whether its
results are read or not. So does what the last derivative at the same line left pending: that is
the last step of a loop. Other pending work is set aside while the derivative runs: a read inside
must not compile and run it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.engines.engine_registry import engine_spans_processes
from pullback.engines.mesh import mesh_for_engine
from pullback.graph.ambient import thread
from pullback.graph.node import Node, next_number
from pullback.graph.source_lines import user_line
from pullback.lazy.collect import collect_pending_ancestors, collect_related, collected_base
from pullback.lazy.launch import lock
from pullback.lazy.pending import bound_handles, live_pending, submit_pending_for
from pullback.lazy.settings import current

_PLACES = 1000  # lines that are remembered


def submit_roots(nodes: Sequence[Node]) -> None:
    """Start what roots depend on, with related work from outside the derivative."""
    nodes = [n for n in nodes if n.value is None]
    if not nodes:
        return
    inside = thread.handles
    if thread.root_from:
        thread.handles = thread.outside
    try:
        submit_pending_for(_roots_with_related(nodes))
    finally:
        if thread.root_from:
            thread.outside, thread.handles = thread.handles, inside


def _roots_with_related(nodes: list[Node]) -> list[Node]:
    """Return roots with the pending tensors that share their work, if processes must agree on
    them: there a program has no optional outputs, and the state of an optimizer must not lag."""
    if not any(engine_spans_processes(current(), mesh_for_engine([n.type])) for n in nodes):
        return nodes
    with lock:
        pending = [b for b in map(collected_base, nodes) if b.value is None]
        others = [n for n in _live_roots() if n not in pending]
        return [*nodes, *collect_related(pending, others)[0]]


class OutsideRoots:
    """Pending work that is set aside while a derivative runs, which began at a user's line."""

    def __init__(self, roots: Callable[[], Sequence[Node]]) -> None:
        line = user_line()
        self.place = (0, 0) if line is None else (id(line.code), line.instruction)
        self.any = bool(thread.handles and _live_roots() and self._remains(roots()))
        self.first = next_number()
        if self.any:
            thread.outside, thread.handles = thread.handles, []
            thread.root_from = self.first
            bound_handles(thread.handles_limit)

    def _remains(self, roots: Sequence[Node]) -> list[Node]:
        """Submit what the roots depend on; return what is still pending."""
        submit_roots(roots)
        live = _live_roots()
        before = thread.recorded.get(self.place)
        if live and before is not None:
            # A loop that keeps the results of derivatives must not grow into one program
            submit_pending_for(_computed_from_root(before, live))
            live = _live_roots()
        return live

    def rejoin(self) -> None:
        """Put the work back among the pending tensors."""
        if len(thread.recorded) >= _PLACES:
            thread.recorded.clear()
        thread.recorded[self.place] = range(self.first, next_number())
        if self.any:
            thread.handles = thread.outside + thread.handles
            thread.outside, thread.root_from = [], 0
            bound_handles(thread.handles_limit)


def _live_roots() -> list[Node]:
    with lock:
        return live_pending()


def _computed_from_root(numbers: range, live: Sequence[Node]) -> list[Node]:
    """Return the live nodes that depend on pending nodes with these numbers."""
    found: set[Node] = set()
    for node in collect_pending_ancestors(live):
        if node.number in numbers or any(collected_base(x) in found for x in node.inputs):
            found.add(node)
    return [n for n in live if n in found]


def compute_captured_roots(made: Sequence[Node]) -> None:
    """Compute the operands of new nodes that were pending before the derivative began.

    They count as arguments of the function: whether or not the last step of a loop left them
    pending, the next one runs the same program.
    """
    operands = [collected_base(x) for node in made for x in _root_operands(node)]
    captured = [x for x in operands if x.value is None and x.number < thread.root_from]
    if captured:
        submit_roots(captured)


def _root_operands(node: Node) -> Sequence[Node]:
    """Return the operands of an op, from its node or from the node of one of its results."""
    first = node.inputs[:1]
    return first[0].inputs if first and isinstance(first[0].type, tuple) else node.inputs
