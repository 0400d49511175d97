"""What a program takes in memory, read off its StableHLO without compiling it.

XLA fuses: most elementwise results never exist in memory. The rules here are a model of what its
CPU compiler does, kept simple and compared with what it reports (tests/api/test_memory_plan.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pullback.engines.xla.builder import HloValue
from pullback.engines.xla.recorder import Recorded, RecordedInstruction
from pullback.graph.compile_split import segments
from pullback.graph.graph import Graph
from pullback.graph.types import Type

# The operand under another shape or name: no memory of its own.
_SAME = {"reshape", "optimization_barrier", "bitcast_convert"}
# Instructions that read and write whole arrays: they begin and end a fused loop.
_WHOLE = {
    "dot_general", "convolution", "reduce", "reduce_window", "select_and_scatter", "sort",
    "scatter", "while", "case", "custom_call", "rng_bit_generator", "triangular_solve",
    "cholesky", "fft",
}  # fmt: skip
_COSTLY = {
    "tanh", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "sine",
    "cosine", "tan", "power", "divide", "sqrt", "rsqrt", "cbrt", "atan2", "remainder",
}  # fmt: skip
# Of those, what XLA writes with two operands: `logistic(x)` is `1 / (1 + exp(-x))`.
_OF_TWO = {"logistic", "power", "divide", "atan2", "remainder"}


@dataclass
class Buffer:
    """A value that exists in memory between its writer and its last reader."""

    type: Type
    node: Any
    kept: bool = False  # written in the forward pass, read in the backward pass

    @property
    def nbytes(self) -> int:
        return self.type.nbytes


class Footprint:
    """The buffers of a program; sizes are in bytes. With a mesh, of one device's."""

    def __init__(self, graph: Graph, mesh: Any = None) -> None:
        made = Recorded(graph, mesh)
        self.arguments = sum(x.type.nbytes for x in made.inputs)
        self.results = sum(y.type.nbytes for y in made.outputs)
        flow = _Flow(made.instructions, made.inputs, made.outputs)
        # A program that repeats itself is run in pieces: what they hand on is written.
        for k, segment in enumerate(segments(graph)):
            flow.handed.update(flow.root(made.values[y]) for y in segment.gives)
            for node in segment.stands_for.values():
                flow.piece.setdefault(node, k)
        flow.work_out()
        self.buffers = list(flow.buffers.values())
        # Of the orders in which a program can run, XLA takes one that needs little.
        plans = [_simulate(flow, flow.steps), _simulate(flow, _frugal(flow))]
        self.temporaries, self.live = min(plans, key=lambda plan: plan[0])


@dataclass(eq=False)
class _Step:
    """A fused loop, or a whole instruction: what it reads from memory and what it writes."""

    instruction: RecordedInstruction
    reads: list[str]
    after: set[str]  # what must be written before, though it is not read
    writes: list[str]
    inside: int  # bytes that only exist while it runs

    @property
    def overwrites(self) -> bool:
        """Whether it may write over an operand that it is the last to read."""
        return self.instruction.kind not in _WHOLE or self.instruction.kind == "while"


@dataclass
class _Loop:
    """How a value is computed from what is in memory."""

    sources: dict[str, None]
    after: set[str] = field(default_factory=set)
    costly: bool = False


