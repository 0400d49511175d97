"""Linking: build the graph of a module and verify it on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from pullback.errors import PullbackError, TextPosition, VerificationError
from pullback.graph.graph import Graph
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type, show_types
from pullback.ops.sources import Const, Input
from pullback.static.instructions import Instruction, InstructionList
from pullback.static.profiles import PROFILES, StaticProfile
from pullback.static.verify import verified_shape_and_dtype, verify_count


def link_module(module: InstructionList, verify: bool = True) -> tuple[Graph, dict[int, Node]]:
    """The graph of a module, and the node of each of its values.

    Without `verify`, the declared types are trusted, and the module may be wrong.
    """
    linker = _Linker(module, PROFILES[module.profile], verify)
    linker.check_names()
    return linker.graph, linker.values


class _Linker:
    """One walk over the instructions, in their order."""

    def __init__(
        self, module: InstructionList, profile: StaticProfile, verify: bool, inner: bool = False
    ) -> None:
        self.module, self.profile, self.verify, self.is_inner = module, profile, verify, inner
        self.values: dict[int, Node] = {}
        self.inputs: list[Node] = []
        self.names: list[str] = []
        self.known: set[Type] = set()  # types that the profile is known to have
        for index, instruction in enumerate(module.instructions):
            self.index, self.now = index, instruction
            try:
                self.define(instruction)
            except PullbackError as error:
                if "instruction" in error.values:
                    raise  # it has the place in an inner graph
                self.fail(error)
        for k, y in enumerate(module.outputs):
            if y not in self.values:
                placed = module.end._asdict() if module.end else {}
                raise VerificationError(
                    f"output {k} is %{y}, which is not defined",
                    code="E4003", where=module.end, output=k, value=y, **placed,
                )  # fmt: skip
        outputs = [self.values[y] for y in module.outputs]
        self.graph = Graph(self.inputs, outputs, self.names)

    def fail(self, error: PullbackError) -> NoReturn:
        """Raise the error with the place of the current instruction."""
        i = self.now
        where = TextPosition(i.line, i.column) if i.line else None
        placed = {"line": i.line, "column": i.column} if i.line else {}
        name = i.op if len(i.op) <= 40 else f"{i.op[:37]}..."
        known: dict[str, Any] = {"instruction": self.index, "value": i.results[0], **placed}
        raise VerificationError(
            f"instruction {self.index} ({name}): {error.message}",
            code=error.code, hint=error.hint, where=where, **{**error.values, **known},
        ) from error.__cause__  # fmt: skip

    def check_names(self) -> None:
        seen: dict[str, int] = {}
        for k, i in enumerate(self.module.instructions):
            if i.op == "Input" and seen.setdefault(i.name, k) != k:
                self.index, self.now = k, i
                what = f'the name "{i.name}" is taken by instruction {seen[i.name]}'
                self.fail(VerificationError(what, code="E4004", name=i.name))

    def define(self, i: Instruction) -> None:
        for r in i.results:
            if r in self.values:
                raise VerificationError(f"%{r} is defined twice", code="E4002")
        if len(set(i.results)) < len(i.results):
            raise VerificationError("it defines a value twice", code="E4002")
        xs = self.operands(i)
        made = self.made(i, xs)
        nodes = result_nodes(made) if isinstance(made.type, tuple) else (made,)
        self.check_results(i, tuple([n.type for n in nodes]))
        self.values.update(zip(i.results, nodes, strict=True))

    def operands(self, i: Instruction) -> tuple[Node, ...]:
        values = self.values
        for k, x in enumerate(i.operands):
            if x not in values:
                what = f"operand {k} is %{x}, which is used before it is defined"
                raise VerificationError(what, code="E4001", operand=k, used=x)
        return tuple([values[x] for x in i.operands])

    def made(self, i: Instruction, xs: tuple[Node, ...]) -> Node:
        """The node of an instruction."""
        if i.problem is not None:
            self.fail(i.problem)
        if i.op == "Copy":
            return xs[0]
        if i.op == "Input" or i.literal is not None:
            return self.source(i, xs)
        cls = TABLE.get(i.op)
        if cls is None or not cls.text.profile:
            raise VerificationError("there is no such instruction", code="E6003")
        if problem := verify_count(cls, len(xs)):
            raise VerificationError(problem, code="E2007", operands=len(xs))
        types = tuple([x.type for x in xs])
        try:
            op = cls.text.read(cls, types, **{k: self.inner(v) for k, v in i.parameters.items()})
            if self.verify:
                self.profile.check_op(op, types)
                type = op.type_of(*types)
            else:
                type = i.types if len(i.types) > 1 else i.types[0]
        except PullbackError:
            raise
        except Exception as error:  # a rule that does not expect such parameters
            what = f"it does not take these parameters: {error}"
            raise VerificationError(what, code="E2001") from error
        return Node(op, xs, type, self.where)

    def source(self, i: Instruction, xs: Sequence[Node]) -> Node:
        if xs:
            what = f"it takes 0 operands, got {len(xs)}"
            raise VerificationError(what, code="E2007", operands=len(xs))
        if len(i.types) != 1:
            raise VerificationError(f"it has one result, got {len(i.types)} types", code="E2001")
        type = i.types[0]
        self.check_types(i.types)
        if i.op == "Input":
            if not i.name:
                raise VerificationError("an input needs a name", code="E4004")
            made = Node(Input(i.name, type.shape, type.dtype), (), type, self.where)
            self.inputs.append(made)
            self.names.append(i.name)
            return made
        array: np.ndarray = i.literal
        self.profile.check_literal(array)
        return Node(Const(type.dtype, type.shape, array.tobytes()), (), type, self.where)

    def inner(self, value: Any) -> Any:
        """A parameter; inner graphs are linked."""
        if isinstance(value, InstructionList):
            return _Linker(value, self.profile, self.verify, inner=True).graph
        return tuple([self.inner(v) for v in value]) if type(value) is tuple else value

    @property
    def where(self) -> TextPosition | None:
        """The place of a node. Inner graphs have none, so that loops are equal wherever written."""
        line = 0 if self.is_inner else self.now.line
        return TextPosition(line, self.now.column) if line else None

    def check_types(self, types: Sequence[Type]) -> None:
        """Require that the profile has the types."""
        for t in types:
            if t not in self.known:
                self.profile.check_type(t)
                self.known.add(t)

    def check_results(self, i: Instruction, types: tuple[Type, ...]) -> None:
        if len(i.results) != len(types):
            what = f"it has {len(types)} results, got {len(i.results)}"
            raise VerificationError(what, code="E2007", results=len(types))
        if not self.verify:
            return
        self.check_types(types)
        if i.types == types or (i.op == "Copy" and not i.types):
            return
        self.check_types(i.types)
        if verified_shape_and_dtype(i.types) != verified_shape_and_dtype(types):
            message = (
                f"declared type is {show_types(i.types)}, its operands give {show_types(types)}"
            )
            raise VerificationError(message, code="E2001", declared=i.types, inferred=types)
