"""The reference engine: NumPy, one op after the other. It says what is right."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ir.errors import EngineError, PullbackError
from pullback.ir.graph import Graph
from pullback.ir.types import Type


class ReferenceEngine:
    """Runs graphs by each op's NumPy meaning."""

    name = "reference"
    platform = "numpy"

    def put(self, array: np.ndarray, type: Type) -> np.ndarray:
        return array

    def get(self, buffer: np.ndarray) -> np.ndarray:
        return buffer

    def owns(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def compile(self, graph: Graph) -> ReferenceProgram:
        return ReferenceProgram(graph)


class ReferenceProgram:
    """A graph, ready to be interpreted."""

    checks: list = []

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, args: list[np.ndarray]) -> list[np.ndarray]:
        values: dict[Any, Any] = dict(zip(self.graph.inputs, args, strict=True))
        with np.errstate(all="ignore"):
            for node in self.graph.nodes[len(self.graph.inputs) :]:
                values[node] = evaluate(node, [values[x] for x in node.inputs])
        return [np.ascontiguousarray(values[y]).reshape(y.type.shape) for y in self.graph.outputs]


def evaluate(node: Any, xs: list[Any]) -> Any:
    """One node's value; its type must be the inferred one."""
    if node.op.name == "Result":
        return xs[0][node.op.index]
    try:
        made = node.op.numpy(*xs)
    except PullbackError as error:
        raise error.at(node.op.title, node.where) from None
    several = isinstance(node.type, tuple)
    for value, type in zip(made if several else (made,), node.type if several else (node.type,)):
        if np.shape(value) != type.shape or np.asarray(value).dtype != type.dtype.numpy:
            got = f"{np.asarray(value).dtype}{list(np.shape(value))}"
            raise EngineError(
                f"inferred type {type} differs from the engine's {got}",
                op=node.op.title, where=node.where,
            )  # fmt: skip
    return made
