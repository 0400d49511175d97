"""Run-time checks: a program with data-dependent indices says which of its checks held.

Nothing waits for that answer. It is looked at when a result is read, and then every result that
depends on a failed check, in this program or in one that used its results, raises.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from pullback.ir.errors import PullbackError
from pullback.ir.node import Node


class Failed:
    """In place of a value: the error that reading it raises."""

    def __init__(self, error: PullbackError) -> None:
        self.error = error


class Run:
    """One execution whose checks were not looked at yet."""

    def __init__(self, program: Any, word: Any, earlier: list[Run]) -> None:
        self.program, self.word, self.earlier = program, word, earlier
        self.outputs: list[tuple[int, weakref.ref[Node]]] = []
        self.error: PullbackError | None = None

    def ready(self) -> bool:
        return self.word is None or self.word.is_ready()


# The results of such executions, until they are looked at.
_unchecked: weakref.WeakKeyDictionary[Node, Run] = weakref.WeakKeyDictionary()


def started(program: Any, word: Any, args: Sequence[Node], outputs: list[tuple[int, Node]]) -> None:
    """Remember an execution that has checks, or that used results of one."""
    earlier = []
    for x in args:
        run = _unchecked.get(x)
        if run is not None:
            if run.ready():
                examine(x)  # keeps the chain of runs short in a loop that never reads
            else:
                earlier.append(run)
    if word is None and not earlier:
        return
    run = Run(program, word, earlier)
    run.outputs = [(i, weakref.ref(node)) for i, node in outputs]
    for _, node in outputs:
        _unchecked[node] = run


def any_unchecked() -> bool:
    return bool(_unchecked)


def examine(node: Node) -> None:
    """Look at the checks that the node's value depends on; failures are stored on results."""
    run = _unchecked.get(node)
    if run is None:
        return
    order, stack = [], [run]
    while stack:
        current = stack.pop()
        order.append(current)
        stack.extend(current.earlier)
    for current in reversed(order):
        _settle(current)


def _settle(run: Run) -> None:
    inherited = next((e.error for e in run.earlier if e.error is not None), None)
    failures = {} if run.word is None else run.program.failures(run.word)
    for i, ref in run.outputs:
        node = ref()
        error = failures.get(i) or inherited
        if error is not None:
            run.error = error
        if node is not None:
            if error is not None:
                node.value = Failed(error)
            _unchecked.pop(node, None)
    run.earlier, run.word, run.outputs = [], None, []
