"""Programs that repeat themselves are cut into segments; equal ones are compiled once."""

from __future__ import annotations

import gc
import pathlib
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla import engine as xla_engine
from pullback.engines.xla.sequence import XlaSequence, XlaSequenceOutcomes
from pullback.graph.compile_split import split_into_segments
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_kinds import RearrangementKind, ResultSourceKind
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.prelude import interpret

WIDTH = 5


def layer(x, p):
    h = pb.tanh(x @ p["w"] + p["b"])
    h = (h - h.mean(axis=-1, keepdims=True)) * 1.5
    best, place = pb.max(h, axis=-1, keepdims=True), pb.argmax(h, axis=-1, keepdims=True)
    for _ in range(4):  # long enough for a segment
        h = pb.sin(h) * 0.9 + pb.cos(h * 0.5) / (1.0 + best * best)
    return x + 0.1 * h + pb.take_along_axis(h, place, axis=-1)


def model(params, x):
    h = x + 0.5
    for p in params:
        h = layer(h, p)
    return (h * h).sum()


def parameters(layers):
    rng = np.random.default_rng(0)
    return [
        {"w": pb.tensor(rng.normal(size=(WIDTH, WIDTH))), "b": pb.tensor(rng.normal(size=WIDTH))}
        for _ in range(layers)
    ]


X = np.random.default_rng(1).normal(size=(3, WIDTH))


def training_graph(layers):
    params = parameters(layers)
    return pb.trace(lambda *ps: pb.value_and_grad(model)(list(ps), pb.tensor(X)), *params).graph


def test_deeper_models_have_no_more_different_segments():
    def different(layers):
        return {s.graph.structure for s in split_into_segments(training_graph(layers))}

    few, many = different(8), different(32)
    assert len(many) == len(few) < 8
    assert sum(len(s.parts) for s in many) < 1.5 * sum(len(s.parts) for s in few)


