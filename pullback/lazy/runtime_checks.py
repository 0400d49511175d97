"""Run-time checks: a program with data-dependent indices also returns which checks held.

Nothing waits for that result. It is examined when a value is read; every value that depends on a
failed check, in this program or in one that used its results, then raises an error.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from pullback.errors import Location, PullbackError
from pullback.graph.native import plain_values
from pullback.graph.node import Node


class RuntimeFailure:
    """The value of a node that could not be computed: reading it raises the error.

    It keeps no traceback, since frames may refer to the node, and each read raises a new error.
    """

    def __init__(self, error: PullbackError) -> None:
        self._cause, self._class, self._args = error.__cause__, type(error), error.args
        self._attributes = {**vars(error), "_hint": error.hint}
        raised: BaseException | None = self._cause
        while raised is not None:
            raised.__traceback__ = None
            raised = raised.__cause__ or raised.__context__

    def error(self) -> PullbackError:
        made = self._class.__new__(self._class, *self._args)
        vars(made).update(self._attributes)
        if self._cause is not None:
            made.__cause__ = self._cause
        return made


plain_values(RuntimeFailure)


class CheckedRun:
    """A run whose checks, or those of runs whose results it used, were not examined yet.

    `Node.checked` of a result is the run, with the number of the result.
    """

    def __init__(
        self, program: Any, word: Any, lines: Sequence[Location], sources: list[Source],
        nodes: Sequence[Node],
    ) -> None:  # fmt: skip
        self.program, self.word, self.lines, self.sources = program, word, lines, sources
        self.nodes = list(enumerate(map(weakref.ref, nodes)))
        self.errors: dict[int, PullbackError] | None = None  # by output, once examined
        unexamined.add(self)

    def ready(self) -> bool:
        """Whether it can be examined without waiting."""
        return self.errors is not None or self.word is None or self.word.is_ready()

    def passes_early(self, output: int) -> bool:
        """Whether an output was found to be valid although later checks are not over yet.

        The sources were examined before.
        """
        if self.ready() or not self.program.early_checks:
            return False
        mask = self.program.input_masks[output]
        for argument, run, place in self.sources:
            if mask >> argument & 1 and place in (run.errors or {}):
                return False
        return not self.program.fails(self.word, output)

    def examine(self) -> None:
        """Find the outputs that failed; the sources were examined before."""
        if self.errors is not None:
            return
        errors = {} if self.word is None else self.program.failures(self.word, self.lines)
        for argument, run, output in self.sources:
            error = (run.errors or {}).get(output)
            for i, mask in enumerate(self.program.input_masks):
                if error is not None and mask >> argument & 1:
                    errors.setdefault(i, error)
        if errors:
            for i, ref in self.nodes:
                node = ref()
                if node is not None and i in errors:
                    node.value = RuntimeFailure(errors[i])
        # First: another thread that finds it set relies on the values
        self.errors = errors
        self.program = self.word = None
        self.lines, self.sources, self.nodes = [], [], []
        unexamined.discard(self)


# The number of an argument, the run that computed it, and the number of its output
Source = tuple[int, CheckedRun, int]

unexamined: weakref.WeakSet[CheckedRun] = weakref.WeakSet()
# Used at every run, so without a Python function
unexamined_runs: set = unexamined.data  # type: ignore[attr-defined]
any_unexamined = unexamined_runs.__len__


def runtime_checks_started(
    program: Any, word: Any, lines: Sequence[Location], arguments: Sequence[Node],
    nodes: Sequence[Node],
) -> None:  # fmt: skip
    """Note a run that has checks, of ops at `lines`, or that used results of such a run."""
    sources: list[Source] = []
    for i, x in enumerate(arguments):
        if x.checked is not None:
            run, output = x.checked
            if run.errors is None and run.ready():
                examine_runtime_checks(x)  # keeps the chain short in a loop that never reads
            if run.errors is None or output in run.errors:
                sources.append((i, run, output))
    if word is None and not sources:
        return
    run = CheckedRun(program, word, lines, sources, nodes)
    for i, node in enumerate(nodes):
        node.checked = (run, i)


def follow_runtime_checks(node: Node, copy: Node) -> None:
    """Note that `copy` has the value of `node`, and so depends on the same checks."""
    if node.checked is not None and node.checked[0].errors is None:
        run, output = copy.checked = node.checked
        run.nodes.append((output, weakref.ref(copy)))


def examine_runtime_checks(node: Node) -> None:
    """Examine the checks that the value of a node depends on; store failures on the results.

    Other checks of its run are examined later if they are not over yet: the loss of a step can be
    read while its gradients are computed.
    """
    if node.checked is None:
        return
    wanted, output = node.checked
    seen: set[CheckedRun] = set()
    stack = [(wanted, False)]
    while stack:  # the sources of a run are examined before it
        run, last = stack.pop()
        if last and run is wanted and run.passes_early(output):
            break
        if last:
            run.examine()
        elif run not in seen:
            seen.add(run)
            stack.append((run, True))
            stack.extend((source, False) for _, source, _ in run.sources)
    node.checked = None
