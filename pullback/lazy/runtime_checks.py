"""Run-time checks: a program with data-dependent indices also returns which checks held.

Nothing waits for that result. It is examined when a value is read; every value that depends on a
failed check, in this program or in one that used its results, then raises an error.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

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


class StartedRun(NamedTuple):
    """What is needed to find out whether the checks of a run held."""

    program: Any
    word: Any  # the outcomes; None if it has no checks of its own
    lines: Sequence[Location]
    sources: Sequence[Source]  # the arguments that were not examined then


class CheckedRun:
    """A run whose checks, or those of runs whose results it used, may not have been examined yet.

    `Node.checked` of a result is the run, with the number of the result.
    """

    def __init__(
        self, program: Any, word: Any, lines: Sequence[Location], sources: Sequence[Source]
    ) -> None:
        self.errors: dict[int, PullbackError] | None = None  # by output, once examined
        # None afterwards. Another thread may examine the run, so this is read once, and set last.
        self.started: StartedRun | None = StartedRun(program, word, lines, sources)
        suspects.add(self)

    @property
    def sources(self) -> Sequence[Source]:
        started = self.started
        return () if started is None else started.sources

    def ready(self) -> bool:
        """Whether it can be examined without waiting."""
        started = self.started
        return started is None or started.word is None or started.word.is_ready()

    def passes_early(self, output: int) -> bool:
        """Whether an output was found to be valid although later checks are not over yet.

        The sources were examined before.
        """
        started = self.started
        if started is None or self.ready() or not started.program.early_checks:
            return False
        return output not in _errors_of_sources(started) and not started.program.fails(
            started.word, output
        )

    def examine(self) -> None:
        """Find the outputs that failed; the sources were examined before."""
        started = self.started
        if started is None:
            return
        program, word, lines, _ = started
        own = {} if word is None else program.failures(word, lines)
        self.errors = {**_errors_of_sources(started), **own}
        self.started = None
        if not self.errors:
            suspects.discard(self)


def _errors_of_sources(run: StartedRun) -> dict[int, PullbackError]:
    """Return the errors of outputs that depend on arguments that failed."""
    found: dict[int, PullbackError] = {}
    for argument, source, place in run.sources:
        error = (source.errors or {}).get(place)
        if error is not None:
            for i, mask in enumerate(run.program.input_masks):
                if mask >> argument & 1:
                    found.setdefault(i, error)
    return found


# The number of an argument, the run that computed it, and the number of its output
Source = tuple[int, CheckedRun, int]

# Runs that have failed, or may have. While there are none, no value is looked at.
suspects: weakref.WeakSet[CheckedRun] = weakref.WeakSet()
# Used at every run, so without a Python function
suspect_runs: set = suspects.data  # type: ignore[attr-defined]
any_suspects = suspect_runs.__len__


def runtime_checks_started(
    program: Any, word: Any, lines: Sequence[Location], arguments: Sequence[Node],
    nodes: Sequence[Node],
) -> None:  # fmt: skip
    """Note a run that has checks, of ops at `lines`, or that used results of such a run."""
    sources: list[Source] = []
    waiting: set[CheckedRun] = set()
    for i, x in enumerate(arguments):
        checked = x.checked  # once: another thread may examine it
        if checked is not None:
            run, output = checked
            if run.errors is None and run not in waiting:
                if run.ready():
                    examine_runtime_checks(x)  # keeps the chain short in a loop that never reads
                else:
                    waiting.add(run)
            if run.errors is None or output in run.errors:
                sources.append((i, run, output))
    if word is None and not sources:
        return
    run = CheckedRun(program, word, lines, sources)
    for i, node in enumerate(nodes):
        node.checked = (run, i)


def follow_runtime_checks(node: Node, copy: Node) -> None:
    """Note that `copy` has the value of `node`, and so depends on the same checks."""
    copy.checked = node.checked


def examine_runtime_checks(node: Node) -> None:
    """Examine the checks that the value of a node depends on; a failure becomes its value.

    Other checks of its run are examined later if they are not over yet: the loss of a step can be
    read while its gradients are computed.
    """
    checked = node.checked  # once: another thread may examine it
    if checked is None:
        return
    wanted, output = checked
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
    error = (wanted.errors or {}).get(output)
    if error is not None:
        node.value = RuntimeFailure(error)
    node.checked = None
