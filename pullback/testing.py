"""Checks for ops and gradients: what the op table's tests run, open to authors of their own ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines.reference import ReferenceEngine
from pullback.ir import dtypes
from pullback.ir.dtypes import DType
from pullback.ir.graph import Graph
from pullback.ir.node import Node, results
from pullback.ir.types import Type
from pullback.ops.base import Axis, Op, sum_to, zeros
from pullback.ops.structure import Input
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.parts import join, places
from pullback.sharding.spec import P, Sharding
from pullback.transforms.batch import batched_graph
from pullback.transforms.forward import tangents
from pullback.transforms.partition.partition import partition
from pullback.transforms.partition.simulate import simulated
from pullback.transforms.reverse import gradients

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


def check_type(op: Op, arrays: Sequence[np.ndarray]) -> None:
    """The inferred type is the type of NumPy's result (the reference engine compares them)."""
    run(graph_of(op, arrays), arrays)


def check_engine(op: Op, arrays: Sequence[np.ndarray], engine: Any, scale: float = 1.0) -> None:
    """An engine gives what the reference gives, within rounding."""
    graph = graph_of(op, arrays)
    for want, got in zip(run(graph, arrays), run(graph, arrays, engine), strict=True):
        assert_close(got, want, scale)


def assert_close(got: np.ndarray, want: np.ndarray, scale: float = 1.0) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    kind = dtypes.dtype(want.dtype)
    if not kind.is_inexact:
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if kind.is_complex else np.float64
    tolerance = TOLERANCE[kind.name] * scale
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)


def check_batch(op: Op, arrays: Sequence[np.ndarray], engine: Any = None) -> None:
    """The batching rule gives what the op gives one example after the other, for every choice
    of mapped operands (of many operands: one, all but one, all); the examples differ."""
    many = len(arrays) > 4
    for mapped in itertools.product((False, True), repeat=len(arrays)):
        if any(mapped) and not (many and 1 < sum(mapped) < len(arrays) - 1):
            _check_batch(op, arrays, mapped, engine)
    if len(arrays):
        _check_batch(op, arrays, [True] * len(arrays), engine, size=0)


def _check_batch(
    op: Op, arrays: Sequence[np.ndarray], mapped: Sequence[bool], engine: Any, size: int = 3
) -> None:
    graph = graph_of(op, arrays)
    stacked = [_examples(a, size) if has else a for a, has in zip(arrays, mapped, strict=True)]
    wide, flags = batched_graph(graph, Axis(size), mapped)
    got = run(wide, stacked, engine)
    for y, value, has in zip(graph.outputs, got, flags, strict=True):
        assert value.shape == ((size, *y.type.shape) if has else y.type.shape)
    rows = []
    for i in range(size):
        rows.append(run(graph, [a[i] if has else a for a, has in zip(stacked, mapped)], engine))
    for k, (value, has) in enumerate(zip(got, flags, strict=True)):
        for i in range(size):
            assert_close(value[i] if has else value, rows[i][k], scale=10)


