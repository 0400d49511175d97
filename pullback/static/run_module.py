"""Run modules on arrays, with the engines that tensors use."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pullback import errors
from pullback.engines.engine_registry import registered_engine as find_engine
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.lazy.evaluate import evaluate
from pullback.lazy.settings import SettingsScope, current
from pullback.lazy.tensor import Tensor
from pullback.ops.elementwise.rounding_predicates import IsInf, IsNan
from pullback.ops.reduce.reductions import Any_
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.movement import Reshape
from pullback.static.catalogue import catalogued
from pullback.static.function_conversion import apply_converted_function, bind_function_inputs
from pullback.static.module import IRModule, require_static_module

ENGINES = ("xla", "reference")


@catalogued
def run(
    module: IRModule, inputs: Mapping[str, Any] | None = None, engine: str | None = None,
    checks: str | None = None, timeout: float | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """The module's outputs, in order, for arrays given by the names of its inputs.

    The module is verified first. `engine` is "xla", "reference", or "xla" on a platform such as
    "xla:cuda". With `checks="finite"`, the first value that is not finite is an error: infinity
    computed from finite values is an overflow (E6005), NaN and inputs that are not finite are
    invalid (E6006). `timeout` is in seconds (E6007): the reference engine stops between two
    instructions; XLA cannot be stopped and continues in the background.

    >>> import pullback as pb
    >>> module = pb.ir.from_function(lambda x, y: x * y + x, pb.ones(2), pb.ones(2))
    >>> pb.ir.run(module, {"x": [1.0, 2.0], "y": [3.0, 4.0]}, engine="reference")
    [array([ 4., 10.], dtype=float32)]
    """
    graph = require_static_module("run", module).graph
    if checks not in (None, "finite"):
        raise errors.ArgumentError(f'run: checks must be "finite" or None, got {checks!r}')
    number = isinstance(timeout, (int, float))
    if timeout is not None and not (number and 0 < timeout <= threading.TIMEOUT_MAX):
        message = f"run: timeout must be a positive number of seconds, got {timeout!r}"
        raise errors.ArgumentError(message)
    with _static_run_on_engine(engine):
        tensors = bind_function_inputs("run", graph, (), {} if inputs is None else inputs)
        numbers = {node: i for i, node in module.values.items()}

        def work() -> list[np.ndarray]:
            return (
                _static_run_finite(graph, tensors, numbers)
                if checks
                else _static_run_values(graph, tensors)
            )

        return work() if timeout is None else _static_run_limited(timeout, work)


def _static_run_values(graph: Graph, tensors: Sequence[Tensor]) -> list[np.ndarray]:
    made = apply_converted_function(graph, tensors)
    try:
        evaluate(made)
        return [np.array(y.numpy()) for y in made]
    except errors.UnsupportedOp as error:
        what = f"does not support the instruction {error.op}: it {error.message}"
        message = f"the engine {current().engine} {what}"
        raise errors.EngineError(message, code="E6003", where=error.where) from None


def _static_run_on_engine(name: str | None) -> SettingsScope:
    """The scope of an engine, which must be available."""
    if name is None:
        return SettingsScope()
    kind, _, device = str(name).partition(":")
    if kind not in ENGINES:
        message = f"run: engine must be {' or '.join(ENGINES)}, got {name!r}"
        raise errors.EngineError(message, code="E6002")
    find_engine(kind, device or None)
    return SettingsScope(engine=kind, device=device or None)


def _static_run_finite(
    graph: Graph, tensors: Sequence[Tensor], numbers: Mapping[Node, int]
) -> list[np.ndarray]:
    """The outputs; raises an error if a float value that they depend on is not finite."""
    checked = [n for n in graph.nodes if not isinstance(n.type, tuple) and n.type.inexact]
    if not checked:
        return _static_run_values(graph, tensors)
    flags = Concat(0)(
        *[_static_run_nonfinite_flag(n, cls) for cls in (IsInf, IsNan) for n in checked]
    )
    *values, found = _static_run_values(
        Graph(graph.inputs, [*graph.outputs, flags], graph.names), tensors
    )
    infinite, invalid = np.split(found, 2)
    spoilt = {n for n, i, v in zip(checked, infinite, invalid, strict=True) if i or v}
    for node, has_nan in zip(checked, invalid, strict=True):
        if node not in spoilt or not spoilt.isdisjoint(node.inputs):
            continue
        kind = errors.NumericOverflow if node.inputs and not has_nan else errors.InvalidNumber
        i, what = numbers[node], "NaN" if has_nan else "infinity"
        raise kind(f"value %{i} ({node.op.name}) holds {what}", where=node.where, value=i)
    return values


def _static_run_nonfinite_flag(node: Node, cls: type[IsInf | IsNan]) -> Node:
    """A vector of one bool: whether any element is infinite, or NaN."""
    anywhere = Any_(tuple(range(node.type.rank)), False)(cls()(node))
    return Reshape((1,))(anywhere)


def _static_run_limited(seconds: float, work: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """Run `work` in another thread, which is abandoned after the time limit."""
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
        raise errors.TimeLimit(f"run: not finished within {seconds} s")
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]
