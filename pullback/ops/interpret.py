"""Run graphs in NumPy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import EngineError, OutOfMemory, PullbackError, TimeLimit
from pullback.graph.ambient import thread
from pullback.graph.node import Node
from pullback.graph.types import show_types


def interpret(
    graph: Any, arrays: Sequence[np.ndarray], iteration: int | None = None
) -> list[np.ndarray]:
    """Compute a graph's outputs with each op's `numpy`, and check the types of the results.

    `iteration` is that of the loop whose body the graph is, for those who watch.
    """
    if thread.watch is None:
        return _interpret(graph, arrays, None)
    with thread.watch.entered(graph, arrays, iteration) as run:
        return _interpret(graph, arrays, run)


def _interpret(graph: Any, arrays: Sequence[np.ndarray], run: Any) -> list[np.ndarray]:
    values: dict[Node, Any] = dict(
        zip(graph.inputs, map(_interpreted_in_c_order, arrays), strict=True)
    )
    for node in graph.nodes[len(graph.inputs) :]:
        if thread.deadline is not None and time.monotonic() > thread.deadline:
            raise TimeLimit("the time limit is over", op=node.op.title, where=node.where)
        xs = [values[x] for x in node.inputs]
        if run is not None:
            run.current = node
        if xs and isinstance(node.inputs[0].type, tuple):
            values[node] = xs[0][node.op.index]  # type: ignore[attr-defined]
            if run is not None:
                run.note(node, xs, values[node])
            continue
        try:
            made = node.op.numpy(*xs) if run is None else run.compute(node, xs)
            values[node] = _interpreted_in_c_order(made)
        except PullbackError as error:
            error.values["node"] = node  # the caller looks up its line
            raise error.at(node.op.title, None) from None
        except MemoryError:
            message = f"there is not enough memory for {show_types(node.type)}"
            raise OutOfMemory(message, op=node.op.title, where=node.where) from None
        except Exception as error:
            what = f"NumPy cannot compute it for these operands and parameters ({error})"
            failure = EngineError(what)
            failure.values["node"] = node
            raise failure.at(node.op.title, None) from error
        _check_interpreted_value(node, values[node])
        if run is not None:
            run.note(node, xs, values[node])
    return [np.asarray(values[y]) for y in graph.outputs]


def _interpreted_in_c_order(made: Any) -> Any:
    """The arrays in C order: NumPy adds in the order of memory and runs other code on strided
    operands, so the bits would depend on whether an operand is a view or was read before."""
    if isinstance(made, (tuple, list)):
        return tuple([np.asarray(value, order="C") for value in made])
    return np.asarray(made, order="C")


def _check_interpreted_value(node: Node, made: Any) -> None:
    several = isinstance(node.type, tuple)
    types = node.type if several else (node.type,)
    if several and (not isinstance(made, (tuple, list)) or len(made) != len(types)):
        what = f"numpy must return a tuple of {len(types)} arrays"
        raise EngineError(what, op=node.op.title, where=node.where)
    for value, type in zip(made if several else (made,), types, strict=True):
        array = np.asarray(value)
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            got = f"{array.dtype}{list(array.shape)}"
            what = f"inferred type {type} differs from the engine's {got}"
            raise EngineError(what, op=node.op.title, where=node.where)
