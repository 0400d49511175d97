"""Watching a graph run in NumPy: what each node computed, also in every iteration of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pullback.graph.ambient import thread
from pullback.graph.graph import Graph
from pullback.graph.node import Node

# Called with a node, its operands and its result; what it returns is kept, unless that is None
Note = Callable[[Node, Sequence[Any], Any], Any]
Compute = Callable[[Node, Sequence[Any]], Any]


class WatchedRun:
    """One run of a graph: notes on its nodes, and the runs of the graphs that its ops hold.

    `iteration` is set for the body of a loop: the row of a scan, or a count from 0.
    """

    def __init__(self, graph: Graph, iteration: int | None, note: Note, compute: Compute) -> None:
        self.graph, self.iteration, self.compute = graph, iteration, compute
        self.notes: dict[Node, Any] = {}
        self.inner: dict[Node, list[WatchedRun]] = {}
        self.current: Node | None = None  # being computed
        self._note = note

    def note(self, node: Node, xs: Sequence[Any], made: Any) -> None:
        found = self._note(node, xs, made)
        if found is not None:
            self.notes[node] = found


class Watch:
    """Within `with watch:`, notes what `interpret` computes on this thread.

    Nodes of graphs that an op holds are noted; how an op computes its own result is not, even if
    it is written as other ops.
    """

    root: WatchedRun

    def __init__(self, note: Note) -> None:
        self._note = note
        self._innermost: WatchedRun | None = None

    def __enter__(self) -> Watch:
        self._outer, thread.watch = thread.watch, self
        return self

    def __exit__(self, *exception: object) -> None:
        thread.watch = self._outer

    def skips(self, outer: WatchedRun) -> bool:
        """Whether a run within `outer.current` is not of interest; for subclasses."""
        return False

    def compute(self, node: Node, xs: Sequence[Any]) -> Any:
        """The result of a node of a watched run; for subclasses."""
        return node.op.numpy(*xs)

    @contextmanager
    def entered(
        self, graph: Graph, arrays: Sequence[Any], iteration: int | None
    ) -> Iterator[WatchedRun | None]:
        """Yield the run of a graph that begins, or None if it is not watched."""
        outer = self._innermost
        if outer is not None:
            assert outer.current is not None
            if not outer.current.op.graphs or self.skips(outer):
                yield None
                return
        run = self._innermost = WatchedRun(graph, iteration, self._note, self.compute)
        for x, array in zip(graph.inputs, arrays, strict=True):
            run.note(x, (), array)
        try:
            yield run
        finally:
            self._innermost = outer
            if outer is None:
                self.root = run
            elif run.notes or run.inner:
                assert outer.current is not None
                outer.inner.setdefault(outer.current, []).append(run)