def _examples(a: np.ndarray, size: int) -> np.ndarray:
    """Different examples of an operand, out of its own elements: what was valid stays so.

    Whole rows change places; a single element becomes smaller.
    """
    a = np.asarray(a)
    long = [i for i, n in enumerate(a.shape) if n > 1]
    if long:
        made = [np.roll(a, i, long[0]) for i in range(size)]
    elif a.dtype.kind == "b":
        made = [a ^ bool(i % 2) for i in range(size)]
    elif a.dtype.kind in "iu":
        made = [a // (i + 1) for i in range(size)]
    else:
        made = [a * (1 - i / (size + 1)) for i in range(size)]
    return np.stack([np.asarray(x, a.dtype) for x in made]) if made else a[None][:0]


def check_sharded(f: Function, arrays: Sequence[np.ndarray], seed: int = 0) -> None:
    """An op, or a function of nodes, on parts gives what it gives on whole operands: for random
    meshes and specs, on simulated devices. What pads the parts is garbage."""
    rng = np.random.default_rng(seed)
    want = run(graph_of(f, arrays), arrays)
    for shape, names in (((2,), ("x",)), ((3,), ("x",)), ((2, 2), ("x", "y"))):
        mesh = DeviceMesh(shape, names)
        shardings = [random_sharding(rng, mesh, np.ndim(a)) for a in arrays]
        try:
            got = run_sharded(f, arrays, shardings, mesh)
            for g, w in zip(got, want, strict=True):
                assert_close(g, w, scale=10)
        except Exception as error:
            error.add_note(f"on {mesh} with {', '.join([str(s.spec) for s in shardings])}")
            raise


def random_sharding(rng: Any, mesh: DeviceMesh, rank: int) -> Sharding:
    """A spec in which every axis of the mesh splits some dimension, or none."""
    dims: list[tuple[str, ...]] = [()] * rank
    for axis in rng.permutation(mesh.axis_names):
        d = rng.integers(-1, rank)
        if d >= 0:
            dims[d] = (*dims[d], str(axis))
    return Sharding(mesh, P(*dims))


def run_sharded(
    f: Function, arrays: Sequence[np.ndarray], shardings: Sequence[Sharding], mesh: DeviceMesh
) -> list[np.ndarray]:
    """The results of `f` on operands that lie as said, computed by simulated devices."""
    graph = sharded_graph(f, arrays, shardings)
    program = simulated(partition(graph, mesh).graph, mesh)
    stacks = [_stacked(np.asarray(a), s) for a, s in zip(arrays, shardings, strict=True)]
    made = []
    for stack, y in zip(run(program, stacks), graph.outputs, strict=True):
        parts = stack.reshape(mesh.size, *stack.shape[len(mesh.shape) :])
        lies = y.type.sharding or Sharding(mesh, P())
        made.append(join(dict(enumerate(parts)), lies, y.type.shape))
    return made


def sharded_graph(
    f: Function, arrays: Sequence[np.ndarray], shardings: Sequence[Sharding]
) -> Graph:
    """`f` as a graph over inputs that lie as said."""
    types = [Type(np.shape(a), dtypes.dtype(a.dtype), s) for a, s in zip(arrays, shardings)]
    inputs = [Input.of_type(f"x{i}", t) for i, t in enumerate(types)]
    return Graph(inputs, several(f(*inputs)))


def _stacked(array: np.ndarray, sharding: Sharding) -> np.ndarray:
    """The parts of all devices, with the mesh in front; where they are padded, with garbage."""
    mesh = sharding.mesh
    shape = [n * sharding.parts(i) for i, n in enumerate(sharding.local_shape(array.shape))]
    garbage = np.nan if array.dtype.kind in "fc" or array.dtype.kind == "V" else 77
    padded = np.full(shape, garbage, array.dtype)
    padded[tuple([slice(n) for n in array.shape])] = array
    parts = [padded[places(sharding, array.shape, k)] for k in range(mesh.size)]
    return np.stack(parts).reshape(*mesh.shape, *parts[0].shape)


def check_op(op: Op, *arrays: Any, order: int = 2) -> None:
    """Run the op table's checks on an op of your own, applied to `arrays`; the first that fails
    raises.

    The inferred type is NumPy's, XLA agrees with NumPy, derivatives in both modes agree with
    central differences up to `order`, the batching rule with a loop over examples, and parts of
    the operands on simulated devices give what whole ones give.

    >>> import pullback as pb
    >>> from pullback import testing
    >>> testing.check_op(pb.op("Sin"), [0.5, 1.5])
    """
    from pullback.ops.elementwise.base import Elementwise
    from pullback.tensor.program import engine

    given = [np.asarray(a) for a in arrays]
    check_type(op, given)
    check_engine(op, given, engine("xla"))
    if op.differentiable:
        wide = [a.astype(_WIDE.get(a.dtype.kind, a.dtype)) for a in given]
        check_derivatives(op, wide, order)
        if isinstance(op, Elementwise):
            check_cotangent_shapes(op, wide)
    check_batch(op, given)
    for seed in range(4):
        check_sharded(op, given, seed)


_WIDE = {"f": np.float64, "c": np.complex128}


def linear_map(f: Function, arrays: Sequence[np.ndarray]) -> tuple[Graph, Graph]:
    """Graphs of jvp (xs, ts -> tangents) and vjp (xs, gs -> cotangents) of f's inexact parts."""
    base = graph_of(f, arrays)
    active = [x for x in base.inputs if is_differentiable(x.type)]
    ys = [y for y in base.outputs if is_differentiable(y.type)]
    ts = [Input("t", x.type.shape, x.type.dtype)() for x in active]
    gs = [Input("g", y.type.shape, y.type.dtype)() for y in ys]
    pushed = [t or zeros(y.type) for y, t in zip(ys, tangents(ys, active, ts))]
    pulled = [g or zeros(x.type) for x, g in zip(active, gradients(ys, gs, active))]
    return Graph([*base.inputs, *ts], pushed), Graph([*base.inputs, *gs], pulled)


def _inner(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> float:
    """The real inner product of two lists of arrays."""
    return sum(float(np.real(np.vdot(y, x))) for x, y in zip(xs, ys, strict=True))


def _random_like(arrays: Sequence[np.ndarray], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for a in arrays:
        v = rng.standard_normal(a.shape)
        made.append(v + 1j * rng.standard_normal(a.shape) if np.iscomplexobj(a) else v)
    return [np.asarray(v, a.dtype) for v, a in zip(made, arrays)]


def check_derivatives(
    f: Function, arrays: Sequence[np.ndarray], order: int = 2, eps: float = 1e-6, rtol: float = 1e-5
) -> None:
    """jvp against central differences, vjp against jvp, and the same for both to `order`.

    Operands are float64 or complex128; others are constants.
    """
    arrays = [np.asarray(a) for a in arrays]
    jvp, vjp = linear_map(f, arrays)
    where = [i for i, a in enumerate(arrays) if a.dtype.kind in "fc"]
    outs = [i for i, y in enumerate(graph_of(f, arrays).outputs) if is_differentiable(y.type)]
    if not where or not outs:
        return
    ts = _random_like([arrays[i] for i in where], seed=1)
    pushed = run(jvp, [*arrays, *ts])

    def shifted(step: float) -> list[np.ndarray]:
        moved = list(arrays)
        for i, t in zip(where, ts):
            moved[i] = np.asarray(arrays[i] + step * t, arrays[i].dtype)
        made = run(graph_of(f, arrays), moved)
        return [made[i] for i in outs]

    for plus, minus, t in zip(shifted(eps), shifted(-eps), pushed, strict=True):
        slope = (plus - minus) / (2 * eps)
        size = max(1.0, float(np.abs(slope).max(initial=0.0)))
        np.testing.assert_allclose(t, slope, rtol=rtol, atol=rtol * size)

    gs = _random_like(pushed, seed=2)
    pulled = run(vjp, [*arrays, *gs])
    left, right = _inner(pushed, gs), _inner(ts, pulled)
    size = max(1.0, abs(left), sum(float(np.abs(p * g).sum()) for p, g in zip(pushed, gs)))
    assert abs(left - right) <= 1e-9 * size, f"<jvp t, g> = {left}, <t, vjp g> = {right}"

    if order > 1:
        constants = [np.asarray(g) for g in gs]

        def gradient_of(*xs: Node) -> tuple[Node, ...]:
            graph = graph_of(f, arrays)
            ys = [y for y in graph(*xs) if is_differentiable(y.type)]
            seeds = [_const(g) for g in constants]
            active = [xs[i] for i in where]
            found = gradients(ys, seeds, active)
            return tuple(g if g is not None else zeros(x.type) for x, g in zip(active, found))

        check_derivatives(gradient_of, arrays, order - 1, eps, rtol * 10)


def _const(array: np.ndarray) -> Node:
    from pullback.ops.structure import Const

    return Const(dtypes.dtype(array.dtype), array.shape, array.tobytes())()


def check_cotangent_shapes(op: Op, arrays: Sequence[np.ndarray]) -> None:
    """Rules of broadcasting ops return cotangents in the output's shape, not reduced ones."""
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


def cast_operands(arrays: Sequence[np.ndarray], dtype: DType) -> list[np.ndarray]:
    """The sample with its float64 operands in another element type."""
    with np.errstate(all="ignore"):  # infinities and NaN are among the samples
        return [_cast(np.asarray(a), dtype) for a in arrays]


def _cast(a: np.ndarray, dtype: DType) -> np.ndarray:
    if a.dtype != np.float64:
        return a
    if dtype.kind in "iub":
        return np.abs(np.round(a * 3)).astype(dtype.numpy)
    if dtype.is_complex:
        return (a + 0.5j * a[..., ::-1] if a.ndim else a + 0.25j).astype(dtype.numpy)
    return a.astype(dtype.numpy)
