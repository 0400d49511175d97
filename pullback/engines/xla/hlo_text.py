"""Compiled programs as XLA prints them: which ops of the user each instruction computes.

XLA fuses instructions, so one that it runs may compute several ops. Its time is shared among them
in proportion to an estimate of their work: elements, times what an element costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

# An instruction: name, type, opcode, and the operands with all attributes.
_INSTRUCTION = re.compile(r"\s*(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)")
_COMPUTATION = re.compile(r"(ENTRY )?%?([\w.-]+) \(.*\{\s*$")
_SHAPE = re.compile(r"\b[a-z]+[0-9][a-z0-9]*\[([0-9,]*)\]|\bpred\[([0-9,]*)\]")
_NAME = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"\bcalls=%?([\w.-]+)")
_NUMBER = re.compile(r'op_name="(?:[^"]*/)?pullback/([0-9]+)/[^"]*"')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([0-9,]*)\}")
# They run other instructions, which the profiler shows as well.
CONTAINERS = frozenset(["while", "conditional", "call", "async-start"])
_FREE = frozenset([
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "broadcast", "iota",
])  # fmt: skip
_COSTS = {
    "divide": 4, "sqrt": 4, "rsqrt": 4, "remainder": 8, "exponential": 8, "logistic": 10,
    "tanh": 10, "exponential-minus-one": 10, "log": 10, "log-plus-one": 12, "erf": 12, "cbrt": 12,
    "sine": 16, "cosine": 16, "tan": 20, "atan2": 20, "power": 20,
}  # fmt: skip


class HloPart(NamedTuple):
    """A share of an instruction's time: the number of an op; an instruction that XLA added itself,
    such as a copy, has its own name as `added`, and the op that it serves, if there is one."""

    number: int | None
    added: str
    share: float


class HloLine(NamedTuple):
    """An instruction; `rest` is the text behind its opcode."""

    name: str
    type: str
    opcode: str
    rest: str

    @property
    def number(self) -> int | None:
        found = _NUMBER.search(self.rest)
        return int(found[1]) if found else None

    @property
    def called(self) -> str | None:
        found = _CALLED.search(self.rest) if self.opcode == "fusion" else None
        return found[1] if found else None

    @property
    def operands(self) -> list[str]:
        return _NAME.findall(self.rest.partition(")")[0])


class HloText:
    """The instructions of a compiled program."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, list[HloLine]] = {}
        self.lines: dict[str, HloLine] = {}
        body: list[HloLine] = []
        for line in text.splitlines():
            if found := _INSTRUCTION.match(line):
                made = HloLine(*found.groups())
                body.append(made)
                self.lines[made.name] = made
            elif found := _COMPUTATION.match(line):
                body = self.computations[found[2]] = []
        self._parts: dict[str, list[HloPart]] = {}

    def is_container(self, name: str) -> bool:
        """Whether an instruction runs others, such as a loop."""
        line = self.lines.get(name)
        return line is not None and line.opcode in CONTAINERS

    def parts(self, name: str) -> list[HloPart]:
        """Return the ops that an instruction computes, with their shares of its time."""
        if name not in self._parts:
            self._parts[name] = self._shared(name)
        return self._parts[name]

    def _shared(self, name: str) -> list[HloPart]:
        line = self.lines.get(name)
        if line is None:
            return [HloPart(None, name, 1.0)]
        work: dict[int, float] = {}
        for inner, cost in self._work(line):
            if inner.number is not None:
                work[inner.number] = work.get(inner.number, 0.0) + cost
        total = math.fsum(work.values())
        if total > 0:
            return [HloPart(number, "", cost / total) for number, cost in work.items() if cost]
        if line.number is not None:
            return [HloPart(line.number, "", 1.0)]
        return [HloPart(self._served(line), line.opcode, 1.0)]

    def _work(self, line: HloLine) -> Iterator[tuple[HloLine, float]]:
        """Yield the instructions inside one, however nested, with estimates of their work."""
        stack = [line]
        while stack:
            here = stack.pop()
            inner = self.computations.get(here.called or "")
            if inner:
                stack += inner
            else:
                yield here, self._cost(here)

    def _cost(self, line: HloLine) -> float:
        if line.opcode in _FREE:
            return 0.0
        size = _hlo_elements(line.type)
        read = [_hlo_elements(self.lines[x].type) for x in line.operands if x in self.lines]
        if line.opcode == "dot" and read:
            return 2.0 * size * self._contracted(line)
        if line.opcode == "convolution" and len(read) == 2:
            return 2.0 * size * max(1.0, read[1] / max(1, _last_hlo_extent(line.type)))
        if line.opcode in ("reduce", "reduce-window", "sort", "scatter", "custom-call"):
            return float(max([size, *read]))
        return float(size * _COSTS.get(line.opcode, 1))

    def _contracted(self, line: HloLine) -> int:
        dims, left = _CONTRACTED.search(line.rest), self.lines.get(line.operands[0])
        if dims is None or left is None or not dims[1]:
            return 1
        extents = _hlo_shapes(left.type)[0]
        return math.prod([extents[int(d)] for d in dims[1].split(",")])

    def _served(self, line: HloLine) -> int | None:
        """Return the op that made the operand of an instruction, or else the op that uses it."""
        for neighbours in (self._operands, self._users):
            seen, stack = {line.name}, [line.name]
            for name in stack:  # grows while iterated
                for other in neighbours.get(name, ()):
                    found = self.lines.get(other)
                    if found is not None and found.number is not None:
                        return found.number
                    if other not in seen and len(stack) < 64:
                        seen.add(other)
                        stack.append(other)
        return None

    @cached_property
    def _operands(self) -> dict[str, list[str]]:
        return {name: line.operands for name, line in self.lines.items()}

    @cached_property
    def _users(self) -> dict[str, list[str]]:
        made: dict[str, list[str]] = {}
        for name, operands in self._operands.items():
            for x in operands:
                made.setdefault(x, []).append(name)
        return made


def _hlo_shapes(type: str) -> list[list[int]]:
    found = [a or b for a, b in _SHAPE.findall(type)]
    return [[int(n) for n in text.split(",") if n] for text in found]


def _hlo_elements(type: str) -> int:
    return sum(math.prod(shape) for shape in _hlo_shapes(type))


def _last_hlo_extent(type: str) -> int:
    shapes = _hlo_shapes(type)
    return shapes[0][-1] if shapes and shapes[0] else 1
