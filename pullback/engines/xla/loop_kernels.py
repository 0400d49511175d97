"""Elementwise work of loops, by a kernel that reads and writes rows of stacks where they are.

XLA makes a loop of its own for each value that an iteration keeps, and rows are copied around them.
The kernel `vector_program` takes instructions as data and computes all of their results in one
pass, a few vectors at a time. So what an iteration does between two products is one call.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
    live_hlo_instructions,
)
from pullback.engines.xla.kernels import PREFIX
from pullback.engines.xla.vector_program import STEPS, VectorProgram
from pullback.graph.dtypes import float32, float64
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.builder import Builder

_LEAST_WORK, _LEAST_ELEMENTS, _LEAST_COLUMNS = 6, 512, 16  # XLA is as fast with less
_LARGEST = 1 << 18  # bytes of a value: XLA shares larger ones among threads
_FREE = ("slice", "transpose", "broadcast_in_dim", "reshape", "constant")
_CALLS = ("custom_call", "while", "case")  # they may have effects


class Stage(NamedTuple):
    """When an instruction runs, and what with: steps of one stage and type are one call."""

    number: int
    kind: Type | HloInstruction | None = None  # a concatenation is of its own kind


def with_loop_kernels(block: HloBlock, b: Builder) -> HloBlock:
    """The program with calls of the kernel in loops that read or write rows."""
    written = [_with_kernels_inside(i, b) if i.regions else i for i in block.instructions]
    return _with_instructions(block, written)


def _with_kernels_inside(i: HloInstruction, b: Builder) -> HloInstruction:
    regions = [with_loop_kernels(r, b) for r in i.regions]
    if i.name == "while":
        regions[1] = _LoopBody(regions[1], b).rewritten()
    return dataclasses.replace(i, regions=tuple(regions))


class _LoopBody:
    """The body of a loop while its elementwise instructions become calls."""

    def __init__(self, block: HloBlock, b: Builder) -> None:
        self.block, self.b = _without_dead(block), b
        block = self.block
        self.makers = {y: i for i in block.instructions for y in i.results}
        self.users: dict[HloValue, list[HloInstruction | None]] = {}
        self.stages: dict[HloInstruction, Stage] = {}
        for i in block.instructions:
            used = [*i.operands, *captured_by_hlo_instruction(i)]
            self.stages[i] = self._stage_after(i, used)
            for x in used:
                self.users.setdefault(x, []).append(i)
        for y in block.results:
            self.users.setdefault(y, []).append(None)
        for i in reversed(block.instructions):
            self._move_to_users(i)
        self.reads, self.writes = (
            [i for i in block.instructions if _is_call(i, name)]
            for name in ("read_rows", "write_rows")
        )
        self.programs: dict[Stage, VectorProgram] = {}
        self.owners: dict[HloInstruction, VectorProgram] = {}  # of steps and concatenations
        self.written: set[HloValue] = set()  # stacks that programs write

    def rewritten(self) -> HloBlock:
        if len(self.reads) > 1 or len(self.writes) > 1 or not (self.reads or self.writes):
            return self.block  # unrolled iterations read and write several rows of a stack
        for i, stage in self.stages.items():
            if isinstance(stage.kind, Type):
                self._program(stage).add_step(i)
                self.owners[i] = self._program(stage)
            elif stage.kind is i:
                program = self._program(self.stages[self.makers[i.operands[0]]])
                program.add_join(i)
                self.owners[i] = program
        self._write_rows()
        self._keep_worthwhile()
        if not self.programs:
            return self.block
        for i, program in self.owners.items():
            for y in i.results:
                if any(self._needs(user, y, program) for user in self.users.get(y, ())):
                    program.give(y)
        return self._with_calls()

    def _stage_after(self, i: HloInstruction, used: list[HloValue]) -> Stage:
        """Return the first stage in which an instruction can run."""
        kind = _kind_of_step(i)
        before = [self.stages[self.makers[x]] for x in used if x in self.makers]
        together = len(before) == len(used) and len(set(before)) == 1
        if together and isinstance(before[0].kind, Type) and _joins_columns(i):
            return Stage(before[0].number, i)  # the call that computes the parts joins them
        later = [s.number + (s.kind is not None and s.kind != kind) for s in before]
        return Stage(max(later, default=0), kind)

    def _move_to_users(self, i: HloInstruction) -> None:
        """Let a step wait for the first of the steps that use it, if there is nothing else."""
        stage = self.stages[i]
        users = [user for y in i.results for user in self.users.get(y, ())]
        found = [self.stages[user] for user in users if user is not None]
        alike = isinstance(stage.kind, Type) and all(s.kind == stage.kind for s in found)
        if alike and found and len(found) == len(users):
            self.stages[i] = min(found, key=lambda s: s.number)

    def _program(self, stage: Stage) -> VectorProgram:
        if stage not in self.programs:
            assert isinstance(stage.kind, Type)
            reads = self.reads[0] if self.reads else None
            self.programs[stage] = VectorProgram(self.b, stage.kind, reads)
        return self.programs[stage]

    def _write_rows(self) -> None:
        """Let programs write the rows that they compute, or that have the shape of what they do."""
        for call in self.writes:
            at, rows, stacks = _rows_written(call)
            for row, stack, y in zip(rows, stacks, call.results, strict=True):
                program = self._writer(row)
                if program is not None and stack in self.block.arguments:
                    program.write(row, at, stack, y)
                    self.written.add(y)

    def _writer(self, row: HloValue) -> VectorProgram | None:
        maker = self.makers.get(row)
        if maker in self.owners:
            return self.owners[maker]
        first = self.stages[maker].number if maker else 0
        able = [s for s in self.programs if s.kind == row.type and s.number >= first]
        return self.programs[max(able, key=lambda s: s.number)] if able else None

    def _keep_worthwhile(self) -> None:
        for stage, program in list(self.programs.items()):
            moves = program.moves
            if not moves or len(program.steps) + moves < _LEAST_WORK:
                del self.programs[stage]
                self.written.difference_update(program.results)
        kept = set(self.programs.values())
        self.owners = {i: p for i, p in self.owners.items() if p in kept}

    def _needs(self, user: HloInstruction | None, y: HloValue, program: VectorProgram) -> bool:
        """Whether a use of a value is not in the program that computes it."""
        if user is None or user not in self.writes:
            return user is None or self.owners.get(user) is not program
        _, rows, stacks = _rows_written(user)
        pairs = zip(rows, user.results, strict=True)
        return y in stacks or any(row is y and out not in self.written for row, out in pairs)

    def _with_calls(self) -> HloBlock:
        """The block with calls after everything that is computed in earlier stages."""
        states = dict(zip(self.block.results, self.block.arguments, strict=True))
        timed = [
            (self.stages[i].number, False, n, self._rest_of_writes(i) if i in self.writes else i)
            for n, i in enumerate(self.block.instructions)
            if i not in self.owners
        ]
        for n, (stage, program) in enumerate(self.programs.items()):
            last = [i for i, p in self.owners.items() if p is program][-1]
            call = dataclasses.replace(program.call(states), location=last.location)
            timed.append((stage.number, True, n, call))
        ordered = [i for *_, i in sorted(timed, key=lambda t: t[:3]) if i is not None]
        return _with_instructions(self.block, self._needed(ordered))

    def _rest_of_writes(self, call: HloInstruction) -> HloInstruction | None:
        at, rows, stacks = _rows_written(call)
        left = [k for k, y in enumerate(call.results) if y not in self.written]
        if not left:
            return None
        given = [at, *[rows[k] for k in left], *[stacks[k] for k in left]]
        in_place = {n: 1 + len(left) + n for n in range(len(left))}
        return self._again(call, given, left, in_place)

    def _needed(self, ordered: list[HloInstruction]) -> list[HloInstruction]:
        """The instructions without those that copied rows for others which are gone."""
        needed, kept = set(self.block.results), []
        for i in reversed(ordered):
            unused = needed.isdisjoint(i.results)
            if unused and (i.name in _FREE or i in self.reads):
                continue
            if i in self.reads:
                left = [k for k, y in enumerate(i.results) if y in needed]
                i = self._again(i, [i.operands[0], *[i.operands[1 + k] for k in left]], left, {})
            needed.update(i.operands, captured_by_hlo_instruction(i))
            kept.append(i)
        return kept[::-1]

    def _again(
        self, call: HloInstruction, given: list[HloValue], left: list[int], in_place: dict[int, int]
    ) -> HloInstruction:
        """A call that reads or writes rows, with some of its results."""
        results = tuple([call.results[k] for k in left])
        name = "read_rows" if call in self.reads else "write_rows"
        self.b.kernel(name, *given, out=tuple([y.type for y in results]), in_place=in_place)
        made = self.b.instructions.pop()
        return dataclasses.replace(made, results=results, location=call.location)


def _without_dead(block: HloBlock) -> HloBlock:
    """The block without computations that nothing uses, such as pads that were joined."""
    live = live_hlo_instructions(block)
    kept = [i for i in block.instructions if i.name in _CALLS or not live.isdisjoint(i.results)]
    return dataclasses.replace(block, instructions=kept)


def _kind_of_step(i: HloInstruction) -> Type | None:
    """The type of an instruction that the kernel has a step for."""
    if i.name not in STEPS:
        return None
    (y,) = i.types
    fits = len(y.shape) > 0 and y.shape[-1] >= _LEAST_COLUMNS and y.size >= _LEAST_ELEMENTS
    return y if fits and y.dtype in (float32, float64) and y.nbytes <= _LARGEST else None


def _joins_columns(i: HloInstruction) -> bool:
    return i.name == "concatenate" and i["dimension"] == len(i.types[0].shape) - 1


def _is_call(i: HloInstruction, name: str) -> bool:
    target = i.attributes.get("call_target_name") if i.name == "custom_call" else None
    return target == f'"{PREFIX}{name}"'


def _rows_written(call: HloInstruction) -> tuple[HloValue, list[HloValue], list[HloValue]]:
    at, *others = call.operands
    return at, others[: len(call.results)], others[len(call.results) :]


def _with_instructions(block: HloBlock, instructions: list[HloInstruction]) -> HloBlock:
    for i in instructions:
        for y in i.results:
            y.made_by = i
    return dataclasses.replace(block, instructions=instructions)
