"""Verification: a graph that passes can be printed, transformed and run."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, NoReturn

from pullback.errors import PullbackError, VerificationError
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type, show_types
from pullback.ops.op import Op
from pullback.ops.sources import Input, Leaf, Result, Scalar

# Rules that take the operands, and the number of arguments before them.
_RULES = (("infer", 0), ("expand", 0), ("numpy", 0), ("partials", 1), ("hlo", 2))
_DATA = (Leaf, Scalar)  # existing values: they have a type but no type rule


def verify(graph: Graph) -> None:
    """Raise VerificationError, which names the instruction, if the graph is invalid."""
    _verify_inputs(graph)
    inputs = set(graph.inputs)
    defined: set[Node] = set()
    for i, node in enumerate(graph.nodes):
        op, xs = node.op, node.inputs
        # The type rule has given this result before, for the same op and operand types.
        known = xs and op.inferred.get(tuple([x.type for x in xs])) is node.type
        for inner in op.graphs:
            verify(inner)
        if not (known and defined.issuperset(xs)):
            _verify_operands(i, node, defined)
            if isinstance(op, Input) and node not in inputs:
                _fail_verification(
                    i, node, "E4001", "it is used, but it is not an input of the graph"
                )
            _verify_type(i, node)
        defined.add(node)
    for k, y in enumerate(graph.outputs):
        if y not in defined:
            what = f"output {k} is not defined in the graph"
            raise VerificationError(what, code="E4003", output=k)
        if isinstance(y.type, tuple):
            what = f"output {k} must be one value; {y.op.name} has several: select a result"
            raise VerificationError(what, code="E4003", output=k)


def _verify_inputs(graph: Graph) -> None:
    if len(graph.names) != len(graph.inputs):
        count = f"{len(graph.inputs)} inputs have {len(graph.names)} names"
        raise VerificationError(f"every input needs a name, {count}", code="E4004")
    seen: set[Node] = set()
    for i, (x, name) in enumerate(zip(graph.inputs, graph.names, strict=True)):
        if x in seen:
            _fail_verification(i, x, "E4002", "it is declared as an input twice")
        if not isinstance(x.op, Input):
            _fail_verification(i, x, "E4004", "an input of a graph must be an Input instruction")
        if not isinstance(name, str) or not name:
            _fail_verification(i, x, "E4004", f"an input needs a name, got {name!r}")
        seen.add(x)


def _verify_operands(i: int, node: Node, defined: set[Node]) -> None:
    if problem := verify_count(type(node.op), len(node.inputs)):
        _fail_verification(i, node, "E2007", problem)
    for k, x in enumerate(node.inputs):
        if x not in defined:
            _fail_verification(i, node, "E4001", f"operand {k} is used before it is defined")
        if isinstance(x.type, tuple) and not isinstance(node.op, Result):
            what = f"operand {k} must be one value; {x.op.name} has several: select a result"
            _fail_verification(i, node, "E2001", what)


def _verify_type(i: int, node: Node) -> None:
    declared = node.type if isinstance(node.type, tuple) else (node.type,)
    for t in declared:
        if not isinstance(t, Type):
            _fail_verification(i, node, "E2001", f"the declared type must be a Type, got {t!r}")
        if any(n < 0 for n in t.shape):
            _fail_verification(i, node, "E3006", f"dimensions must not be negative, got {t}")
    if isinstance(node.op, _DATA):
        return
    if isinstance(node.op, Result):
        _verify_result(i, node, node.op.index)
    try:
        xs: Any = [x.type.plain if isinstance(x.type, Type) else x.type for x in node.inputs]
        inferred = node.op.infer(*xs)
    except PullbackError as error:
        _fail_verification(i, node, error.code, error.message, **error.values)
    if verified_shape_and_dtype(inferred) != verified_shape_and_dtype(node.type):
        _fail_verification(
            i, node, "E2001",
            f"declared type is {show_types(node.type)}, its operands give {show_types(inferred)}",
            declared=node.type, inferred=inferred,
        )  # fmt: skip


def _verify_result(i: int, node: Node, index: int) -> None:
    types = node.inputs[0].type
    if not isinstance(types, tuple):
        _fail_verification(
            i, node, "E4001", f"{node.inputs[0].op.name} has one result: there is none to select"
        )
    if not 0 <= index < len(types):
        _fail_verification(
            i, node, "E4001", f"result {index} does not exist, there are {len(types)}"
        )


def verified_shape_and_dtype(types: Any) -> Any:
    """The part that type rules decide; propagation adds shardings and varying axes."""
    if isinstance(types, tuple):
        return tuple([verified_shape_and_dtype(t) for t in types])
    return types.shape, types.dtype


def _fail_verification(i: int, node: Node, code: str, what: str, **values: Any) -> NoReturn:
    values["instruction"] = i
    message = f"instruction {i} ({node.op.name}): {what}"
    raise VerificationError(message, code=code, where=node.where, **values)


def verify_count(cls: type[Op], count: int) -> str | None:
    """What is wrong with the number of an op's operands; None if it is right."""
    fewest, most = (0, 0) if issubclass(cls, _DATA) else verify_arity(cls)
    if fewest <= count <= most:
        return None
    wanted = fewest if fewest == most else f"at least {fewest}"
    return f"it takes {wanted} operands, got {count}"


@cache
def verify_arity(cls: type) -> tuple[int, float]:
    """The least and largest number of operands, from the first rule that names them all."""
    for rule, before in _RULES:
        function = getattr(cls, rule, None)
        if function is None:
            continue
        parameters = list(inspect.signature(function).parameters.values())[1 + before :]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            continue
        required = sum(p.default is p.empty for p in parameters)
        return required, len(parameters)
    elementwise = hasattr(cls, "partials")  # other ops do not apply their ufunc to the operands
    count = getattr(getattr(cls, "ufunc", None), "nin", None) if elementwise else None
    return (0, float("inf")) if count is None else (count, count)
