"""Read StableHLO as graphs: one op for each instruction.

An op class lists the `instructions` that it may be lowered to, and its `from_hlo` makes the op
from one. To verify the choice, the op is lowered and must give the same instruction. So writing
the graph gives the program that was read.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pullback.engines.xla import hlo_instructions, mlir
from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue, Key
from pullback.errors import PullbackError
from pullback.graph import op_table
from pullback.graph.graph import Graph
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.interop.stablehlo.foreign import rewrite_foreign
from pullback.interop.stablehlo.writer import UncheckedStableHloWriter, written_stablehlo
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.imported import imported_op
from pullback.ops.sources import Const, Input
from pullback.static.catalogue import catalogued
from pullback.static.module import IRModule


@catalogued
def from_stablehlo(program: str | bytes) -> IRModule:
    """Read a StableHLO program, given as text or portable bytes, as a module.

    It reads the instructions that `to_stablehlo` writes; any other raises an error that names it.

    >>> import pullback as pb
    >>> text = pb.ir.to_stablehlo(pb.trace(lambda x: pb.exp(x) * x, pb.tensor([1.0])).graph)
    >>> print(pb.ir.from_stablehlo(text))
    %0 = Input() {name: "x"} : Tensor<f32, [1]>
    %1 = Exp(%0) : Tensor<f32, [1]>
    %2 = BinOp(Mul, %1, %0) : Tensor<f32, [1]>
    outputs: %2
    """
    return IRModule.from_graph(read_stablehlo_graph(program))


def read_stablehlo_graph(program: str | bytes) -> Graph:
    block = hlo_instructions.normal_hlo_instructions(rewrite_foreign(mlir.read_mlir(program)))
    names = _read_stablehlo_names(block.names)
    inputs = [Input(n, t.shape, t.dtype)() for n, t in zip(names, block.types, strict=True)]
    return Graph(inputs, _ReaderScope(block, inputs).results(), names)


def _read_stablehlo_names(given: Sequence[str | None]) -> list[str]:
    """The names of the arguments; those without a unique name are named by position."""
    made: list[str] = []
    for i, name in enumerate(given):
        made.append(name if name and name not in made else f"x{i}")
    return made


class _ReaderScope:
    """Makes nodes of the instructions of a block; `outer` has the nodes around it."""

    def __init__(
        self, block: HloBlock, inputs: Sequence[Node], outer: Iterable[tuple[HloValue, Node]] = ()
    ) -> None:
        self.block = block
        self.nodes: dict[HloValue, Node] = dict(outer)
        self.nodes.update(zip(block.arguments, inputs, strict=True))

    def results(self) -> tuple[Node, ...]:
        for i in self.block.instructions:
            made = self.apply(i)
            several = result_nodes(made) if isinstance(made.type, tuple) else (made,)
            self.nodes.update(zip(i.results, several, strict=True))
        return tuple([self.nodes[y] for y in self.block.results])

    def apply(self, i: HloInstruction) -> Node:
        if i.array is not None:
            (kind,) = i.types
            return Const(kind.dtype, kind.shape, i.array.tobytes())()
        outer = hlo_instructions.captured_by_hlo_instruction(i)
        values = [self.nodes[x] for x in outer]
        graphs = tuple([_read_region_graph(r, outer, values) for r in i.regions])
        op = self.find_op(replace(i, graphs=graphs), outer)
        return op(*[self.nodes[i.operands[p]] for p in _stablehlo_reader_operands(op, i)], *values)

    def find_op(self, i: HloInstruction, outer: Sequence[HloValue]) -> Any:
        """The op that is lowered to an instruction whose regions capture `outer`."""
        for cls in stablehlo_readers(op_table.version).get(i.name, ()):
            try:
                op = imported_op(cls, i)
            except (PullbackError, KeyError):  # parameters do not fit, an attribute is missing
                continue
            if op is not None and self.is_lowered_to(op, i, outer):
                return op
        raise mlir.unsupported_mlir(f"stablehlo.{i.name}", i.where, _describe_unread_instruction(i))

    def is_lowered_to(self, op: Any, i: HloInstruction, outer: Sequence[HloValue]) -> bool:
        positions = _stablehlo_reader_operands(op, i)
        count = len(positions)
        types = [*[i.operands[p].type for p in positions], *[x.type for x in outer]]
        wanted = _stablehlo_reader_key(op, tuple(types))
        if wanted is None or any(x not in self.constants for x in i.operands[count:]):
            return False
        given: list[Key] = [("in", positions.index(p)) for p in range(count)]
        given += [self.constants[x] for x in i.operands[count:]]
        known: dict[HloValue, Key] = {x: ("in", count + n) for n, x in enumerate(outer)}
        return hlo_instructions.hlo_instruction_key(i, given, known) == wanted

    @functools.cached_property
    def constants(self) -> dict[HloValue, Key]:
        return _stablehlo_reader_constants(self.block)


def _read_region_graph(
    region: HloBlock, outer: Sequence[HloValue], values: Sequence[Node]
) -> Graph:
    """A region as a graph over its arguments and the `outer` values that it uses."""
    types = [*region.types, *[v.type for v in values]]
    inputs = [Input(f"x{n}", t.shape, t.dtype)() for n, t in enumerate(types)]
    own, others = inputs[: len(region.types)], inputs[len(region.types) :]
    outputs = _ReaderScope(region, own, zip(outer, others, strict=True)).results()
    return Graph(inputs, outputs)


@functools.lru_cache(maxsize=1)
def stablehlo_readers(version: int) -> dict[str, list[Any]]:
    """For each instruction, the op classes that may be lowered to it, in the order to try."""
    found: dict[str, list[Any]] = {}
    for last in (False, True):
        for cls in TABLE.values():
            words = cls.imported.instructions
            if not words and issubclass(cls, Elementwise) and cls.stablehlo:
                words = (cls.stablehlo,)
            for word in words if cls.imported.last is last else ():
                found.setdefault(word, []).append(cls)
    return found


def _describe_unread_instruction(i: HloInstruction) -> str:
    """An instruction's operand types and attributes, for the error that it cannot be read."""
    types = ", ".join(map(str, i.operand_types)) or "nothing"
    attributes = ", ".join([f"{k} = {v}" for k, v in i.attributes.items()])
    return f"It is applied to {types}{f' with {attributes}' if attributes else ''}."


