"""Sums of deviations from a mean are formed together, and give the same values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.nn import functional as F
from pullback.ops.interpret import interpret
from pullback.ops.reduce import centred_sums
from pullback.ops.reduce.centred_sums import PART
from pullback.ops.reduce.reductions import Reduction
from pullback.transforms.lowered_form import lowered_form
from pullback.transforms.replacement import with_replacements

RNG = np.random.default_rng(0)
SHAPE = (64, 5, 4, 3)


@pytest.fixture(autouse=True)
def small_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centred_sums, "SMALLEST", 64)


def with_centred_sums(graph: Graph) -> tuple[Graph, dict[Node, Node]]:
    places = centred_sums.centred_sums(graph)
    return with_replacements(graph, places) if places else (graph, {})


def random(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def program(f: Callable[..., Any], *arrays: np.ndarray) -> tuple[Graph, list[np.ndarray]]:
    """The canonical graph of a function, and arrays for its inputs."""
    lowered = pb.compile(f).lower(*map(pb.tensor, arrays))
    return lowered.graph, list(arrays)


def passes(graph: Graph, size: int) -> int:
    """How often arrays of a size are read to be reduced, if reads that can be shared are."""
    depths: dict[Node, int] = {}
    for node in graph.nodes:
        large = isinstance(node.op, Reduction) and node.inputs[0].type.size == size
        depths[node] = large + max((depths[x] for x in node.inputs), default=0)
    return max(depths[y] for y in graph.outputs)


def check_same(f: Callable[..., Any], *arrays: np.ndarray) -> tuple[Graph, Graph]:
    """A program before and after, once it was found to compute the same in f32 as in f64."""
    graph, _ = program(f, *arrays)
    made, origins = with_centred_sums(graph)
    wanted = interpret(*program(f, *[x.astype(np.float64) for x in arrays]))
    for want, found in zip(wanted, interpret(made, arrays), strict=True):
        scale = max(np.abs(want).max(), 1)
        np.testing.assert_allclose(found / scale, want / scale, rtol=0, atol=5e-6)
    assert made.inputs == graph.inputs
    assert set(origins.values()) <= set(graph.nodes)
    return graph, made


def relu_of_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (pb.relu(F.batch_norm(x, weight=scale, bias=shift, training=True)) ** 2).sum()


def norm_gradient(x: Any, scale: Any, shift: Any) -> Any:
    return pb.value_and_grad(relu_of_norm, argnums=(0, 1, 2))(x, scale, shift)


def test_batch_norm_and_its_gradient_take_fewer_passes() -> None:
    graph, made = check_same(norm_gradient, random(*SHAPE), random(3), random(3))
    size = graph.inputs[0].type.size
    assert passes(graph, size) == 4
    assert passes(made, size) == 2  # x with its squares, and the cotangent
    assert sum(n.op.name == "Sum" and n.inputs[0].type.size == size for n in made.nodes) <= 5


def with_other_layout(x: Any, g: Any) -> Any:
    y, pull = pb.vjp(lambda x: F.batch_norm(x, training=True, layout="NCHW"), x)
    return y, pull(g)


def group_norm_gradient(x: Any, g: Any) -> Any:
    y, pull = pb.vjp(lambda x: F.group_norm(x, 2), x)
    return y, pull(g)


def instance_norm_gradient(x: Any, g: Any) -> Any:
    y, pull = pb.vjp(F.instance_norm, x)
    return y, pull(g)


def handwritten(x: Any, g: Any) -> Any:
    def norm(x: Any) -> Any:
        d = x - x.mean(axis=(0, 1), keepdims=True)
        return d / pb.sqrt((d * d).mean(axis=(0, 1), keepdims=True) + 1e-3)

    y, pull = pb.vjp(norm, x)
    return y, pull(g)


def with_statistics(x: Any, g: Any) -> Any:
    def norm(x: Any) -> Any:
        return tuple(F.batch_norm_train(x, pb.zeros(x.shape[-1]), pb.ones(x.shape[-1])))

    (y, *statistics), pull = pb.vjp(norm, x)
    return y, statistics, pull((g, *map(pb.zeros_like, statistics)))


def second_derivative(x: Any, g: Any) -> Any:
    def slope(x: Any) -> Any:
        return (pb.grad(lambda x: (F.batch_norm(x, training=True) ** 3).sum())(x) * g).sum()

    return pb.grad(slope)(x)


def tangent(x: Any, g: Any) -> Any:
    return pb.jvp(lambda x: F.batch_norm(x, training=True), (x,), (g,))


def of_examples(x: Any, g: Any) -> Any:
    return pb.vmap(handwritten, in_axes=1)(x, g)


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (with_other_layout, (64, 3, 5)), (group_norm_gradient, (4, 16, 16, 6)),
        (instance_norm_gradient, (4, 16, 9, 6)), (handwritten, (32, 5, 7)),
        (with_statistics, (70, 4)), (second_derivative, (64, 4)), (tangent, (65, 3, 2)),
        (of_examples, (32, 5, 6, 3)),
    ],
)  # fmt: skip
def test_norms_and_their_derivatives_are_the_same(f: Any, shape: tuple[int, ...]) -> None:
    graph, made = check_same(f, random(*shape) + 2, random(*shape))
    assert any(n.op.name == "IsFinite" for n in made.nodes)  # a shift was taken
    assert passes(made, graph.inputs[0].type.size) <= passes(graph, graph.inputs[0].type.size)


def variance(x: Any) -> Any:
    return pb.var(x, axis=0)


def hostile() -> Iterator[Any]:
    """Arrays whose sums are not accurate, or whose part tells little about the rest."""
    yield pytest.param(random(4096, 3) + 1e4, 1e-5, id="far from zero")
    yield pytest.param(
        np.linspace(-5, 9, 3 * 4096, dtype=np.float32).reshape(-1, 3), 1e-5, id="ramp"
    )
    for start, stop in ((0, 64), (64, 4096)):
        x = 1e-3 * random(4096, 3)
        x[start:stop] += 1e3
        yield pytest.param(x, 1e-4, id=f"step at {stop}")
    for row in (0, 4095):
        x = random(4096, 3)
        x[row] = 1e6
        yield pytest.param(x, 1e-4, id=f"outlier at {row}")
    x = 1e-3 * random(4096, 3)
    x[::PART] += 1e3  # all of the part is far from the rest: no other data has a larger error
    yield pytest.param(x, 2e-3, id="other part")
    yield pytest.param(np.float32(0.1) * random(128, 3), 1e-6, id="few rows")


@pytest.mark.parametrize(("x", "tolerance"), [*hostile()])
def test_variances_are_accurate(x: np.ndarray, tolerance: float) -> None:
    made, _ = with_centred_sums(program(variance, x)[0])
    assert passes(made, x.size) == 1
    for found in (interpret(made, [x]), computed_by_xla(made, x)):
        np.testing.assert_allclose(found[0], x.astype(np.float64).var(axis=0), rtol=tolerance)


def computed_by_xla(graph: Graph, *arrays: np.ndarray) -> list[np.ndarray]:
    engine = registered_engine("xla", None)
    run = engine.compile(graph)
    buffers = [engine.put(x, n.type) for x, n in zip(arrays, graph.inputs, strict=True)]
    return [np.asarray(engine.get(y)) for y in run.run(buffers)]


def statistics(x: Any) -> Any:
    return pb.mean(x, axis=0), pb.var(x, axis=0), F.batch_norm(x, training=True)


def test_numbers_that_are_not_finite_come_out_as_before() -> None:
    x = random(128, 12)
    x[0, 0] = x[0, 3] = x[100, 3] = np.inf
    x[100, 1] = x[1, 4] = -np.inf
    x[0, 2] = x[100, 5] = np.nan
    x[0, 6], x[9, 6] = np.inf, -np.inf
    x[:, 7] *= 1e25  # squares are infinite, and so is the variance
    x[1:, 8] = 1e30
    x[:, 9] = 0.1
    x[:, 10] = 0
    x[:, 11] *= 1e-30
    graph, _ = program(statistics, x)
    made, _ = with_centred_sums(graph)
    with np.errstate(all="ignore"):
        before, after = interpret(graph, [x]), interpret(made, [x])
    for want, found in (*zip(before, after, strict=True), *zip(before, computed_by_xla(made, x))):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(want))
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-3)
    assert np.all(after[1][9:11] >= 0) and np.all(after[1][9:11] < 1e-15)


def test_rows_small_arrays_and_other_platforms_stay() -> None:
    rows = program(lambda x: pb.var(x, axis=-1), random(64, 64))[0]
    short = program(lambda x: pb.var(x, axis=0), random(8, 64))[0]
    mask = random(64, 64) > 0
    masked = program(lambda x: pb.var(x, axis=0, where=mask), random(64, 64))[0]
    for graph in (rows, short, masked):
        assert with_centred_sums(graph)[0] is graph
    tall = program(variance, random(64, 64))[0]
    assert lowered_form(tall, "cpu")[0] is tall
    assert passes(lowered_form(tall, "cuda")[0], 64 * 64) == 1


def test_sums_without_a_mean_and_long_products_stay() -> None:
    def plain(x: Any, y: Any) -> Any:
        return (x * y * 3).sum(axis=0), (x * 2).sum(axis=0)

    def long(x: Any, y: Any) -> Any:
        d = x - x.mean(axis=0, keepdims=True)
        return (d * y * x).sum(axis=0), (y * 2).sum(axis=0)

    for f in (plain, long):
        graph, _ = program(f, random(64, 64), random(64, 64))
        assert with_centred_sums(graph)[0] is graph
