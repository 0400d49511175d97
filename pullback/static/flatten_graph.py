"""Flatten graphs into lists of instructions, which are printed and which modules hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import PullbackError, TraceError
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_kinds import Transparent
from pullback.graph.op_table import TABLE
from pullback.ops.sources import Const, Input, Leaf, Result, Scalar
from pullback.static.instructions import Instruction, InstructionList, constant_instruction_name
from pullback.static.literals import has_literal
from pullback.static.op_parameters import op_parameters_without_defaults
from pullback.static.profiles import EXTENDED, PROFILES, StaticProfile

_SOURCES = (Leaf, Scalar, Const, Input)


def flatten_graph(
    graph: Graph, profile: str | None = None
) -> tuple[InstructionList, FlattenedNumbers]:
    """The instructions of a graph, and the numbers of its values."""
    made = ExactGraphFlattener().flatten(graph, profile or flattened_graph_profile(graph))
    return made, number_flattened_values(flattened_graph_order(graph))


class GraphFlattener:
    """Lists the instructions of a graph.

    Values are numbered densely: inputs first, then in the order of recording.
    """

    def __init__(self, provenance: bool = False) -> None:
        self.provenance = provenance
        self.seen: dict[tuple, dict[str, Any]] = {}  # the parameters by op and operand types

    def input_names(self, graph: Graph) -> Sequence[str]:
        """The names of the inputs; a name that occurs again gets a number."""
        counts: dict[str, int] = {}
        made: dict[str, None] = {}
        for name in graph.names:
            unique = name
            while unique in made:
                counts[name] = counts.get(name, 0) + 1
                unique = f"{name}_{counts[name]}"
            made[unique] = None
        return list(made)

    def stated(self, node: Node) -> dict[str, Any]:
        """The parameters of a node's op that the text must state."""
        return _flattened_graph_parameters(node)

    def flatten(self, graph: Graph, profile: str = EXTENDED) -> InstructionList:
        nodes = flattened_graph_order(graph)
        numbers, several = number_flattened_values(nodes)
        inputs = dict(zip(graph.inputs, self.input_names(graph), strict=True))
        made = []
        for i, node in enumerate(nodes):
            if isinstance(node.op, Result) and node.inputs[0] in several:
                continue  # its number is on the line of its op
            results = several.get(node) or (numbers[node],)
            types = node.type if isinstance(node.type, tuple) else (node.type,)
            comment = flatten_comment(node) if self.provenance else ""
            if node in inputs or isinstance(node.op, Leaf):
                name = inputs.get(node, f"leaf{i}")
                line = Instruction(results, "Input", types=types, name=name, comment=comment)
            elif isinstance(node.op, _SOURCES):
                array = _flattened_graph_array(node)
                name = constant_instruction_name(node.type)
                line = Instruction(results, name, types=types, literal=array, comment=comment)
            else:
                operands = tuple([numbers[x] for x in node.inputs])
                key = (node.op, *[x.type for x in node.inputs])
                parameters = self.seen.get(key)
                if parameters is None:
                    stated = self.stated(node).items()
                    parameters = self.seen[key] = {k: self.value(v) for k, v in stated}
                line = Instruction(
                    results, node.op.name, operands, parameters, types, comment=comment
                )
            made.append(line)
        return InstructionList(made, [numbers[y] for y in graph.outputs], profile)

    def value(self, value: Any) -> Any:
        """A parameter; a graph becomes a list of instructions."""
        if isinstance(value, Graph):
            return self.flatten(value)
        if type(value) is tuple:
            return tuple([self.value(v) for v in value])
        return value


class ExactGraphFlattener(GraphFlattener):
    """Refuses parameters that a text cannot hold."""

    def stated(self, node: Node) -> dict[str, Any]:
        op = node.op
        made = _flattened_graph_parameters(node)
        if TABLE.get(op.name) is not type(op) or not all(map(has_literal, made.values())):
            why = "a custom derivative rule, or another parameter, is a Python object"
            what = f"it cannot be written as text: {why}"
            raise TraceError(what, op=op.title, where=node.where)
        return made


def _flattened_graph_parameters(node: Node) -> dict[str, Any]:
    op = node.op
    return op_parameters_without_defaults(
        type(op), op.text.written(op, tuple([x.type for x in node.inputs]))
    )


def _flattened_graph_array(node: Node) -> np.ndarray:
    if isinstance(node.op, Const):
        return node.op.array
    return np.asarray(node.value, node.type.dtype.numpy)


def flattened_graph_order(graph: Graph) -> list[Node]:
    """A graph's nodes; leaves, which are printed as inputs, follow the declared inputs."""
    count = len(graph.inputs)
    declared, inner = graph.nodes[:count], graph.nodes[count:]
    return [*declared, *sorted(inner, key=lambda n: not isinstance(n.op, Leaf))]


class FlattenedNumbers(NamedTuple):
    """The number of each value; `several` has those of all results of an op, also unused ones."""

    numbers: dict[Node, int]
    several: dict[Node, tuple[int, ...]]


def number_flattened_values(nodes: Sequence[Node]) -> FlattenedNumbers:
    """Number the values densely, in the order of the nodes."""
    numbers: dict[Node, int] = {}
    several: dict[Node, tuple[int, ...]] = {}
    count = 0
    for node in nodes:
        if isinstance(node.op, Result) and node.inputs[0] in several:
            numbers[node] = several[node.inputs[0]][node.op.index]
        elif isinstance(node.type, tuple):
            several[node] = tuple(range(count, count + len(node.type)))
            count += len(node.type)
        else:
            numbers[node] = count
            count += 1
    return FlattenedNumbers(numbers, several)


def flatten_comment(node: Node) -> str:
    """The line, the op that the user wrote there, and the direction."""
    words = [] if node.where is None else [str(node.where)]
    if node.backward:
        cls = TABLE.get(node.forward_op)
        # What arrives at an argument is added up by no op's rule
        known = cls is not None and not issubclass(cls, (*_SOURCES, Transparent))
        words.append(f"backward of {cls.title}" if cls and known else "backward")
    elif words and not isinstance(node.op, _SOURCES):
        words.append(getattr(node.where, "called", node.op.title))
    return " ".join(words)


def flattened_graph_profile(graph: Graph) -> str:
    """The smallest profile that has everything a graph uses."""
    left = list(PROFILES.values())
    for node in graph.nodes:
        while len(left) > 1 and not _flattened_fits_profile(node, left[0]):
            left.pop(0)
    return left[0].name


def _flattened_fits_profile(node: Node, profile: StaticProfile) -> bool:
    try:
        for t in node.type if isinstance(node.type, tuple) else (node.type,):
            profile.check_type(t)
        if isinstance(node.op, (Const, Scalar)):
            profile.check_literal(_flattened_graph_array(node))
        elif not isinstance(node.op, (*_SOURCES, Result)):
            profile.check_op(node.op, [x.type for x in node.inputs])
    except PullbackError:
        return False
    return True
