"""Run-time checks: a program with data-dependent indices says which of its checks held.

Nothing waits for that answer. It is looked at when a result is read, and then every result that
depends on a failed check, in this program or in one that used its results, raises.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from pullback.errors import PullbackError
from pullback.graph.node import Node


class Failed:
    """In place of a value: the error that reading it raises."""

    def __init__(self, error: PullbackError) -> None:
        self.error = error


class Run:
    """One execution whose checks, or those of executions it built on, were not looked at yet."""

    def __init__(
        self,
        program: Any,
        word: Any,
        lines: Sequence[Any],
        sources: list[Source],
        nodes: Sequence[Node],
    ) -> None:
        self.program, self.word, self.lines, self.sources = program, word, lines, sources
        self.nodes = [(i, weakref.ref(n)) for i, n in enumerate(nodes)]
        self.errors: dict[int, PullbackError] | None = None  # by output, once it was looked at

    def ready(self) -> bool:
        """Whether looking would not have to wait."""
        return self.errors is not None or self.word is None or self.word.is_ready()

    def look(self) -> None:
        """Find the outputs that failed; what this run built on was looked at before."""
        if self.errors is not None:
            return
        errors = {} if self.word is None else self.program.failures(self.word, self.lines)
        for argument, run, output in self.sources:
            error = (run.errors or {}).get(output)
            for i, mask in enumerate(self.program.input_masks):
                if error is not None and mask >> argument & 1:
                    errors.setdefault(i, error)
        for i, ref in self.nodes:
            node = ref()
            if node is not None:
                if i in errors:
                    node.value = Failed(errors[i])
                _unchecked.pop(node, None)
        # Last: who finds it set may rely on the values.
        self.errors, self.word, self.sources, self.nodes = errors, None, [], []


# An argument's number, the execution that computed it, and which of its outputs it was.
Source = tuple[int, Run, int]

# The results of such executions, until they are looked at.
_unchecked: weakref.WeakKeyDictionary[Node, tuple[Run, int]] = weakref.WeakKeyDictionary()


def started(
    program: Any,
    word: Any,
    lines: Sequence[Any],
    arguments: Sequence[Node],
    nodes: Sequence[Node],
) -> None:
    """Remember an execution that has checks, or that used results of one.

    `lines` are where its checks were written.
    """
    sources: list[Source] = []
    for i, x in enumerate(arguments):
        found = _unchecked.get(x)
        if found is not None:
            run, output = found
            if run.ready():
                examine(x)  # keeps the chain of runs short in a loop that never reads
            if run.errors is None or output in run.errors:
                sources.append((i, run, output))
    if word is None and not sources:
        return
    run = Run(program, word, lines, sources, nodes)
    for i, node in enumerate(nodes):
        _unchecked[node] = (run, i)


def follow(node: Node, copy: Node) -> None:
    """`copy` was given the value of `node`: it depends on the same checks."""
    found = _unchecked.get(node)
    if found is not None:
        run, output = found
        run.nodes.append((output, weakref.ref(copy)))
        _unchecked[copy] = found


# Whether there are any: asked at every run, so without a call of Python's own.
any_unchecked = _unchecked.data.__len__  # type: ignore[attr-defined]


def examine(node: Node) -> None:
    """Look at the checks that the node's value depends on; failures are stored on results."""
    found = _unchecked.get(node)
    if found is None:
        return
    seen: set[Run] = set()
    stack = [(found[0], False)]
    while stack:  # what a run built on is looked at before it, and once
        run, last = stack.pop()
        if last:
            run.look()
        elif run not in seen:
            seen.add(run)
            stack.append((run, True))
            stack.extend((source, False) for _, source, _ in run.sources)
