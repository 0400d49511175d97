"""Conversion of functions to modules and of modules to functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback.api.recording import deliver_from_recording
from pullback.api.trace import Trace
from pullback.errors import ArgumentError, DTypeError, PullbackError, ShapeError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.graph import Graph
from pullback.graph.node import Node, next_number
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import LEAF, Const, placeholder
from pullback.static.catalogue import catalogued
from pullback.static.module import IRModule, require_static_module

_KINDS = "bifc"  # each kind of dtype holds the numbers of those before it: 1 can be a float


@catalogued
@with_argument_checks
def from_function(f: Callable, *args: Any, names: Sequence[str] | None = None) -> IRModule:
    """The program that `f` records on these arguments, as a module.

    Inputs have the names of the parameters, or `names`, one for each tensor in the arguments.
    Outside tensors that `f` uses become inputs `captured0` and so on, which `names` may rename
    too. Python branches are taken once; a function that reads a value to branch is refused.

    >>> import pullback as pb
    >>> print(pb.ir.from_function(lambda x, w: pb.relu(x @ w), pb.ones((2, 3)), pb.ones((3, 4))))
    %0 = Input() {name: "x"} : Tensor<f32, [2, 3]>
    %1 = Input() {name: "w"} : Tensor<f32, [3, 4]>
    %2 = MatMul(%0, %1) : Tensor<f32, [2, 4]>
    %3 = Relu(%2) : Tensor<f32, [2, 4]>
    outputs: %3
    """
    start = next_number()
    trace = Trace(f, args, {})
    trace.refuse_if_branched("written as a module")
    graph, captured = trace.closed()
    graph = _function_with_constants(graph, captured, start)
    if names is not None:
        graph = _rename_converted_inputs(graph, len(trace.names), names)
    return IRModule.from_graph(graph)


def _function_with_constants(graph: Graph, captured: Sequence[Node], start: int) -> Graph:
    """The program with tensors that the function made from data while it ran as constants."""
    given = len(graph.inputs) - len(captured)
    inputs, names = list(graph.inputs[:given]), list(graph.names[:given])
    values = list(inputs)
    for node in captured:
        type = node.type
        if node.number > start and node.op is LEAF:
            data = wrap(node).numpy().tobytes()
            values.append(Const(type.dtype, type.shape, data)())
            continue
        names.append(f"captured{len(names) - given}")
        inputs.append(placeholder(names[-1], type))
        values.append(inputs[-1])
    return Graph(inputs, graph(*values), names)


def _rename_converted_inputs(graph: Graph, least: int, names: Sequence[str]) -> Graph:
    if not least <= len(names) <= len(graph.inputs):
        captured = len(graph.inputs) - least
        raise ArgumentError(
            f"from_function: names needs {least} names for the tensors in the arguments, and up to "
            f"{captured} more for captured tensors, got {list(names)}"
        )
    chosen = [*names, *graph.names[len(names) :]]
    if not all(isinstance(n, str) and n for n in names) or len({*chosen}) < len(chosen):
        raise ArgumentError(f"from_function: names must be different strings, got {list(names)}")
    return Graph(graph.inputs, graph.outputs, chosen)


def to_function(module: IRModule) -> Callable[..., Tensor | tuple[Tensor, ...]]:
    """The module as a function of tensors, which are passed by position or by name.

    It returns a tensor, or a tuple if there are several outputs, and can be differentiated,
    compiled and mapped like any other function.

    >>> import pullback as pb
    >>> cube = pb.ir.to_function(pb.ir.from_function(lambda x: x * x * x, pb.tensor(1.0)))
    >>> pb.grad(cube)(pb.tensor(2.0)).item()
    12.0
    """
    # An invalid module raises here, not at the first call.
    graph = require_static_module("to_function", module).graph

    def function(*args: Any, **named: Any) -> Tensor | tuple[Tensor, ...]:
        made = apply_converted_function(graph, bind_function_inputs("module", graph, args, named))
        return made[0] if len(made) == 1 else tuple(made)

    function.__name__ = function.__qualname__ = "module"
    function.__doc__ = f"A module of the inputs {', '.join(graph.names)}."
    return function


def apply_converted_function(graph: Graph, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a program for tensors that have the types of its inputs."""
    return [deliver_from_recording(y) for y in graph(*map(node_of, tensors))]


def bind_function_inputs(
    name: str, graph: Graph, args: Sequence[Any], named: Mapping[str, Any]
) -> list[Tensor]:
    """The arguments in the order of the inputs, converted to their types."""
    if len(args) > len(graph.names):
        raise ArgumentError(f"{name}: takes {len(graph.names)} inputs, got {len(args)}")
    if not isinstance(named, Mapping):
        message = f"{name}: takes a dict of inputs by their names, got {named.__class__.__name__}"
        raise ArgumentError(message)
    given = dict(zip(graph.names, args, strict=False))
    for key, value in named.items():
        if key in given:
            raise ArgumentError(f"{name}: input {key!r} is given twice")
        if key not in graph.names:
            known = ", ".join(map(repr, graph.names))
            raise ArgumentError(f"{name}: there is no input {key!r}, only {known or 'none'}")
        given[key] = value
    missing = [key for key in graph.names if key not in given]
    if missing:
        raise ArgumentError(f"{name}: input {missing[0]!r} is missing")
    pairs = zip(graph.names, graph.inputs, strict=True)
    return [_convert_function_argument(name, key, given[key], x.type) for key, x in pairs]


def _convert_function_argument(name: str, key: str, value: Any, type: Type) -> Tensor:
    """A value as a tensor of the declared type; Python numbers and lists take its dtype."""
    try:
        made = asarray(value)
    except PullbackError as error:
        message = f"{name}: input {key!r} is declared as {type}: {error.message}"
        raise error.__class__(message, code=error.code, hint=error.hint, input=key) from None
    kinds = [_KINDS.index(d.kind.replace("u", "i")) for d in (type.dtype, made.dtype)]
    if not hasattr(value, "dtype") and kinds[0] >= kinds[1]:
        made = asarray(value, dtype=type.dtype)
    if made.shape != type.shape or made.dtype is not type.dtype:
        kind = ShapeError if made.shape != type.shape else DTypeError
        what = f"{name}: input {key!r} is declared as {type}, got {made._node.type}"
        raise kind(what, code="E2001", input=key)
    return made
