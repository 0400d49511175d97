"""Check derivatives of both modes against central differences and against each other."""

from __future__ import annotations

import numpy as np

from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.ops.prelude import Op, sum_to, zeros
from pullback.ops.sources import Const, Input
from pullback.testing.programs import Arrays, Function, graph_of, is_differentiable, run
from pullback.transforms.forward import forward_tangents
from pullback.transforms.reverse import gradients


def linear_map(f: Function, arrays: Arrays) -> tuple[Graph, Graph]:
    """Return the graphs of the jvp (xs, ts -> tangents) and the vjp (xs, gs -> cotangents) of `f`,
    for its float and complex operands and results."""
    base = graph_of(f, arrays)
    active = [x for x in base.inputs if is_differentiable(x.type)]
    ys = [y for y in base.outputs if is_differentiable(y.type)]
    ts = [Input("t", x.type.shape, x.type.dtype)() for x in active]
    gs = [Input("g", y.type.shape, y.type.dtype)() for y in ys]
    pushed = [t or zeros(y.type) for y, t in zip(ys, forward_tangents(ys, active, ts))]
    pulled = [g or zeros(x.type) for x, g in zip(active, gradients(ys, gs, active))]
    return Graph([*base.inputs, *ts], pushed), Graph([*base.inputs, *gs], pulled)


def _derivative_inner_product(xs: Arrays, ys: Arrays) -> float:
    """The real inner product of two lists of arrays."""
    return sum(float(np.real(np.vdot(y, x))) for x, y in zip(xs, ys, strict=True))


def _random_derivative_seed(arrays: Arrays, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    values = []
    for a in arrays:
        v = rng.standard_normal(a.shape)
        v = v + 1j * rng.standard_normal(a.shape) if np.iscomplexobj(a) else v
        values.append(np.asarray(v, a.dtype))
    return values


def check_derivatives(
    f: Function, arrays: Arrays, order: int = 2, eps: float = 1e-6, rtol: float = 1e-5
) -> None:
    """Check the jvp against central differences and the vjp against the jvp, up to `order`.
    Operands that are not float64 or complex128 are constants."""
    arrays = [np.asarray(a) for a in arrays]
    jvp, vjp = linear_map(f, arrays)
    where = [i for i, a in enumerate(arrays) if a.dtype.kind in "fc"]
    outs = [i for i, y in enumerate(graph_of(f, arrays).outputs) if is_differentiable(y.type)]
    if not where or not outs:
        return
    ts = _random_derivative_seed([arrays[i] for i in where], seed=1)
    pushed = run(jvp, [*arrays, *ts])

    def shifted(step: float) -> list[np.ndarray]:
        moved = list(arrays)
        for i, t in zip(where, ts):
            moved[i] = np.asarray(arrays[i] + step * t, arrays[i].dtype)
        results = run(graph_of(f, arrays), moved)
        return [results[i] for i in outs]

    for plus, minus, t in zip(shifted(eps), shifted(-eps), pushed, strict=True):
        slope = (plus - minus) / (2 * eps)
        size = max(1.0, float(np.abs(slope).max(initial=0.0)))
        np.testing.assert_allclose(t, slope, rtol=rtol, atol=rtol * size)

    gs = _random_derivative_seed(pushed, seed=2)
    pulled = run(vjp, [*arrays, *gs])
    left, right = _derivative_inner_product(pushed, gs), _derivative_inner_product(ts, pulled)
    size = max(1.0, abs(left), sum(float(np.abs(p * g).sum()) for p, g in zip(pushed, gs)))
    assert abs(left - right) <= 1e-9 * size, f"<jvp t, g> = {left}, <t, vjp g> = {right}"

    if order > 1:

        def gradient_of(*xs: Node) -> tuple[Node, ...]:
            graph = graph_of(f, arrays)
            ys = [y for y in graph(*xs) if is_differentiable(y.type)]
            seeds = [Const(dtypes.dtype(g.dtype), g.shape, g.tobytes())() for g in gs]
            active = [xs[i] for i in where]
            found = gradients(ys, seeds, active)
            return tuple(g if g is not None else zeros(x.type) for x, g in zip(active, found))

        check_derivatives(gradient_of, arrays, order - 1, eps, rtol * 10)


def check_cotangent_shapes(op: Op, arrays: Arrays) -> None:
    """Check that rules of broadcasting ops return cotangents in the shape of the result."""
    graph = graph_of(op, arrays)
    (out,) = graph.outputs
    g = Input("g", out.type.shape, out.type.dtype)()
    need = [is_differentiable(x.type) for x in graph.inputs]
    if op.vjp is None or not op.differentiable:
        return
    for x, c in zip(graph.inputs, op.vjp(g, out, graph.inputs, need), strict=True):
        if c is not None:
            assert c.type.shape == out.type.shape, (op, c.type, out.type)
            assert sum_to(c, x.type).type.shape == x.type.shape
