"""Running modules: on arrays by name, with the engines that tensors use."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.errors import (
    ArgumentError,
    EngineError,
    InvalidNumber,
    NumericOverflow,
    TimeLimit,
    UnsupportedOp,
)
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.table import TABLE
from pullback.lazy.evaluate import evaluate
from pullback.lazy.program import engine as find_engine
from pullback.lazy.settings import Scope, current
from pullback.lazy.tensor import Tensor
from pullback.static.functions import apply, bind
from pullback.static.module import Module, require_module

ENGINES = ("xla", "reference")


def run(
    module: Module,
    inputs: Mapping[str, Any] | None = None,
    engine: str | None = None,
    checks: str | None = None,
    timeout: float | None = None,
) -> list[np.ndarray]:
    """The module's outputs, in order, on arrays given by the names of its inputs.

    Nothing is executed before the module is verified. `engine` is "xla", "reference", or "xla" on
    a platform such as "xla:cuda". With `checks="finite"`, the first value that is not finite is an
    error: an infinite one made of finite ones is an overflow (E6005), NaN and whatever was
    not finite to begin with is invalid (E6006). `timeout` is in seconds (E6007): the reference
    engine stops between two instructions; XLA cannot be stopped and ends in the background.

    >>> import pullback as pb
    >>> module = pb.ir.from_function(lambda x, y: x * y + x, pb.ones(2), pb.ones(2))
    >>> pb.ir.run(module, {"x": [1.0, 2.0], "y": [3.0, 4.0]}, engine="reference")
    [array([ 4., 10.], dtype=float32)]
    """
    graph = require_module("run", module).graph
    if checks not in (None, "finite"):
        raise ArgumentError(f'run: checks must be "finite" or None, got {checks!r}')
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
        raise ArgumentError(f"run: timeout must be a positive number of seconds, got {timeout!r}")
    with _on(engine):
        tensors = bind("run", graph, (), {} if inputs is None else inputs)
        numbers = {node: i for i, node in module.values.items()}

        def work() -> list[np.ndarray]:
            return _finite(graph, tensors, numbers) if checks else _values(graph, tensors)

        return work() if timeout is None else _limited(timeout, work)


def _values(graph: Graph, tensors: Sequence[Tensor]) -> list[np.ndarray]:
    made = apply(graph, tensors)
    try:
        evaluate(made)
        return [np.array(y.numpy()) for y in made]
    except UnsupportedOp as error:
        raise EngineError(
            f"the engine {current().engine} does not have the instruction {error.op}: it "
            f"{error.message}",
            code="E6003", where=error.where,
        ) from None  # fmt: skip


def _on(name: str | None) -> Scope:
    """The engine, which must be there before anything is executed."""
    if name is None:
        return Scope()
    kind, _, device = str(name).partition(":")
    if kind not in ENGINES:
        raise EngineError(
            f"run: there is no engine {name!r}, only {' and '.join(ENGINES)}",
            code="E6002",
        )  # fmt: skip
    find_engine(kind, device or None)
    return Scope(engine=kind, device=device or None)


# -- values that are not finite -------------------------------------------------------------------


def _finite(
    graph: Graph, tensors: Sequence[Tensor], numbers: Mapping[Node, int]
) -> list[np.ndarray]:
    """The outputs, if every float value on the way to them is finite."""
    looked_at = [n for n in graph.nodes if not isinstance(n.type, tuple) and n.type.inexact]
    if not looked_at:
        return _values(graph, tensors)
    flags = [_flag(n, word) for word in ("IsInf", "IsNan") for n in looked_at]
    *values, found = _values(_with(graph, flags), tensors)
    infinite, invalid = np.split(found, 2)
    spoilt = {n for n, i, v in zip(looked_at, infinite, invalid, strict=True) if i or v}
    for node, has_nan in zip(looked_at, invalid, strict=True):
        if node not in spoilt or not spoilt.isdisjoint(node.inputs):
            continue
        kind = NumericOverflow if node.inputs and not has_nan else InvalidNumber
        raise kind(
            f"value %{numbers[node]} ({node.op.name}) holds {'NaN' if has_nan else 'infinity'}",
            where=node.where, value=numbers[node],
        )  # fmt: skip
    return values


def _flag(node: Node, word: str) -> Node:
    """Whether any element is infinite, or NaN: a vector of one bool."""
    found = TABLE[word]()(node)
    anywhere = TABLE["Any"](tuple(range(node.type.rank)), False)(found)
    return TABLE["Reshape"]((1,))(anywhere)


def _with(graph: Graph, flags: Sequence[Node]) -> Graph:
    return Graph(graph.inputs, [*graph.outputs, TABLE["Concat"](0)(*flags)], graph.names)


# -- the time limit -------------------------------------------------------------------------------


def _limited(seconds: float, work: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """Run it in a thread of its own, which is left behind when its time is over."""
    made: list[Any] = []
    context = contextvars.copy_context()

    def guarded() -> None:
        thread.deadline = time.monotonic() + seconds
        try:
            made.append(context.run(work))
        except BaseException as error:
            made.append(error)

    worker = threading.Thread(target=guarded, daemon=True)
    worker.start()
    worker.join(seconds)
    if not made:
        raise TimeLimit(f"run: not finished within {seconds} s")
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]
