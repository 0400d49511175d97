"""Modules: programs as a text states them, an ordered list of instructions, possibly wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, overload

from pullback.errors import ArgumentError, PullbackError, TextPosition
from pullback.graph.canonical import canonicalise_all
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.ops.sources import Result
from pullback.static.profiles import CORE, PROFILES

if TYPE_CHECKING:
    import numpy as np

_NOTHING: Mapping = {}


class Instruction(NamedTuple):
    """One line of a module.

    `op` is a name of the op table, a constant's (`ConstF32`, `ConstTensor` ...), `Input`, or
    `Copy` for `%8 = %7`. `operands` and `results` are numbers of values. `parameters` are those
    that have to be written, by name; graphs among them are modules. What is wrong with the line by
    itself is its `problem`, which linking raises. `line` is 0 where there is no text.
    """

    results: tuple[int, ...]
    op: str
    operands: tuple[int, ...] = ()
    parameters: Mapping[Any, Any] = _NOTHING
    types: tuple[Type, ...] = ()
    name: str = ""
    literal: np.ndarray | Any = None
    line: int = 0
    column: int = 0
    problem: PullbackError | None = None
    comment: str = ""


class Module:
    """A program in the static IR; `pb.ir.parse` and `Module.from_graph` make them.

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

    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    profile: str
    end: TextPosition | None  # where the text lists the outputs

    def __init__(
        self,
        instructions: Iterable[Instruction],
        outputs: Iterable[int],
        profile: str = CORE,
        end: TextPosition | None = None,
    ) -> None:
        if profile not in PROFILES:
            raise ArgumentError(f"the profile must be one of {', '.join(PROFILES)}, got {profile}")
        self.__dict__.update(
            instructions=tuple(instructions), outputs=tuple(outputs), profile=profile, end=end
        )

    @classmethod
    def from_graph(cls, graph: Graph, profile: str | None = None) -> Module:
        """The module that a graph is; without a profile, it has the smallest one that fits."""
        from pullback.static.flatten import flattened

        return flattened(graph, profile)[0]

    @cached_property
    def _linked(self) -> tuple[Graph, dict[int, Node]]:
        from pullback.static.link import link

        return link(self)

    @property
    def graph(self) -> Graph:
        """The program as a graph; raises what is wrong with it."""
        return self._linked[0]

    @property
    def values(self) -> dict[int, Node]:
        """The node of `graph` that each value is."""
        return self._linked[1]

    def text(self) -> str:
        """The one printed form."""
        return self._text

    @cached_property
    def _text(self) -> str:
        from pullback.static.text import module_text

        return module_text(self)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot change {name!r}: modules are frozen")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and self.text() == other.text()

    def __hash__(self) -> int:
        return hash(self.text())

    def __repr__(self) -> str:
        return self.text()


def require_module(name: str, module: Any) -> Module:
    """The module that a function called `name` was given, if it is one."""
    if isinstance(module, Module):
        return module
    is_graph = isinstance(module, Graph)
    raise ArgumentError(
        f"{name}: needs a Module, got {type(module).__name__}",
        hint=f"{'Module.from_graph makes' if is_graph else 'pb.ir.parse reads'} one.",
    )


def verify(module: Module | Graph) -> None:
    """Raise the error of the catalogue if a module breaks the IR's rules.

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
        from pullback.static.verify import verify as verify_graph

        verify_graph(module)
    else:
        _ = require_module("verify", module).graph


@overload
def canonicalise(module: Module, with_map: Literal[False] = False) -> Module: ...
@overload
def canonicalise(module: Module, with_map: Literal[True]) -> tuple[Module, dict[int, int]]: ...
def canonicalise(module: Module, with_map: bool = False) -> Any:
    """The canonical form: no copies, dead code or repeated work, dense numbers, sorted operands.

    With the map, also where each old value is; a value that was dropped is not in it.

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
    from pullback.static.flatten import flattened

    graph, places = canonicalise_all(require_module("canonicalise", module).graph)
    made, (numbers, several) = flattened(graph, module.profile)
    if not with_map:
        return made
    found: dict[int, int] = {}
    for i, node in module.values.items():
        if node in places:
            found[i] = numbers[places[node]]
        elif isinstance(node.op, Result) and node.inputs[0] in places:  # unused, but still there
            found[i] = several[places[node.inputs[0]]][node.op.index]
    return made, found


def fingerprint(module: Module | Graph) -> str:
    """The sha256 of the canonical form: neither names, numbers nor lines count.

    >>> import pullback as pb
    >>> one = pb.trace(lambda x, y: x * y, pb.tensor(1.0), pb.tensor(2.0)).graph
    >>> two = pb.trace(lambda a, b: b * a, pb.tensor(1.0), pb.tensor(2.0)).graph
    >>> pb.ir.fingerprint(one) == pb.ir.fingerprint(pb.ir.Module.from_graph(two))
    True
    """
    from pullback.static.fingerprints import fingerprint as of_graph

    if not isinstance(module, Graph):
        module = require_module("fingerprint", module).graph
    return of_graph(module)