class _Flow:
    """Which values of a program exist in memory, and the steps that read and write them."""

    def __init__(
        self,
        instructions: list[RecordedInstruction],
        inputs: Sequence[HloValue],
        outputs: Sequence[HloValue],
    ) -> None:
        self.inputs = {x.name for x in inputs}
        values = [*inputs, *[y for i in instructions for y in i.results]]
        self.sizes = {v.name: v.type.nbytes for v in values}
        self.same: dict[str, str] = {}
        self.tied: dict[str, list[str]] = {}  # what a barrier makes a value wait for
        for i in instructions:
            if i.kind in _SAME:
                for x, y in zip(i.operands, i.results, strict=True):
                    self.same[y.name] = self.root(x)
                    if len(i.operands) > 1:
                        self.tied[y.name] = [self.root(x) for x in i.operands]
                    elif x in self.tied:
                        self.tied[y.name] = self.tied[x]
        self.outputs = {self.root(y.name) for y in outputs}
        self.held = {x for tied in self.tied.values() for x in tied}
        self.instructions = self._needed(instructions)
        self.readers: dict[str, list[RecordedInstruction]] = {}
        for i in self.instructions:
            for x in dict.fromkeys(map(self.root, i.operands)):
                self.readers.setdefault(x, []).append(i)
        self.buffers: dict[str, Buffer] = {}  # what is stored, without inputs and outputs
        self.piece: dict[Any, int] = {}  # which piece of the program a node is in
        self.handed: set[str] = set()  # what one piece hands on to others
        self.steps: list[_Step] = []

    def work_out(self) -> _Flow:
        self.steps = list(self._steps())
        for step in self.steps:
            for x in step.reads:
                if x in self.buffers and step.instruction.backward:
                    node = self.buffers[x].node
                    self.buffers[x].kept = node is not None and not node.backward
        return self

    def piece_of(self, step: _Step) -> int:
        return self.piece.get(step.instruction.part_of, 0)

    def root(self, name: str) -> str:
        return self.same.get(name, name)

    def _needed(self, instructions: list[RecordedInstruction]) -> list[RecordedInstruction]:
        """What the outputs depend on, without values that are others under another name."""
        needed = set(self.outputs)
        kept = []
        for i in reversed(instructions):
            if i.kind not in _SAME and any(y.name in needed for y in i.results):
                needed.update(map(self.root, i.operands))
                kept.append(i)
        return kept[::-1]

    def _steps(self) -> Iterable[_Step]:
        loops = {x: _Loop({x: None}) for x in self.inputs}
        for i in self.instructions:
            loop = self._loop(i, loops)
            writes = [y for y in i.results if self._is_stored(i, y, loop)]
            for y in i.results:
                loops[y.name] = _Loop({y.name: None}) if y in writes else loop
            for y in writes:
                if y.name not in self.outputs:
                    self.buffers[y.name] = Buffer(y.type, i.node)
            if writes:
                names = [y.name for y in writes]
                yield _Step(i, list(loop.sources), loop.after, names, self._inside(i))

    def _inside(self, i: RecordedInstruction) -> int:
        """Bytes that an instruction takes for itself while it runs."""
        if i.kind in ("while", "case"):
            return _body(i)
        if i.kind == "convolution":  # operands are copied into the order that XLA wants
            order = i.attributes["dimension_numbers"]
            copied = "<[b," not in order, "i, o]" not in order
            return sum(self.sizes[x] for x, c in zip(i.operands, copied, strict=True) if c)
        return 0

    def _loop(self, i: RecordedInstruction, loops: dict[str, _Loop]) -> _Loop:
        made = _Loop({}, set(), i.kind in _COSTLY)
        for x in i.operands:
            read = loops.get(self.root(x))
            if read is not None:  # a constant is not read
                made.sources |= read.sources
                made.after |= read.after
                made.costly |= read.costly
            for other in self.tied.get(x, ()):
                if other in loops:
                    made.after |= loops[other].sources.keys()
        return made

    def _is_stored(self, i: RecordedInstruction, y: HloValue, loop: _Loop) -> bool:
        """Whether a value is written to memory: where a whole instruction makes or reads it, at a
        barrier, and where each reader would have to do costly work on several operands again."""
        if i.kind in _WHOLE or any(y.name in s for s in (self.outputs, self.held, self.handed)):
            return True
        readers = self.readers.get(y.name, [])
        if any(r.kind in _WHOLE and not _folds(i, r) for r in readers):
            return True
        if i.kind in _OF_TWO and self._is_read_apart(readers):
            return True
        return loop.costly and len(readers) > 1 and len(loop.sources) > 1

    def _is_read_apart(self, readers: list[RecordedInstruction]) -> bool:
        """Whether several loops read a value, or what cheap work makes of it."""
        while len(readers) == 1 and readers[0].kind not in _WHOLE | _COSTLY:
            (y,) = readers[0].results
            readers = self.readers.get(y.name, [])
        return len(readers) > 1