def _stablehlo_reader_operands(op: Any, i: HloInstruction) -> Sequence[int]:
    """The positions of the instruction's operands that the op takes: its own constants are not."""
    return op.imported.taken or range(len(i.operands) - op.imported.implied)


@functools.lru_cache(maxsize=4096)
def _stablehlo_reader_key(op: Any, types: tuple[Type, ...]) -> Key | None:
    """The key of the instruction that an op is lowered to.

    None if it is lowered to several, constants aside, or needs a run-time check.
    """
    inputs = [Input(f"x{n}", t.shape, t.dtype)() for n, t in enumerate(types)]
    builder = UncheckedStableHloWriter()
    try:
        made = op(*inputs)
        outputs = result_nodes(made) if isinstance(made.type, tuple) else (made,)
        block = written_stablehlo(Graph(inputs, outputs), builder)
    except PullbackError:
        return None
    rest = [i for i in block.instructions if i.array is None]
    if builder.asked or len(rest) != 1 or rest[0].results != block.results:
        return None
    known = {a: ("in", n) for n, a in enumerate(block.arguments)} | _stablehlo_reader_constants(
        block
    )
    return hlo_instructions.hlo_instruction_key(
        rest[0], [known[x] for x in rest[0].operands], known
    )


def _stablehlo_reader_constants(block: HloBlock) -> dict[HloValue, Key]:
    return {
        i.results[0]: hlo_instructions.constant_hlo_instruction_key(i)
        for i in block.instructions
        if i.array is not None
    }