def check_segments(graph):
    """The segments of a graph compute what all of it computes."""
    rng = np.random.default_rng(2)
    arrays = [np.asarray(rng.normal(size=x.type.shape), x.type.dtype.numpy) for x in graph.inputs]
    parts = split_into_segments(graph)
    assert len(parts) > 4
    values = dict(zip(graph.inputs, arrays, strict=True))
    for part in parts:
        made = interpret(part.graph, [values[x] for x in part.takes])
        values.update(zip(part.gives, made, strict=True))
    for y, want in zip(graph.outputs, interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(values[y], want)


def heads_model(params, x):
    """Layers whose queries and keys are transposed slices of one product."""
    for p in params:
        both = (x @ p["w"]).reshape(3, 2, WIDTH, 1)
        q, k = (both[:, i].transpose(1, 0, 2) for i in range(2))
        h = pb.tanh(q * k).sum(axis=-1).T
        for _ in range(3):
            h = pb.sin(h) * 0.9 + pb.cos(h * 0.5) / (1.0 + h * h)
        x = x + 0.1 * h
    return (x * x).sum()


def test_rearranged_values_are_handed_over_as_they_were_before():
    """A transpose that one segment computes and another reads would be written to memory."""
    rng = np.random.default_rng(0)
    params = [{"w": pb.tensor(rng.normal(size=(WIDTH, 2 * WIDTH)))} for _ in range(6)]

    def both(*ps):
        return pb.value_and_grad(heads_model)(list(ps), pb.tensor(X))

    graph = pb.trace(both, *params).graph
    check_segments(graph)
    taken = {x for part in split_into_segments(graph) for x in part.takes}
    wide = [x for x in taken if x.type.shape == (3, 2 * WIDTH) and isinstance(x.op, MatMul)]
    assert len(wide) == len(params)
    rearranged = [x for x in taken if isinstance(x.op, RearrangementKind)]
    assert all(x in graph.outputs for x in rearranged), rearranged


def test_a_small_slice_is_handed_over_itself():
    """The value that it is a part of would be kept in memory."""

    def f(x):
        first = pb.exp(x)[:2]
        for _ in range(8):
            h = x
            for _ in range(6):
                h = pb.sin(h) * 0.9 + pb.cos(h * 0.5)
            x = x + h
        return (x[:2] * first).sum()

    graph = pb.trace(f, pb.tensor(np.arange(100.0))).graph
    check_segments(graph)
    taken = {x for part in split_into_segments(graph)[-1:] for x in part.takes}
    assert any(x.type.shape == (2,) for x in taken)
    assert not any(x.op.name == "Exp" for x in taken)


@pytest.mark.parametrize("layers", [4, 7, 13])
def test_segments_compute_the_same_as_the_whole_program(layers):
    check_segments(training_graph(layers))


def test_results_may_stand_far_behind_their_op():
    def f(x, *params):
        last, sums = pb.scan(lambda h, p: (h @ p, h.sum()), x, pb.stack([params[0]] * 3))
        for p in params:
            last = layer(last, {"w": p, "b": last[0]})
        return last, sums

    shapes = [pb.tensor(X), *[pb.tensor(np.eye(WIDTH))] * 8]
    traced = pb.trace(f, *shapes).graph
    last, sums = traced.outputs
    late = Node(sums.op, sums.inputs, sums.type, sums.where, (), sums.forward_op)
    graph = Graph(traced.inputs, [last, late])
    assert graph.nodes[-1] is late and isinstance(late.op, ResultSourceKind)
    check_segments(graph)


def test_many_short_repetitions_are_not_cut():
    def update(count):
        params = [pb.tensor(np.ones(3))] * count
        return split_into_segments(pb.trace(lambda *ps: [p + p * p for p in ps], *params).graph)

    assert update(100) == []  # all of it is no longer than a segment
    assert len(update(1000)) > 4


def test_the_engine_runs_segments_as_one_program():
    pb.clear_cache()  # no segment is in memory
    params, x = parameters(9), pb.tensor(X)
    before = pb.engine_info().programs_run, pb.cache_info().compiles
    value, grads = pb.value_and_grad(model)(params, x)
    value.item()
    after = pb.engine_info().programs_run, pb.cache_info().compiles
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    with pb.config(engine="reference"):
        want, wanted = pb.value_and_grad(model)(params, x)
        np.testing.assert_allclose(value.item(), want.item(), rtol=1e-12)
        for got, g in zip(pb.tree.leaves(grads), pb.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(got.numpy(), g.numpy(), rtol=1e-9, atol=1e-12)


def test_equal_segments_of_other_programs_are_reused(monkeypatch, on_cpu):
    compiled = []
    plain = xla_engine.XlaEngine._compile
    monkeypatch.setattr(
        xla_engine.XlaEngine, "_compile", lambda *args: compiled.append(args) or plain(*args)
    )
    small = registered_engine("xla").compile(training_graph(8))
    count = len(compiled)
    deep = registered_engine("xla").compile(training_graph(16))
    assert isinstance(small, XlaSequence) and isinstance(deep, XlaSequence)
    assert len(compiled) - count < count  # the ends may differ


@pytest.mark.usefixtures("cold_disk")
def test_segments_are_loaded_from_disk():
    params, x = parameters(9), pb.tensor(X)
    bits = []
    for compiles, disk_hits in ((1, 0), (0, 1)):
        pb.clear_cache()
        value, grads = pb.value_and_grad(model)(params, x)
        bits.append([v.numpy().tobytes() for v in (value, *pb.tree.leaves(grads))])
        info = pb.cache_info()
        assert (info.compiles, info.disk_hits, info.programs) == (compiles, disk_hits, 1)
        assert info.memory_bytes > 2 * info.disk_bytes > 0
    assert bits[0] == bits[1]


def test_scalars_may_change_in_every_segment():
    def f(x, scales):
        for s in scales:
            x = layer(x * s, {"w": W, "b": B})
        return x.sum()

    W, B = pb.tensor(np.eye(WIDTH)), pb.tensor(np.zeros(WIDTH))
    x = pb.tensor(X)
    first = [f(x, [1.0 + i / 10 for i in range(8)]).item(), f(x, [0.5] * 8).item()]
    compiles = pb.cache_info().compiles
    again = [f(x, [1.0 + i / 10 for i in range(8)]).item(), f(x, [0.25] * 8).item()]
    assert pb.cache_info().compiles == compiles
    assert again[0] == first[0] and again[1] != first[1]
    with pb.config(engine="reference"):
        np.testing.assert_allclose(again[0], f(x, [1.0 + i / 10 for i in range(8)]).item())
        np.testing.assert_allclose(again[1], f(x, [0.25] * 8).item())


def test_a_failed_check_in_a_segment_names_its_line():
    def f(x, places):
        for i in places:
            x = layer(x, {"w": W, "b": B})
            x = x + pb.take(x, i, axis=1)[:, None]  # the line
        return x

    W, B = pb.tensor(np.eye(WIDTH)), pb.tensor(np.zeros(WIDTH))
    x = pb.tensor(X)
    good = [pb.tensor(i % WIDTH) for i in range(8)]
    f(x, good).numpy()
    bad = [*good[:5], pb.tensor(WIDTH), *good[6:]]
    with pytest.raises(IndexError, match=r"test_compile_split\.py") as error:
        f(x, bad).numpy()
    lines = pathlib.Path(__file__).read_text().splitlines()
    assert "# the line" in lines[error.value.where.line - 1]


@pytest.mark.parametrize("bad", [0, 6])
def test_outputs_of_other_pieces_are_read_before_a_check_fails(bad, monkeypatch, on_cpu):
    """Reading one waits for its own checks alone: here, none counts as over yet."""
    fails, asked = XlaSequence.fails, []
    monkeypatch.setattr(XlaSequenceOutcomes, "is_ready", lambda self: False)
    monkeypatch.setattr(XlaSequence, "fails", lambda *xs: asked.append(fails(*xs)) or asked[-1])
    w, x = {"w": pb.tensor(np.eye(WIDTH)), "b": pb.tensor(np.zeros(WIDTH))}, pb.tensor(X)
    places = [pb.tensor(WIDTH if i == bad else i % WIDTH) for i in range(8)]
    values = []
    for i in places:
        x = layer(x, w)
        x = x + pb.take(x, i, axis=1)[:, None]
        values.append(x.sum())
    pb.evaluate(*values)
    for k, value in enumerate(values):
        if k < bad:
            assert np.isfinite(value.item())
        else:
            with pytest.raises(IndexError):
                value.item()
    assert asked == [False] * bad + [True]


def test_outputs_that_are_inputs_or_constants(on_cpu):
    graph = training_graph(6)
    x = graph.inputs[0]
    constant = next(n for n in graph.nodes if n.op.name == "Const")
    wider = Graph(graph.inputs, [*graph.outputs, x, constant, constant])
    e = registered_engine("xla")
    rng = np.random.default_rng(2)
    arrays = [np.asarray(rng.normal(size=i.type.shape), i.type.dtype.numpy) for i in wider.inputs]
    program = e.compile(wider)
    assert isinstance(program, XlaSequence)
    made = program.run([e.put(np.array(a), i.type) for a, i in zip(arrays, wider.inputs)])
    for got, want in zip(made, interpret(wider, arrays), strict=False):
        np.testing.assert_allclose(e.get(got), want, rtol=1e-9, atol=1e-12)


def test_programs_without_repetition_are_not_cut():
    def f(x):
        for op in (pb.sin, pb.cos, pb.exp, pb.tanh, pb.sqrt, pb.abs, pb.square, pb.atan, pb.sinh):
            x = op(x) + 1
        return x

    assert split_into_segments(pb.trace(f, pb.tensor([1.0])).graph) == []


def test_a_program_in_pieces_is_freed_at_once():
    """It is not part of a cycle, which only the garbage collector would break."""
    xs = [pb.ones(2) + i for i in range(400)]
    graph = pb.trace(lambda *xs: [x + 1 for x in xs], *xs).graph
    program = registered_engine("xla", "cpu").compile(graph)
    assert isinstance(program, XlaSequence)
    assert program.direct[0] is not None
    freed = weakref.ref(program)
    gc.disable()
    try:
        del program
        assert freed() is None
    finally:
        gc.enable()
