"""Build graphs from functions of nodes, and run them on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from pullback.engines.choices import CodeChoices
from pullback.engines.protocols import Engine
from pullback.engines.reference import ReferenceEngine
from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.node import Node, result_nodes
from pullback.graph.types import Type
from pullback.ops.sources import Input

TOLERANCE = {"f16": 4e-3, "bf16": 4e-2, "f32": 2e-5, "f64": 1e-11, "complex64": 4e-5,
             "complex128": 1e-11}  # fmt: skip
Function = Callable[..., Any]  # nodes -> a node or a tuple of nodes
Arrays = Sequence[np.ndarray]
AnyEngine = Engine[Any] | None


def graph_of(f: Function, arrays: Arrays) -> Graph:
    """Return `f` as a graph whose inputs have the types of the arrays."""
    inputs = [Input(f"x{i}", a.shape, dtypes.dtype(a.dtype))() for i, a in enumerate(arrays)]
    return Graph(inputs, several(f(*inputs)))


def several(result: Node | Iterable[Node]) -> tuple[Node, ...]:
    """Return the results of an application as a tuple of nodes."""
    if isinstance(result, Node):
        return result_nodes(result) if isinstance(result.type, tuple) else (result,)
    return tuple(result)


def run(
    graph: Graph, arrays: Arrays, engine: AnyEngine = None, kernels: bool = True
) -> list[np.ndarray]:
    """Run a graph on arrays, by default with the reference engine."""
    engine = engine or ReferenceEngine()
    args = [engine.put(np.array(a, order="C"), x.type) for a, x in zip(arrays, graph.inputs)]
    outputs = engine.compile(graph, choices=CodeChoices(kernels)).run(args)
    return [np.asarray(engine.get(v)) for v in outputs[: len(graph.outputs)]]


def is_differentiable(type: Type) -> bool:
    """Whether values of a type have a derivative: floats and complex numbers."""
    return type.dtype.is_inexact


def assert_close(got: np.ndarray, want: np.ndarray, scale: float = 1.0) -> None:
    """Check that arrays have the same type, and values within `scale` times its tolerance."""
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    kind = dtypes.dtype(want.dtype)
    if not kind.is_inexact:
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if kind.is_complex else np.float64
    tolerance = TOLERANCE[kind.name] * scale
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)
