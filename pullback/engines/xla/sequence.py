"""A program that runs as a sequence of smaller ones; equal ones are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines.protocols import Check, ProgramBase
from pullback.engines.xla.memory import MemoryUse
from pullback.engines.xla.xla_program import (
    XlaProgram,
    xla_program_check_masks,
    xla_program_failed_outputs,
)
from pullback.errors import PullbackError
from pullback.graph.compile_split import CompileSplitSegment
from pullback.graph.dtypes import uint64
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type


class XlaSequence(ProgramBase):
    """Runs the pieces of a graph in order; buffers are freed when their last user has started."""

    early_checks = True
    host_scalars = True  # packed scalars are split on the host, for each piece its own

    def __init__(
        self, put: Callable[[np.ndarray, Type], Any], graph: Graph,
        parts: Sequence[tuple[CompileSplitSegment, XlaProgram]], origins: set[str],
    ) -> None:  # fmt: skip
        self._put = put
        self.pieces = [program for _, program in parts]
        # If any of the new pieces was compiled, the program counts as compiled.
        self.origin = next((o for o in ("missed", "compiler", "disk") if o in origins), "memory")
        # Pieces that programs share count for each of them.
        self.nbytes = sum(p.nbytes for p in set(self.pieces)) + 1024 * len(graph.nodes)
        places = {x: i for i, x in enumerate(graph.inputs)}
        for segment, _ in parts:
            for y in segment.gives:
                places[y] = len(places)
        self._size, self._count = len(places), len(graph.inputs)
        self._types = [x.type for x in places]
        self._outputs = [places[y] for y in graph.outputs]
        self._steps = _xla_sequence_steps(parts, places, set(self._outputs))
        self._splits = any(segment.words for segment, _ in parts)
        self._last_scalars: tuple[Any, list[Any]] = None, []
        self.checks = [check for part in parts for check in _xla_sequence_checks(*part)]
        super().__init__(graph)
        self._check_masks = xla_program_check_masks(graph, self.checks)

    def run(self, args: list[Any]) -> list[Any]:
        """Start every piece; return the results, and last the outcomes of checks."""
        values = [*args, *[None] * (self._size - len(args))]
        words = []
        scalars = iter(self._scalars(args[-1])) if self._splits else iter(())
        for run, takes, words_of, gives, over, checked in self._steps:
            given = [values[i] for i in takes]
            if words_of is not None:
                given.append(next(scalars))
            results = run(given)
            if checked:
                words.append(results.pop())
            for i, value in zip(gives, results, strict=True):
                values[i] = value
            for i in over:
                values[i] = None
        outputs = [values[i] for i in self._outputs]
        return [*outputs, XlaSequenceOutcomes(words)] if words else outputs

    @property
    def direct(self) -> tuple[Any, Any]:
        """What starts the pieces, as that of one program; not a field, which would be a cycle."""
        startable = all(piece.direct[0] is not None for piece in self.pieces)
        return (self._started, ()) if startable else (None, None)

    def _started(self, args: list[Any]) -> XlaSequenceResults:
        return XlaSequenceResults(self.run(args))

    def _scalars(self, packed: np.ndarray) -> list[Any]:
        """Return the packed scalars of each piece that has some; those of the last run, if the
        same are given."""
        last, found = self._last_scalars
        if last is not packed:
            parts = [packed[words_of] for _, _, words_of, *_ in self._steps if words_of is not None]
            found = [self._put(mine, Type(mine.shape, uint64)) for mine in parts]
            self._last_scalars = packed, found
        return found

    def memory(self) -> MemoryUse:
        """Return the memory of a run: values passed between pieces, and temporaries of each."""
        size = [t.nbytes for t in self._types]
        outputs, count = set(self._outputs), self._count
        live = most = 0
        for program, (_, _, _, gives, over, _) in zip(self.pieces, self._steps, strict=True):
            live += sum(size[i] for i in gives if i not in outputs)
            most = max(most, live + program.memory().temporaries)
            live -= sum(size[i] for i in over if i >= count)
        return MemoryUse(sum(size[:count]), sum(size[i] for i in outputs), most)

    def traffic(self) -> float:
        """Return how many bytes a run of all pieces reads and writes."""
        return sum([piece.traffic() for piece in self.pieces])

    def failures(self, word: XlaSequenceOutcomes, lines: Sequence[Any]) -> dict[int, PullbackError]:
        """Return the outputs that depend on a failed check, with its error at the check's line."""
        failed = self._failed(word)
        return xla_program_failed_outputs(self.checks, self._check_masks, failed, lines)

    def fails(self, word: XlaSequenceOutcomes, output: int) -> bool:
        """Whether a check that an output depends on failed; it waits for these checks alone."""
        return bool(self._failed(word, self._check_masks[output]))

    def _failed(self, word: XlaSequenceOutcomes, wanted: int = -1) -> dict[int, str]:
        """Return which of the checks failed whose bits are set, and on which processes."""
        checked = [piece for piece in self.pieces if piece.checks]
        failed: dict[int, str] = {}
        before = 0
        for piece, its in zip(checked, word.words, strict=True):
            own = wanted >> before & ((1 << len(piece.checks)) - 1)
            for i, where in piece.failed(its).items() if own else ():
                if own >> i & 1:
                    failed[before + i] = where
            before += len(piece.checks)
        return failed


class XlaSequenceResults(list):
    """The results of a run, for callers that take those of one program."""

    def consume_with_handlers(self, handlers: Sequence[Any]) -> list[Any]:
        return self  # handlers have made arrays of them


class XlaSequenceOutcomes:
    """The outcomes of the checks of several pieces."""

    def __init__(self, words: list[Any]) -> None:
        self.words = words

    def is_ready(self) -> bool:
        return all(w.is_ready() for w in self.words)


def _xla_sequence_steps(
    parts: Sequence[tuple[CompileSplitSegment, XlaProgram]], places: dict[Node, int], kept: set[int]
) -> list[tuple]:
    """Return for each piece what it runs, takes and gives, and which values it uses last."""
    last: dict[int, int] = {}
    for k, (segment, _) in enumerate(parts):
        for x in (*segment.takes, *segment.gives):
            last[places[x]] = k
    over: dict[int, list[int]] = {}
    for i, k in last.items():
        if i not in kept:
            over.setdefault(k, []).append(i)
    steps = []
    for k, (segment, program) in enumerate(parts):
        takes = [places[x] for x in segment.takes]
        gives = [places[y] for y in segment.gives]
        words = np.array(segment.words) if segment.words else None
        steps.append((program.run, takes, words, gives, over.get(k, []), bool(program.checks)))
    return steps


def _xla_sequence_checks(segment: CompileSplitSegment, program: XlaProgram) -> list[Check]:
    """Return a piece's checks with their nodes in the whole program, not in an equal piece."""
    own = segment.graph.nodes
    errors = [error for error, _ in program.checks]
    return [(e, segment.stands_for[own[i]]) for e, i in zip(errors, program.places, strict=True)]
