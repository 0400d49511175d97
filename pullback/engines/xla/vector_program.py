"""The call of a kernel that runs a program of elementwise instructions, given as data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pullback.engines.xla.hlo_instructions import HloInstruction, HloValue
from pullback.graph.types import Type
from pullback.ops.merged_dims import merged_dims

if TYPE_CHECKING:
    from pullback.engines.xla.builder import Builder

STEPS = (  # the order of `VectorOp` in vector_program.h
    "add", "subtract", "multiply", "divide", "maximum", "minimum",
    "negate", "exponential", "logistic", "tanh",
)  # fmt: skip


class Place(NamedTuple):
    """Where an array of rows is: in a row of a stack, the one that `at` says, or in a value."""

    base: HloValue
    at: HloValue | None
    offset: int
    row: int  # distances
    column: int


class Number(NamedTuple):
    """A number that is everywhere in an array, by its bits in f64: -0.0 is not 0.0."""

    bits: int


Operand = HloValue | Place | Number  # the result of a step, or what is given


class VectorProgram:
    """Steps over arrays of one shape, the arrays that they read, and where their results go."""

    def __init__(self, b: Builder, type: Type, reads: HloInstruction | None) -> None:
        self.b, self.type = b, type
        self.columns = type.shape[-1]
        self.rows = type.size // self.columns
        self.stacks = dict(zip(reads.results, reads.operands[1:], strict=True)) if reads else {}
        self.iteration = reads.operands[0] if reads else None
        self.steps: dict[HloValue, tuple[str, Operand, Operand]] = {}
        self.joins: dict[HloValue, list[tuple[HloValue, int]]] = {}
        self.results: list[HloValue] = []
        self._outputs: list[tuple[Operand, int, Place]] = []  # with the result that they belong to
        self._stacks_of_results: dict[int, HloValue] = {}  # which they take the memory of

    def add_step(self, i: HloInstruction) -> None:
        xs = [self._operand(x) for x in i.operands]
        self.steps[i.results[0]] = i.name, xs[0], xs[-1]

    def add_join(self, i: HloInstruction) -> None:
        """Make a concatenation along the last dimension known: its parts are written there."""
        starts = np.cumsum([0, *[x.shape[-1] for x in i.operands]]).tolist()
        self.joins[i.results[0]] = list(zip(i.operands, starts[:-1], strict=True))

    def give(self, y: HloValue) -> None:
        """Make a value a result of the call."""
        self._write(y, y, None)

    def write(self, y: HloValue, at: HloValue, stack: HloValue, written: HloValue) -> None:
        """Write a value to row `at` of a stack; `written` is the stack afterwards."""
        self._stacks_of_results[len(self.results)] = stack
        self._write(y, written, at)

    @property
    def moves(self) -> int:
        """How many rows of stacks it reads and writes."""
        places = [*self._inputs(), *[place for *_, place in self._outputs]]
        return sum([place.at is not None for place in places])

    def call(self, states: dict[HloValue, HloValue]) -> HloInstruction:
        """Return the call. `states` maps results to values whose memory they may take, since
        nothing reads these afterwards."""
        inputs = self._inputs()
        numbers = dict.fromkeys([x for x in self._given() if isinstance(x, Number)])
        given: list[Operand] = [*inputs, *numbers]
        slots = {x: i for i, x in enumerate(given)}
        steps, count = self._numbered_steps(slots)
        places = [*inputs, *[place for *_, place in self._outputs]]
        ats = [p.at for p in places if p.at is not None]
        values = [*[p.base for p in inputs], *self._stacks_of_results.values(), *ats]
        operands = {x: i for i, x in enumerate(dict.fromkeys(values))}
        in_place = {k: operands[x] for k, x in self._stacks_of_results.items()}
        for k, y in enumerate(self.results):
            x = states.get(y)
            if x in operands and all(p == self._plain(x) for p in inputs if p.base is x):
                in_place[k] = operands[x]
        self.b.kernel(
            "vector_program", *operands, out=tuple([y.type for y in self.results]),
            in_place=in_place, sizes=(self.rows, self.columns, count),
            inputs=_flat([(operands[p.base], *_row_of(p, operands), p.offset, p.row, p.column,
                           self._next_row(p)) for p in inputs]),
            constants=tuple([x.bits for x in numbers]),
            steps=_flat(steps),
            outputs=_flat([(slots[y], k, *_row_of(p, operands), p.offset, p.row)
                           for y, k, p in self._outputs]),
        )  # fmt: skip
        return dataclasses.replace(self.b.instructions.pop(), results=tuple(self.results))

    def _next_row(self, place: Place) -> int:
        """The distance to the row of the next iteration; 0 where there is none."""
        if place.at is None:
            return 0
        backward = place.at.made_by is not None and place.at.made_by.name == "subtract"
        return (-1 if backward else 1) * math.prod(place.base.shape[1:])

    def _operand(self, x: HloValue) -> Operand:
        if x in self.steps:
            return x
        number = _number_of(x)
        return self._place(x) if number is None else number

    def _place(self, x: HloValue) -> Place:
        base, offset, strides = self.b.strided(x)
        leading = merged_dims(list(zip(x.shape[:-1], strides[:-1], strict=True)))
        if len(leading) > 1 or strides[-1] > 1:
            base, offset, leading, strides = x, 0, [], (1,)
        row = leading[0][1] if leading else self.columns
        place = Place(base, None, offset, row, strides[-1])
        if base in self.stacks:
            return place._replace(base=self.stacks[base], at=self.iteration)
        return place

    def _plain(self, x: HloValue) -> Place:
        return Place(x, None, 0, self.columns, 1)

    def _write(self, y: HloValue, target: HloValue, at: HloValue | None) -> None:
        for part, start in self.joins.get(y) or [(y, 0)]:
            place = Place(target, at, start, y.shape[-1], 1)
            self._outputs.append((self._operand(part), len(self.results), place))
        self.results.append(target)

    def _given(self) -> list[Operand]:
        """Return what is not the result of a step."""
        used = [x for _, *xs in self.steps.values() for x in xs]
        return [x for x in (*used, *[y for y, *_ in self._outputs]) if not isinstance(x, HloValue)]

    def _inputs(self) -> list[Place]:
        return list(dict.fromkeys([x for x in self._given() if isinstance(x, Place)]))

    def _numbered_steps(self, slots: dict[Operand, int]) -> tuple[list[tuple[int, ...]], int]:
        """Return the steps, and how many slots for values they need; add their own to `slots`."""
        last = {x: y for y, (_, *xs) in self.steps.items() for x in xs}
        kept = {y for y, *_ in self._outputs}
        free: list[int] = []
        count = len(slots)
        steps = []
        for y, (name, *xs) in self.steps.items():
            places = [slots[x] for x in xs]
            over = {x for x in xs if isinstance(x, HloValue) and last[x] is y} - kept
            free += sorted([slots[x] for x in over])
            if not free:
                free.append(count)
                count += 1
            slots[y] = free.pop()
            steps.append((STEPS.index(name), slots[y], *places))
        return steps, count


def _row_of(place: Place, operands: dict[HloValue, int]) -> tuple[int, int]:
    """The operand that says which row of a stack it is, or -1, and the elements of a row."""
    if place.at is None:
        return -1, 0
    return operands[place.at], math.prod(place.base.shape[1:])


def _number_of(x: HloValue) -> Number | None:
    """The number that is everywhere in `x`, if that is known."""
    while (made := x.made_by) is not None and made.name in ("broadcast_in_dim", "reshape"):
        x = made.operands[0]
    if made is None or made.array is None or made.array.size != 1:
        return None
    return Number(int(made.array.astype(np.float64).view(np.int64).reshape(())))


def _flat(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple([n for row in rows for n in row])
