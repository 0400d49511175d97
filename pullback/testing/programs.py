"""Functions of nodes as graphs, run on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines.reference import ReferenceEngine
from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.node import Node, results
from pullback.graph.types import Type
from pullback.ops.sources import Input

TOLERANCE = {"f16": 4e-3, "bf16": 4e-2, "f32": 2e-5, "f64": 1e-11, "complex64": 4e-5,
             "complex128": 1e-11}  # fmt: skip


Function = Callable[..., Any]  # nodes to a node or a tuple of nodes


def graph_of(f: Function, arrays: Sequence[np.ndarray]) -> Graph:
    """`f` as a graph over inputs of the arrays' types."""
    inputs = [Input(f"x{i}", a.shape, dtypes.dtype(a.dtype))() for i, a in enumerate(arrays)]
    return Graph(inputs, several(f(*inputs)))


def several(made: Any) -> tuple[Node, ...]:
    """The results of an application as a tuple of nodes."""
    if isinstance(made, Node):
        return results(made) if isinstance(made.type, tuple) else (made,)
    return tuple(made)


def run(graph: Graph, arrays: Sequence[np.ndarray], engine: Any = None) -> list[np.ndarray]:
    engine = engine or ReferenceEngine()
    args = [engine.put(np.array(a, order="C"), x.type) for a, x in zip(arrays, graph.inputs)]
    made = engine.compile(graph).run(args)
    return [np.asarray(engine.get(v)) for v in made[: len(graph.outputs)]]


def is_differentiable(type: Type) -> bool:
    return type.dtype.is_inexact


def assert_close(got: np.ndarray, want: np.ndarray, scale: float = 1.0) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    kind = dtypes.dtype(want.dtype)
    if not kind.is_inexact:
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if kind.is_complex else np.float64
    tolerance = TOLERANCE[kind.name] * scale
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)
