"""StableHLO as graphs: one op for each instruction, chosen by how the ops are lowered.

An op class names the `instructions` that it may be lowered to, and its `from_hlo` makes the op
from one. Whether it is the right one is not taken on trust: it is lowered, and must give the very
instruction. So writing the graph gives the program that was read.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from pullback.engines.xla import mlir
from pullback.engines.xla.instructions import Block, HloInstruction, normal
from pullback.errors import PullbackError
from pullback.graph import table
from pullback.graph.graph import Graph
from pullback.graph.node import Node, results
from pullback.graph.table import TABLE
from pullback.graph.types import Type
from pullback.interop.stablehlo.foreign import in_our_words
from pullback.interop.stablehlo.writer import Unchecked, lowered
from pullback.ops.elementwise.base import Elementwise
from pullback.ops.imported import from_hlo
from pullback.ops.sources import Const, Input
from pullback.static.module import Module

Key = tuple[Any, ...]


def from_stablehlo(program: str | bytes) -> Module:
    """The module that a StableHLO program, as text or portable bytes, says.

    It reads the instructions that `to_stablehlo` writes; any other raises and is named.

    >>> import pullback as pb
    >>> text = pb.ir.to_stablehlo(pb.trace(lambda x: pb.exp(x) * x, pb.tensor([1.0])).graph)
    >>> print(pb.ir.from_stablehlo(text))
    %0 = Input() {name: "x"} : Tensor<f32, [1]>
    %1 = Exp(%0) : Tensor<f32, [1]>
    %2 = BinOp(Mul, %1, %0) : Tensor<f32, [1]>
    outputs: %2
    """
    return Module.from_graph(read_graph(program))


def read_graph(program: str | bytes) -> Graph:
    block = normal(in_our_words(mlir.read(program)))
    names = _distinct(block.names)
    inputs = [Input(n, t.shape, t.dtype)() for n, t in zip(names, block.types, strict=True)]
    return Graph(inputs, _Scope(block, inputs).results(), names)


def _distinct(given: Sequence[str | None]) -> list[str]:
    """The arguments' names; one without a name, or with that of another, is named by position."""
    made: list[str] = []
    for i, name in enumerate(given):
        made.append(name if name and name not in made else f"x{i}")
    return made


class _Scope:
    """A block whose instructions become nodes."""

    def __init__(self, block: Block, inputs: Sequence[Node], around: Any = None) -> None:
        self.block = block
        self.nodes: dict[int, Node] = dict(around or {})
        self.nodes.update(zip(block.arguments, inputs, strict=True))

    def results(self) -> tuple[Node, ...]:
        for i in self.block.instructions:
            made = self.apply(i)
            several = results(made) if isinstance(made.type, tuple) else (made,)
            self.nodes.update(zip(i.results, several, strict=True))
        return tuple([self.nodes[y] for y in self.block.results])

    def apply(self, i: HloInstruction) -> Node:
        if i.array is not None:
            (kind,) = i.types
            return Const(kind.dtype, kind.shape, i.array.tobytes())()
        captured = list(dict.fromkeys(_inner(i)))
        values = [self.nodes[x] for x in captured]
        graphs = tuple([_held(r, captured, values) for r in i.regions])
        sought = _Sought(dataclasses.replace(i, graphs=graphs), captured, values, self.constants)
        op = sought.op()
        return op(*[self.nodes[i.operands[p]] for p in _places(op, i)], *values)

    @functools.cached_property
    def constants(self) -> dict[int, Key]:
        return {i.results[0]: _constant(i) for i in self.block.instructions if i.array is not None}


def _held(region: Block, captured: Sequence[int], values: Sequence[Node]) -> Graph:
    """A region as a graph over its arguments and the values from outside that it uses."""
    types = [*region.types, *[v.type for v in values]]
    inputs = [Input(f"x{n}", t.shape, t.dtype)() for n, t in enumerate(types)]
    own, others = inputs[: len(region.types)], inputs[len(region.types) :]
    outputs = _Scope(region, own, zip(captured, others, strict=True)).results()
    return Graph(inputs, outputs)


def _free(block: Block) -> list[int]:
    """The values from outside that a block uses, in the order of use."""
    inside = {*block.arguments, *[r for i in block.instructions for r in i.results]}
    used = [x for i in block.instructions for x in (*i.operands, *_inner(i))]
    return [x for x in dict.fromkeys([*used, *block.results]) if x not in inside]


def _inner(i: HloInstruction) -> list[int]:
    return [x for region in i.regions for x in _free(region)]


