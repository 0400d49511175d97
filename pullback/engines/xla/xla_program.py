"""Compiled programs, and the outcome of their run-time checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pullback.engines.processes import processes_in_words
from pullback.engines.protocols import Check, EngineBuffer, ProgramBase
from pullback.engines.xla.memory import MemoryUse
from pullback.engines.xla.post_board import PostedValue, posted_size
from pullback.engines.xla.posted_results import SLOT_TYPE, PostedResults
from pullback.errors import PullbackError
from pullback.graph.dtypes import bool_
from pullback.graph.graph import Graph, graph_output_marks
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.builder import HloValue
    from pullback.engines.xla.client import Client
    from pullback.engines.xla.sharded import ShardedDeviceGroup


class XlaProgramCode(NamedTuple):
    """Machine code, its origin as of `Program`, and about how many bytes it takes in memory.

    `calls` says whether it calls Python.
    """

    executable: Any
    origin: str
    nbytes: int
    calls: bool = False


class XlaProgram(ProgramBase):
    """A compiled program; if it has checks, its last result says which of them held."""

    def __init__(
        self,
        client: Client,
        code: XlaProgramCode,
        graph: Graph,
        checks: Sequence[tuple[HloValue, Check]],
    ) -> None:
        self.client, self.executable, self.origin = client, code.executable, code.origin
        self.nbytes = code.nbytes + 1024 * len(graph.nodes)
        self.run = code.executable.run_to_end if code.calls else code.executable.run
        # The parts of `run`, for callers that call it instead if anything fails
        self.direct = (None, None) if code.calls else code.executable.direct
        self.traffic = code.executable.traffic
        self.memory: Callable[[], MemoryUse] = code.executable.memory  # of a run, says XLA
        self.checks: list[Check] = [(error, node) for _, (error, node) in checks]
        # Positions of the checks in the graph, which is not kept.
        index = {node: i for i, node in enumerate(graph.nodes)} if checks else {}
        self.places = [index[node] for _, node in self.checks]
        super().__init__(graph)
        self._check_masks = xla_program_check_masks(graph, self.checks)

    def failures(self, word: EngineBuffer, lines: Sequence[Any]) -> dict[int, PullbackError]:
        """Return the outputs that depend on a failed check, with its error at the check's line."""
        return xla_program_failed_outputs(self.checks, self._check_masks, self.failed(word), lines)

    def failed(self, word: Any) -> dict[int, str]:
        """Return the checks that failed, according to the last result, and on which processes."""
        held = self.client.get(word)
        return {} if held.all() else dict.fromkeys(np.flatnonzero(~held).tolist(), "")


class PostingXlaProgram(XlaProgram):
    """A program that posts some results, and the outcomes of their checks, before it ends."""

    early_checks = True

    def __init__(
        self,
        client: Client,
        code: XlaProgramCode,
        graph: Graph,
        checks: Sequence[tuple[HloValue, Check]],
        posted: PostedResults,
    ) -> None:
        super().__init__(client, code, graph, checks)
        assert client.post_board is not None
        self._board, self._posted, self._start = client.post_board, posted, self.run
        self.run, self.direct = self._run, (None, None)
        self._types = [graph.outputs[k].type for k in posted.outputs]

    def _run(self, args: list[Any]) -> list[Any]:
        post, start = self._board.post(), 0
        results = self._start([*args, self.client.put(post.argument, SLOT_TYPE)])
        for k, type in zip(self._posted.outputs, self._types, strict=True):
            self._board.expect(results[k], PostedValue(post, start, type))
            start += posted_size(type)
        if self.checks:
            outcomes = PostedValue(post, start, Type((len(self._posted.checks),), bool_))
            results[-1] = PostedOutcomes(results[-1], outcomes)
        return results

    def failed(self, word: PostedOutcomes) -> dict[int, str]:
        return super().failed(word.all)

    def fails(self, word: PostedOutcomes, output: int) -> bool:
        """Whether a check that an output depends on failed; it waits for no others if it can."""
        wanted = self._check_masks[output]
        early = sum([1 << k for k in self._posted.checks])
        held = word.early.wait(word.all) if wanted & ~early == 0 else None
        if held is None:
            return any(wanted >> k & 1 for k in self.failed(word))
        return not all(h for k, h in zip(self._posted.checks, held) if wanted >> k & 1)


class PostedOutcomes(NamedTuple):
    """The outcomes of all checks of a run, and of those that are posted."""

    all: Any
    early: PostedValue

    def is_ready(self) -> bool:
        return self.all.is_ready()


class SpmdXlaProgram(XlaProgram):
    """A compiled program for all devices of a mesh: it takes and returns `Shards`."""

    def failed(self, word: Any) -> dict[int, str]:
        group: ShardedDeviceGroup = self.executable.group
        rows = list(word.parts().values())
        held = np.stack(rows) if len(group.processes) == 1 else rows[0]  # by device, by check
        owners = np.array([d.process_index for d in group.devices])
        broken = [sorted(set(owners[~column].tolist())) for column in held.T]
        shown = ["" if ks == group.processes else f", on {processes_in_words(ks)}" for ks in broken]
        return {i: where for i, where in enumerate(shown) if broken[i]}


def xla_program_check_masks(graph: Graph, checks: Sequence[Check]) -> list[int]:
    """Return for each output the checks that it depends on, as bits."""
    marks: dict[Any, int] = {}
    for i, (_, node) in enumerate(checks):
        marks[node] = marks.get(node, 0) | 1 << i
    return graph_output_marks(graph, marks) if checks else []


def xla_program_failed_outputs(
    checks: Sequence[Check], masks: Sequence[int], failed: dict[int, str], lines: Sequence[Any]
) -> dict[int, PullbackError]:
    """Return the outputs that depend on a failed check, each with the first such error."""
    found = {}
    for output, mask in enumerate(masks if failed else ()):
        mine = [i for i in failed if mask >> i & 1]
        if mine:
            make_error, node = checks[mine[0]]
            found[output] = error = make_error().at(node.op.title, lines[mine[0]])
            error.message += failed[mine[0]]
    return found
