"""Modules: programs of the static IR, and what can be done with one without running it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, overload

from pullback.errors import ArgumentError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.canonical import canonicalise_all
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.sources import Result
from pullback.static.catalogue import catalogued
from pullback.static.fingerprints import fingerprint as fingerprint_graph
from pullback.static.flatten_graph import flatten_graph
from pullback.static.instructions import InstructionList
from pullback.static.link import link_module
from pullback.static.text import static_module_text
from pullback.static.verify import verify as verify_graph


class IRModule(InstructionList):
    """A program in the static IR, made by `pb.ir.parse` or `Module.from_graph`.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0])
    >>> module = pb.ir.Module.from_graph(pb.trace(lambda x: x * x, x).graph)
    >>> print(module)
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = BinOp(Mul, %0, %0) : Tensor<f32, [2]>
    outputs: %1
    >>> module == pb.ir.parse(module.text())
    True
    """

    @classmethod
    def from_graph(cls, graph: Graph, profile: str | None = None) -> IRModule:
        """The module of a graph, by default in the smallest profile that fits."""
        made, _ = flatten_graph(graph, profile)
        return cls(made.instructions, made.outputs, made.profile)

    @cached_property
    @catalogued
    def _linked(self) -> tuple[Graph, dict[int, Node]]:
        return link_module(self)

    @property
    def graph(self) -> Graph:
        """The program as a graph; raises an error if the module is invalid."""
        return self._linked[0]

    @property
    def values(self) -> dict[int, Node]:
        """The node in `graph` of each value."""
        return self._linked[1]

    def text(self) -> str:
        """The module as text, in the standard layout."""
        return self._text

    @cached_property
    def _text(self) -> str:
        return static_module_text(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IRModule) and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.text())

    def __repr__(self) -> str:
        return self.text()


def require_static_module(name: str, module: Any) -> IRModule:
    """The module passed to the function `name`; raises an error if it is something else."""
    if isinstance(module, IRModule):
        return module
    is_graph = isinstance(module, Graph)
    hint = f"{'Module.from_graph makes' if is_graph else 'pb.ir.parse reads'} one."
    raise ArgumentError(f"{name}: needs a Module, got {type(module).__name__}", hint=hint)


@catalogued
def verify(module: IRModule | Graph) -> None:
    """Raise an error with a code of the catalogue if a module is invalid.

    >>> import pullback as pb
    >>> module = pb.ir.parse('''
    ... %0 = Input() {name: "x"} : Tensor<f32, [2, 3]>
    ... %1 = Reshape(%0, [3, 3]) : Tensor<f32, [3, 3]>
    ... outputs: %1
    ... ''')
    >>> try:
    ...     pb.ir.verify(module)
    ... except pb.PullbackError as error:
    ...     print(error.code, error.where)
    E3007 line 3, column 1
    """
    if isinstance(module, Graph):
        verify_graph(module)
    else:
        _ = require_static_module("verify", module).graph


@overload
def canonicalise(module: IRModule, with_map: Literal[False] = False) -> IRModule: ...
@overload
def canonicalise(module: IRModule, with_map: Literal[True]) -> tuple[IRModule, dict[int, int]]: ...
@with_argument_checks
def canonicalise(
    module: IRModule, with_map: bool = False
) -> IRModule | tuple[IRModule, dict[int, int]]:
    """The canonical form: no copies, dead code or repeated work, dense numbers, sorted operands.

    With `with_map`, also a dict from old to new values, without those that were dropped.

    >>> import pullback as pb
    >>> module = pb.ir.parse('''
    ... %3 = Input() {name: "x"} : Tensor<f32, [2]>
    ... %5 = %3
    ... %7 = Exp(%3) : Tensor<f32, [2]>
    ... %8 = Sum(%5, [-1], false) : Tensor<f32, []>
    ... outputs: %8
    ... ''')
    >>> made, places = pb.ir.canonicalise(module, with_map=True)
    >>> print(made)
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = Sum(%0, [0], false) : Tensor<f32, []>
    outputs: %1
    >>> places
    {3: 0, 5: 0, 8: 1}
    """
    graph, places = canonicalise_all(require_static_module("canonicalise", module).graph)
    flat, (numbers, several) = flatten_graph(graph, module.profile)
    made = IRModule(flat.instructions, flat.outputs, flat.profile)
    if not with_map:
        return made
    found: dict[int, int] = {}
    for i, node in module.values.items():
        if node in places:
            found[i] = numbers[places[node]]
        elif isinstance(node.op, Result) and node.inputs[0] in places:  # unused, but still there
            found[i] = several[places[node.inputs[0]]][node.op.index]
    return made, found


def fingerprint(module: IRModule | Graph) -> str:
    """The sha256 of the canonical form, which does not depend on names, numbers and lines.

    >>> import pullback as pb
    >>> one = pb.trace(lambda x, y: x * y, pb.tensor(1.0), pb.tensor(2.0)).graph
    >>> two = pb.trace(lambda a, b: b * a, pb.tensor(1.0), pb.tensor(2.0)).graph
    >>> pb.ir.fingerprint(one) == pb.ir.fingerprint(pb.ir.Module.from_graph(two))
    True
    """
    if not isinstance(module, Graph):
        module = require_static_module("fingerprint", module).graph
    return fingerprint_graph(module)