# -- which op an instruction is -------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def readers(version: int) -> dict[str, list[Any]]:
    """For each instruction the op classes that may be it, in the order in which they are asked."""
    found: dict[str, list[Any]] = {}
    for last in (False, True):
        for cls in TABLE.values():
            words = cls.imported.instructions
            if not words and issubclass(cls, Elementwise) and cls.stablehlo:
                words = (cls.stablehlo,)
            for word in words if cls.imported.last is last else ():
                found.setdefault(word, []).append(cls)
    return found


class _Sought:
    """An instruction whose op is sought: its own, or one of the values around its regions."""

    def __init__(
        self,
        i: HloInstruction,
        captured: Sequence[int],
        values: Sequence[Node],
        constants: dict[int, Key],
    ) -> None:
        self.i, self.captured, self.constants = i, captured, constants
        self.outside = tuple([v.type for v in values])

    def op(self) -> Any:
        for cls in readers(table.version).get(self.i.name, ()):
            try:
                op = from_hlo(cls, self.i)
            except (PullbackError, KeyError):  # parameters do not fit, an attribute is missing
                continue
            if op is not None and self._is_lowered(op):
                return op
        raise mlir.unsupported(f"stablehlo.{self.i.name}", self.i.where, _told(self.i))

    def _is_lowered(self, op: Any) -> bool:
        """Whether the op is lowered to this very instruction."""
        i = self.i
        places = _places(op, i)
        count = len(places)
        wanted = _lowering(op, (*[i.operand_types[p] for p in places], *self.outside))
        if wanted is None or any(x not in self.constants for x in i.operands[count:]):
            return False
        given: list[Key] = [("in", places.index(p)) for p in range(count)]
        given += [self.constants[x] for x in i.operands[count:]]
        known: dict[int, Key] = {x: ("in", count + n) for n, x in enumerate(self.captured)}
        return _key(i, given, known) == wanted


def _told(i: HloInstruction) -> str:
    """What an instruction is applied to, and its attributes, one of which may be the trouble."""
    said = f"It is applied to {', '.join(map(str, i.operand_types)) or 'nothing'}"
    attributes = ", ".join([f"{k} = {v}" for k, v in i.attributes.items()])
    return f"{said}{f' with {attributes}' if attributes else ''}."


def _places(op: Any, i: HloInstruction) -> Sequence[int]:
    """Which operands of the instruction the op takes: not those that are its own constants."""
    return op.imported.taken or range(len(i.operands) - op.imported.implied)


@functools.lru_cache(maxsize=4096)
def _lowering(op: Any, types: tuple[Type, ...]) -> Key | None:
    """What an op is lowered to, if that is one instruction, constants apart, and no check."""
    inputs = [Input(f"x{n}", t.shape, t.dtype)() for n, t in enumerate(types)]
    builder = Unchecked()
    try:
        made = op(*inputs)
        outputs = results(made) if isinstance(made.type, tuple) else (made,)
        block = lowered(Graph(inputs, outputs), builder)
    except PullbackError:
        return None
    known: dict[int, Key] = {a: ("in", n) for n, a in enumerate(block.arguments)}
    rest = []
    for i in block.instructions:
        if i.array is not None:
            known[i.results[0]] = _constant(i)
        else:
            rest.append(i)
    if builder.asked or len(rest) != 1 or rest[0].results != block.results:
        return None
    return _key(rest[0], [known[x] for x in rest[0].operands], known)


def _key(i: HloInstruction, operands: Sequence[Key], known: dict[int, Key]) -> Key:
    """All that an instruction says, whatever numbers its values have."""
    regions = tuple([_block_key(r, known) for r in i.regions])
    # Not the precision: ours is the highest that has an effect, so at least the one asked for.
    attributes = tuple([(k, v) for k, v in i.attributes.items() if k != "precision_config"])
    return i.name, attributes, i.types, tuple(operands), regions


def _block_key(block: Block, around: dict[int, Key]) -> Key:
    known = dict(around)
    count = 0

    def name(values: Sequence[int]) -> None:
        nonlocal count
        for v in values:
            known[v] = ("here", count)
            count += 1

    name(block.arguments)
    parts: list[Key] = []
    for i in block.instructions:
        if i.array is not None:
            known[i.results[0]] = _constant(i)
        else:
            parts.append(_key(i, [known[x] for x in i.operands], known))
            name(i.results)
    return block.types, tuple(parts), tuple([known[y] for y in block.results])


def _constant(i: HloInstruction) -> Key:
    assert i.array is not None
    return "constant", i.types, i.array.tobytes()
