"""Estimate the memory that a program needs, from its StableHLO, without compiling it.

XLA fuses: most elementwise results never exist in memory. The rules here are a simple model of
its compilers; tests/api/test_memory_plan.py compares them with what XLA reports.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pullback.engines.xla.builder import Builder, build_xla_block
from pullback.engines.xla.hlo_instructions import (
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
    hlo_instruction_key,
)
from pullback.engines.xla.joins import with_joined_pads
from pullback.engines.xla.kernel_calls import kernel_call_aliases
from pullback.engines.xla.triton.kernel_fusion import fuse_gpu_kernels
from pullback.graph.compile_split import segments_for_platform
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.transforms.lowered_form import lowered_form

# Instructions whose results share the memory of their operands.
_SAME = {"reshape", "optimization_barrier", "bitcast_convert"}
# Instructions that read and write whole arrays; fused loops begin and end there.
_WHOLE = {
    "dot_general", "convolution", "reduce", "reduce_window", "select_and_scatter", "sort",
    "scatter", "while", "case", "custom_call", "rng_bit_generator", "triangular_solve",
    "cholesky", "fft", "all_gather", "all_reduce", "all_to_all", "collective_permute",
    "reduce_scatter",
}  # fmt: skip
# Those that compute an elementwise operand while they read it
_COMPUTING_ON_GPU = {"reduce"}
PRODUCT_WORKSPACE = 32 << 20  # bytes that XLA gives cuBLAS
_COSTLY = {
    "tanh", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "sine",
    "cosine", "tan", "power", "divide", "sqrt", "rsqrt", "cbrt", "atan2", "remainder",
}  # fmt: skip
# Those of them that XLA writes with two operands: `logistic(x)` is `1 / (1 + exp(-x))`.
_OF_TWO = {"logistic", "power", "divide", "atan2", "remainder"}
# Instructions that read their operand in another order, and cannot overwrite it.
_MOVING = {"transpose", "reverse"}
# Collectives that need one dimension to be the slowest in memory, with its attribute.
_MAJOR = {
    "all_gather": "all_gather_dim", "all_to_all": "split_dimension",
    "reduce_scatter": "scatter_dimension",
}  # fmt: skip


@dataclass
class EstimatedBuffer:
    """A value that exists in memory between its writer and its last reader."""

    type: Type
    node: Any
    kept: bool = False  # written in the forward pass, read in the backward pass

    @property
    def nbytes(self) -> int:
        return self.type.nbytes


class Footprint:
    """The buffers of a program for a platform, with sizes in bytes; with a mesh, those of one
    device.

    With `kernels`, they are those of the program that calls kernels there.
    """

    def __init__(
        self, graph: Graph, mesh: Any = None, kernels: bool = False, platform: str = "cpu"
    ) -> None:
        graph, written = lowered_form(graph, platform) if kernels else (graph, {})
        on_cpu = platform == "cpu"
        builder = _MemoryEstimateRecorder(mesh)
        builder.platform, builder.guards = platform, on_cpu
        builder.kernels, builder.neutral = kernels, not kernels
        main = build_xla_block(graph, builder)
        if kernels and not on_cpu:
            main = fuse_gpu_kernels(with_joined_pads(main), builder)
        outputs = main.results[: len(graph.outputs)]  # without the result of run-time checks
        self.arguments = sum(x.type.nbytes for x in main.arguments)
        self.results = sum(y.type.nbytes for y in outputs)
        flow = _MemoryFlow(main.instructions, main.arguments, outputs, builder.origins, on_cpu)
        # A program that repeats itself runs in pieces: values passed between them are written.
        for k, segment in enumerate(segments_for_platform(graph, platform)):
            flow.handed.update(flow.root(builder.values[y]) for y in segment.gives)
            for node in segment.stands_for.values():
                flow.piece.setdefault(node, k)
        flow.work_out()
        self.buffers = list(flow.buffers.values())
        for buffer in self.buffers:  # users know nothing of fused ops
            buffer.node = written.get(buffer.node, buffer.node)
        # Of the possible orders of execution, XLA chooses one that needs little memory.
        plans = [
            _simulate_memory(flow, flow.steps),
            _simulate_memory(flow, _frugal_order_for_estimate(flow)),
        ]
        self.temporaries, self.live = min(plans, key=lambda plan: plan[0])
        if not on_cpu and _has_product(main.instructions):
            self.temporaries += PRODUCT_WORKSPACE


def _has_product(instructions: Iterable[HloInstruction]) -> bool:
    return any(
        i.name == "dot_general" or any(_has_product(region.instructions) for region in i.regions)
        for i in instructions
    )


class _MemoryEstimateRecorder(Builder):
    """Remembers which node an instruction was written for, and the value of each node."""

    def __init__(self, mesh: Any) -> None:
        super().__init__(mesh)
        self.literal = False
        self.node: Node | None = None  # the innermost node with a line of the user's program
        self.origins: Origins = {}
        self.values: dict[Node, HloValue] = {}

    def op(self, mnemonic: str, *xs: HloValue, **rest: Any) -> Any:
        made = super().op(mnemonic, *xs, **rest)
        for y in self.instructions[-1].results:
            self.origins[y] = self.node, self.current
        return made

    def _lower(self, node: Node, xs: list[Any]) -> Any:
        outer = self.node
        if outer is None or node.where is not None:
            self.node = node
        try:
            made = super()._lower(node, xs)
        finally:
            self.node = outer
        if isinstance(made, HloValue):
            self.values[node] = made
        return made


# For each value the node it was written for, and the program's node that this is part of.
Origins = dict[HloValue, tuple[Node | None, Node | None]]


@dataclass(eq=False)
class _EstimatedStep:
    """A fused loop or a whole instruction, with the values it reads from and writes to memory."""

    instruction: HloInstruction
    reads: list[HloValue]
    after: set[HloValue]  # values that must be written before, though they are not read
    writes: list[HloValue]
    inside: int  # bytes that only exist while it runs
    moves: bool = False  # whether it reads elements of an operand elsewhere than it writes them


@dataclass
class _EstimatedLoop:
    """How a value is computed from values in memory."""

    sources: dict[HloValue, None]
    after: set[HloValue] = field(default_factory=set)
    costly: bool = False
    moves: bool = False


class _MemoryFlow:
    """The values of a program that exist in memory, and the steps that read and write them."""

    def __init__(
        self, instructions: Sequence[HloInstruction], inputs: Sequence[HloValue],
        outputs: Sequence[HloValue], origins: Origins, on_cpu: bool = True,
    ) -> None:  # fmt: skip
        self.inputs, self.origins, self.on_cpu = set(inputs), origins, on_cpu
        self.same: dict[HloValue, HloValue] = {}  # values that share another one's memory
        self.tied: dict[HloValue, list[HloValue]] = {}  # values that a barrier waits for
        distinct = self._distinct([i for i in instructions if i.array is None])
        for i in distinct:
            if i.name in _SAME:
                for x, y in zip(self.reads[i], i.results, strict=True):
                    self.same[y] = self.root(x)
                    if len(i.operands) > 1:
                        self.tied[y] = [self.root(x) for x in i.operands]
                    elif x in self.tied:
                        self.tied[y] = self.tied[x]
        self.outputs = {self.root(y) for y in outputs}
        self.held = {x for tied in self.tied.values() for x in tied}
        self.instructions = self._needed(distinct)
        self.readers: dict[HloValue, list[HloInstruction]] = {}
        for i in self.instructions:
            for x in dict.fromkeys(map(self.root, self.reads[i])):
                self.readers.setdefault(x, []).append(i)
        self.buffers: dict[
            HloValue, EstimatedBuffer
        ] = {}  # stored values that are not inputs or outputs
        self.piece: dict[Any, int] = {}  # the piece of the program that a node is in
        self.handed: set[HloValue] = set()  # values that one piece passes to others
        self.steps: list[_EstimatedStep] = []

    def _distinct(self, instructions: Sequence[HloInstruction]) -> list[HloInstruction]:
        """The instructions without repeated ones, which XLA merges; fills in `reads`."""
        # The values that an instruction reads, also within its regions.
        self.reads: dict[HloInstruction, list[HloValue]] = {}
        defined = self.inputs.union(*[i.results for i in instructions])
        found: dict[Any, HloInstruction] = {}
        for i in instructions:
            operands = list(map(self.root, i.operands))
            outer = {x: self.root(x) for x in captured_by_hlo_instruction(i)}
            barrier = i.name == "optimization_barrier"
            first = found.setdefault(i if barrier else hlo_instruction_key(i, operands, outer), i)
            if first is not i:
                self.same.update(zip(i.results, first.results, strict=True))
            else:
                inner = [x for x in outer.values() if x in defined and x not in operands]
                self.reads[i] = [*operands, *inner]
        return list(self.reads)

    def work_out(self) -> _MemoryFlow:
        self.steps = list(self._steps())
        for step in self.steps:
            for x in step.reads:
                reader = self.origin(step.instruction)[0]
                if x in self.buffers and reader is not None and reader.backward:
                    node = self.buffers[x].node
                    self.buffers[x].kept = node is not None and not node.backward
        return self

    def origin(self, i: HloInstruction) -> tuple[Node | None, Node | None]:
        return self.origins.get(i.results[0], (None, None))

    def piece_of(self, step: _EstimatedStep) -> int:
        return self.piece.get(self.origin(step.instruction)[1], 0)

    def root(self, x: HloValue) -> HloValue:
        while x in self.same:
            x = self.same[x]
        return x

    def _needed(self, instructions: list[HloInstruction]) -> list[HloInstruction]:
        """The instructions that the outputs depend on and that write memory of their own."""
        needed = set(self.outputs)
        kept = []
        for i in reversed(instructions):
            if i.name not in _SAME and not needed.isdisjoint(i.results):
                needed.update(map(self.root, self.reads[i]))
                kept.append(i)
        return kept[::-1]

    def _steps(self) -> Iterable[_EstimatedStep]:
        loops = {x: _EstimatedLoop({x: None}) for x in self.inputs}
        for i in self.instructions:
            loop = self._loop(i, loops)
            writes = [y for y in i.results if self._is_stored(i, y, loop)]
            for y in i.results:
                loops[y] = _EstimatedLoop({y: None}) if y in writes else loop
            for y in writes:
                if y not in self.outputs:
                    self.buffers[y] = EstimatedBuffer(y.type, self.origin(i)[0])
            if writes:
                yield _EstimatedStep(
                    i, list(loop.sources), loop.after, writes, _memory_inside(i), loop.moves
                )

    def _loop(self, i: HloInstruction, loops: dict[HloValue, _EstimatedLoop]) -> _EstimatedLoop:
        made = _EstimatedLoop({}, set(), i.name in _COSTLY, i.name in _MOVING)
        for x in self.reads[i]:
            read = loops.get(self.root(x))
            if read is not None:  # a constant is not read
                made.sources |= read.sources
                made.after |= read.after
                made.costly |= read.costly
                made.moves |= read.moves
            for other in self.tied.get(x, ()):
                if other in loops:
                    made.after |= loops[other].sources.keys()
        return made

    def _is_stored(self, i: HloInstruction, y: HloValue, loop: _EstimatedLoop) -> bool:
        """Whether a value is written to memory.

        It is if a whole instruction makes or reads it, at a barrier, and if every reader would
        have to repeat costly work on several operands.
        """
        if any(y in s for s in (self.outputs, self.held, self.handed)):
            return True
        if i.name in _WHOLE and i.operands:
            return True
        readers = self.readers.get(y, [])
        computing = () if self.on_cpu else _COMPUTING_ON_GPU
        if any(
            r.name in _WHOLE and r.name not in computing and not _folds_in_memory(i, r)
            for r in readers
        ):
            return True
        if i.name in _OF_TWO and self._is_read_apart(readers):
            return True
        return loop.costly and len(readers) > 1 and len(loop.sources) > 1

    def _is_read_apart(self, readers: list[HloInstruction]) -> bool:
        """Whether several loops read a value, or the result of cheap work on it."""
        while len(readers) == 1 and readers[0].name not in _WHOLE | _COSTLY:
            (y,) = readers[0].results
            readers = self.readers.get(y, [])
        return len(readers) > 1


def _folds_in_memory(i: HloInstruction, reader: HloInstruction) -> bool:
    """Whether a whole instruction computes its operand while it reads it."""
    if i.name == "transpose":  # but not one that is reshaped
        return reader.name == "dot_general" and i.results[0] in reader.operands
    # What has no operands, such as memory that is not written yet, begins in the reader's memory
    return not i.operands or i.name in ("iota", "broadcast_in_dim")


def _memory_inside(i: HloInstruction) -> int:
    """Bytes that an instruction needs for itself while it runs."""
    if i.name in ("while", "case"):
        return _memory_of_body(i)
    if i.name == "convolution":  # XLA copies operands into the layout that it needs
        order = i.attributes["dimension_numbers"]
        copied = "<[b," not in order, "i, o]" not in order
        return sum(x.type.nbytes for x, c in zip(i.operands, copied, strict=True) if c)
    if i.name in _MAJOR:  # a copy on the side where the dimension is large
        return sum(max(x.type.nbytes, y.type.nbytes)
                   for x, y in zip(i.operands, i.results, strict=True)
                   if math.prod(y.shape[: i[_MAJOR[i.name]]]) > 1)  # fmt: skip
    return 0


def _memory_of_body(i: HloInstruction) -> int:
    """Bytes that the regions of a loop or conditional need."""
    body = [j for region in i.regions for j in region.instructions]
    read = {x for j in body for x in (*j.operands, *captured_by_hlo_instruction(j))}
    last = [y for j in body for y in j.results if y not in read]
    flow = _MemoryFlow(body, [], last, {}).work_out()
    return _simulate_memory(flow, flow.steps)[0] if flow.steps else 0


def _simulate_memory(
    flow: _MemoryFlow, steps: Sequence[_EstimatedStep]
) -> tuple[int, list[EstimatedBuffer]]:
    """The largest number of bytes of temporaries that exist at once, and those temporaries."""
    waiting = _estimate_reader_counts(flow)
    live: dict[HloValue, int] = {}
    best = 0
    at: list[HloValue] = []
    for _, group in groupby(steps, flow.piece_of):
        own = list(group)
        # What a piece takes and gives exists from its beginning to its end.
        given = [y for step in own for y in step.writes if y in flow.handed]
        live |= {y: flow.buffers[y].nbytes for y in given if y in flow.buffers}
        for step in own:
            written = {y: flow.buffers[y].nbytes for y in step.writes if y in flow.buffers}
            dying = [x for x in step.reads if waiting[x] == 1 and x in live]
            dying = [x for x in dying if x not in flow.handed]
            reused = _reused_memory(step, written, [live[x] for x in dying])
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


def _reused_memory(step: _EstimatedStep, written: dict[HloValue, int], dying: list[int]) -> int:
    """The bytes that a step writes over operands which it is the last to read."""
    total, i = 0, step.instruction
    if i.name == "custom_call" and "output_operand_aliases" in i.attributes:
        overwriting = {i.results[k] for k in kernel_call_aliases(i)}
    elif i.name == "while" or (i.name not in _WHOLE and not step.moves):
        overwriting = set(written)
    else:
        overwriting = set()
    for y, size in written.items():
        if y in overwriting and size in dying:
            dying.remove(size)
            total += size
    return total


def _frugal_order_for_estimate(flow: _MemoryFlow) -> list[_EstimatedStep]:
    """The steps, ordered greedily by how little each grows the memory in use."""
    waiting = _estimate_reader_counts(flow)
    writer = {y: step for step in flow.steps for y in step.writes}
    missing: dict[_EstimatedStep, int] = {}
    users: dict[_EstimatedStep, list[_EstimatedStep]] = {}
    for step in flow.steps:
        needs = {writer[x] for x in (*step.reads, *step.after) if x in writer} - {step}
        missing[step] = len(needs)
        for other in needs:
            users.setdefault(other, []).append(step)

    def growth(step: _EstimatedStep) -> int:
        made = sum(flow.buffers[y].nbytes for y in step.writes if y in flow.buffers)
        freed = [x for x in step.reads if x in flow.buffers and waiting[x] == 1]
        return made - sum(flow.buffers[x].nbytes for x in freed)

    ready = [step for step in flow.steps if not missing[step]]
    order: list[_EstimatedStep] = []
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


def _estimate_reader_counts(flow: _MemoryFlow) -> Counter[HloValue]:
    """The number of steps that read each value."""
    return Counter(x for step in flow.steps for x in step.reads)