def _folds(i: RecordedInstruction, reader: RecordedInstruction) -> bool:
    """Whether a whole instruction reads a value as it is made, without having it written."""
    if i.kind == "transpose":
        return reader.kind == "dot_general"
    return i.kind in ("iota", "broadcast_in_dim")


def _body(i: RecordedInstruction) -> int:
    """What the body of a loop or branch needs for itself."""
    read = {x for j in i.body for x in j.operands}
    last = [y for j in i.body for y in j.results if y.name not in read]
    flow = _Flow(i.body, [], last).work_out()
    return _simulate(flow, flow.steps)[0] if flow.steps else 0


def _simulate(flow: _Flow, steps: Sequence[_Step]) -> tuple[int, list[Buffer]]:
    """The most bytes of temporaries that are there at once, and which they are."""
    waiting = _waiting(flow)
    live: dict[str, int] = {}
    best = 0
    at: list[str] = []
    for _, group in groupby(steps, flow.piece_of):
        own = list(group)
        # What a piece takes and gives is there from its beginning to its end.
        given = [y for step in own for y in step.writes if y in flow.handed]
        live |= {y: flow.buffers[y].nbytes for y in given if y in flow.buffers}
        for step in own:
            written = {y: flow.buffers[y].nbytes for y in step.writes if y in flow.buffers}
            dying = [x for x in step.reads if waiting[x] == 1 and x in live]
            dying = [x for x in dying if x not in flow.handed]
            reused = _reused(step, written, [live[x] for x in dying])
            live |= written
            now = sum(live.values()) + step.inside - reused
            if now > best:
                best, at = now, list(live)
            for x in step.reads:
                waiting[x] -= 1
            for x in (*dying, *[y for y in written if not waiting.get(y) and y not in given]):
                del live[x]
        for x in [x for x in live if x in flow.handed and not waiting.get(x)]:
            del live[x]
    return best, [flow.buffers[x] for x in at]


def _reused(step: _Step, written: dict[str, int], dying: list[int]) -> int:
    """How much a step writes over operands of which it is the last reader."""
    total = 0
    for size in written.values() if step.overwrites else ():
        if size in dying:
            dying.remove(size)
            total += size
    return total


def _frugal(flow: _Flow) -> list[_Step]:
    """The steps in an order that at each point takes the one which grows memory the least."""
    waiting = _waiting(flow)
    writer = {y: step for step in flow.steps for y in step.writes}
    missing: dict[_Step, int] = {}
    users: dict[_Step, list[_Step]] = {}
    for step in flow.steps:
        needs = {writer[x] for x in (*step.reads, *step.after) if x in writer} - {step}
        missing[step] = len(needs)
        for other in needs:
            users.setdefault(other, []).append(step)

    def growth(step: _Step) -> int:
        made = sum(flow.buffers[y].nbytes for y in step.writes if y in flow.buffers)
        freed = [x for x in step.reads if x in flow.buffers and waiting[x] == 1]
        return made - sum(flow.buffers[x].nbytes for x in freed)

    ready = [step for step in flow.steps if not missing[step]]
    order: list[_Step] = []
    place = {step: t for t, step in enumerate(flow.steps)}
    while ready:
        step = min(ready, key=lambda s: (flow.piece_of(s), growth(s), place[s]))
        ready.remove(step)
        order.append(step)
        for x in step.reads:
            waiting[x] -= 1
        for user in users.get(step, ()):
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return order


def _waiting(flow: _Flow) -> dict[str, int]:
    """How many steps read each value."""
    counts: dict[str, int] = {}
    for step in flow.steps:
        for x in step.reads:
            counts[x] = counts.get(x, 0) + 1
    return counts
