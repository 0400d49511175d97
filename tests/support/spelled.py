"""Programs in which formulas are looked for: what is found, and that nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as pb
from pullback.graph.graph import Graph
from pullback.ops.interpret import interpret
from pullback.transforms.recognition import recognised

TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 2e-4, "float64": 1e-10}


def rows(*shape: int, salt: int = 0) -> np.ndarray:
    return np.random.default_rng([5, salt, *shape]).normal(size=shape)


def graph_of(f: Callable, *arrays: np.ndarray) -> Graph:
    """The program of a compiled function; masks may be of f32 where operands are of f64."""
    with pb.config(precision_warnings=False):
        return pb.compile(f).lower(*map(pb.tensor, arrays)).graph


def fused_ops(f: Callable, *arrays: np.ndarray) -> Counter[str]:
    """The ops of the compiled function's program with fused ops, which computes the same."""
    graph = graph_of(f, *arrays)
    made, origins = recognised(graph, "cpu")
    with np.errstate(all="ignore"):
        want, got = interpret(graph, arrays), interpret(made, arrays)
    for w, g in zip(want, got, strict=True):
        assert w.dtype == g.dtype
        tolerance = TOLERANCE[w.dtype.name]
        pair = [x.astype(np.float64) for x in (g, w)]
        np.testing.assert_allclose(*pair, rtol=tolerance, atol=tolerance)
    assert set(origins.values()) <= set(graph.nodes)
    return Counter([n.op.name for n in made.nodes])


def pulled(f: Callable, *argnums: int) -> Callable:
    """The gradient of a loss that needs the values of `f`."""

    def loss(*xs: Any) -> Any:
        y = f(*xs)
        return pb.sum(pb.sin(y) * y)

    return pb.value_and_grad(loss, argnums or (0,))


def in_dtypes(arrays: list[np.ndarray], *names: str) -> list[list[np.ndarray]]:
    """The arrays, with floats in each of the dtypes."""
    floats = [a.dtype.kind == "f" for a in arrays]
    return [[a.astype(n) if f else a for a, f in zip(arrays, floats)] for n in names]


def finds(f: Callable, arrays: list[np.ndarray], op: str, *gradients: str, argnums=()) -> None:
    """A formula becomes one op, and so does its gradient: in f32 and f64."""
    for given in in_dtypes(arrays, "float32", "float64"):
        found = fused_ops(f, *given)
        assert found[op] == 1, found
        found = fused_ops(pulled(f, *argnums), *given)
        assert found[op] == 1 and all(found[name] == 1 for name in gradients), found


def leaves(f: Callable, arrays: list[np.ndarray], *ops: str) -> None:
    """None of these ops takes the place of anything."""
    for given in in_dtypes(arrays, "float32"):
        found = fused_ops(f, *given)
        assert not set(ops) & set(found), found


def same_with_kernels(functions: list[Callable], arrays: list[np.ndarray]) -> None:
    """All functions in one program: the same values with kernels and without."""
    for given in in_dtypes(arrays, "float32"):  # other tests compare the ops in f64
        made = []
        for kernels in (True, False):
            with pb.config(kernels=kernels, precision_warnings=False):
                program = pb.compile(lambda *xs: [f(*xs) for f in functions])
                made.append([y.numpy() for y in pb.tree.leaves(program(*map(pb.tensor, given)))])
        for got, want in zip(*made, strict=True):
            tolerance = TOLERANCE[want.dtype.name]
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
