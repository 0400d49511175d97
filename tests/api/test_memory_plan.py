"""memory_plan: the predicted peak, and the values that the backward pass keeps."""

from __future__ import annotations

import numpy as np
import pytest
from devices import on_devices
from helpers import line

import pullback as pb
from pullback.api.placeholders import program_on_placeholders
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.memory_estimate import PRODUCT_WORKSPACE, Footprint
from pullback.graph.canonical import canonicalise

WORKSPACE = 0 if registered_engine("xla").platform == "cpu" else PRODUCT_WORKSPACE

RNG = np.random.default_rng(0)


def normal(*shape, scale=0.1):
    return pb.tensor((RNG.standard_normal(shape) * scale).astype("f"))


def network(activation, depth=5, rows=256, width=128, safe=False):
    def layer(x, w, b):
        return activation(x @ w + b)

    layer = pb.checkpoint(layer) if safe else layer

    def loss(ws, x, y):
        for w, b in ws:
            x = layer(x, w, b)
        return ((x - y) ** 2).mean()

    ws = [(normal(width, width), normal(width)) for _ in range(depth)]
    return loss, (ws, normal(rows, width), normal(rows, width))


def feed_forward(activation, depth=4, rows=512, width=64):
    def loss(ws, x):
        for w, v in ws:
            x = x + activation(x @ w) @ v
        return (x * x).mean()

    ws = [(normal(width, 4 * width), normal(4 * width, width)) for _ in range(depth)]
    return loss, (ws, normal(rows, width))


def attention(safe, depth=4, batch=2, time=64, width=64):
    def block(x, w):
        q, k, v = (x @ w[i] for i in range(3))
        scores = pb.softmax(q @ pb.transpose(k, (0, 2, 1)) / 8.0, axis=-1)
        return x + pb.gelu((scores @ v) @ w[3])

    block = pb.checkpoint(block) if safe else block

    def loss(ws, x):
        for w in ws:
            x = block(x, w)
        return (x * x).sum()

    return loss, ([normal(4, width, width) for _ in range(depth)], normal(batch, time, width))


def convolution():
    def loss(ws, x):
        for w in ws:
            x = pb.relu(pb.conv2d(x, w, strides=(1, 1), padding="SAME"))
        return x.sum()

    return loss, ([normal(3, 3, 8, 8) for _ in range(3)], normal(8, 16, 16, 8))


def recurrent(steps=12):
    def loss(w, u, xs):
        h = xs[0]
        for i in range(steps):
            h = pb.tanh(h @ w + xs[i] @ u)
        return (h * h).sum()

    return loss, (normal(64, 64), normal(64, 64), normal(steps, 64, 64))


def classifier():
    def loss(w, x):
        logits = x @ w
        return pb.logsumexp(logits, axis=-1).mean() - logits[:, 0].mean()

    return loss, (normal(64, 1000), normal(128, 64))


def chain():
    def loss(x):
        for _ in range(4):
            x = pb.sin(x) * x + 0.5
        return x.sum()

    return loss, (normal(300, 300),)


def loop(safe):
    def loss(w, x):
        def step(h, _):
            h = pb.sin(pb.tanh(h @ w)) * h
            return h, h.sum()

        last, sums = pb.scan(pb.checkpoint(step) if safe else step, x, None, length=20)
        return (last * last).sum() + sums.sum()

    return loss, (normal(64, 64), normal(128, 64))


# The model of fusion against XLA's buffer assignment: the tolerance in percent.
PROGRAMS = {
    "tanh": (network(pb.tanh), 10),
    "relu": (network(pb.relu), 10),
    "gelu": (network(pb.gelu), 15),
    "checkpointed": (network(pb.gelu, safe=True), 20),
    "feed forward, gelu": (feed_forward(pb.gelu), 10),
    "feed forward, silu": (feed_forward(pb.silu), 10),
    "attention": (attention(False), 20),
    "attention checkpointed": (attention(True), 20),
    "convolution": (convolution(), 25),
    "recurrent": (recurrent(), 15),
    "classifier": (classifier(), 25),
    "scan": (loop(False), 15),
    "checkpointed scan": (loop(True), 15),
    "many layers, in pieces": (attention(False, depth=8), 15),
    "elementwise chain": (chain(), 65),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_measured_peak_confirms_the_predicted_one(name):
    (loss, args), percent = PROGRAMS[name]
    plan = pb.memory_plan(pb.value_and_grad(loss))(*args)
    measured = plan.measure()
    assert abs(plan.peak / measured - 1) < percent / 100, (plan.peak, measured)


# Peaks that XLA reported on an H200; 32 MiB are cuBLAS's. The chain differs by a factor there.
ON_GPU = {
    "tanh": 35267180, "relu": 35268204, "gelu": 35791468, "checkpointed": 35400828,
    "feed forward, gelu": 39982940, "feed forward, silu": 39982940, "attention": 34995524,
    "attention checkpointed": 34527556, "convolution": 345908, "recurrent": 34169892,
    "classifier": 35123748, "scan": 36310612, "checkpointed scan": 34376764,
    "many layers, in pieces": 36322660,
}  # fmt: skip


@pytest.mark.parametrize("name", ON_GPU)
def test_the_peak_on_a_gpu_is_predicted(name):
    loss, args = PROGRAMS[name][0]
    graph = program_on_placeholders("memory_plan", pb.value_and_grad(loss), args, {})
    found = Footprint(graph, kernels=True, platform="cuda")
    peak = found.arguments + found.results + found.temporaries
    workspace = 2**25 if ON_GPU[name] > 2**25 else 0  # most of the peak of such small programs
    assert abs(peak / ON_GPU[name] - 1) < (0.03 if workspace else 0.2)
    assert abs((peak - workspace) / (ON_GPU[name] - workspace) - 1) < 0.35


def test_a_checkpoint_is_predicted_to_need_less_and_does():
    plain, safe = (pb.memory_plan(pb.grad(f))(*args) for f, args in map(attention, (False, True)))
    assert safe.kept_bytes < 0.4 * plain.kept_bytes
    assert safe.temporaries - WORKSPACE < 0.6 * (plain.temporaries - WORKSPACE)
    assert safe.measure() < plain.measure()


def test_a_checkpointed_loop_keeps_only_the_states():
    plain, safe = (pb.memory_plan(pb.grad(f))(*args) for f, args in map(loop, (False, True)))
    stack = 4 * 20 * 128 * 64
    kept = [sum(k.nbytes == stack for k in plan.kept) for plan in (plain, safe)]
    assert kept[0] > 1 and kept[1] == 1
    assert safe.measure() < plain.measure() - 0.8 * stack


def test_kept_values_have_line_shape_dtype_and_bytes():
    where = []

    def loss(w, x):
        where.append(line(1))
        h = pb.tanh(x @ w)
        where.append(line(1))
        return pb.exp(h @ w).sum()

    w, x = normal(8, 8), normal(100, 8)
    plan = pb.memory_plan(pb.grad(loss))(w, x)
    assert plan.arguments == 4 * (64 + 800) and plan.results == 4 * 64
    first = plan.kept[0]
    assert (first.shape, first.dtype, first.nbytes) == ((100, 8), pb.float32, 3200)
    assert [(k.operation, str(k.where)) for k in plan.kept] == [
        ("tanh", where[0]), ("matmul", where[1]),
    ]  # fmt: skip
    assert plan.kept_bytes == sum(k.nbytes for k in plan.kept) == 6400
    assert plan.peak == plan.arguments + plan.results + plan.temporaries


def test_the_largest_comes_first():
    def loss(x, y):
        return pb.tanh(x @ x).sum() * pb.tanh(y @ y).sum()

    kept = pb.memory_plan(pb.grad(loss, (0, 1)))(normal(4, 4), normal(16, 16)).kept
    assert [k.nbytes for k in kept] == sorted((k.nbytes for k in kept), reverse=True)
    assert kept[0].shape == (16, 16)


def test_a_forward_pass_keeps_nothing():
    loss, args = network(pb.tanh)
    plan = pb.memory_plan(loss)(*args)
    assert plan.kept == () and "keeps nothing" not in str(plan)
    assert "no backward pass keeps anything" in str(plan)


def test_it_names_what_the_user_wrote():
    loss, args = network(pb.tanh)
    plan = pb.memory_plan(pb.grad(loss))(*args)
    assert {v.operation for v in plan.kept} <= {"tanh", "add"}
    assert len(plan.kept) == 5


def test_it_prints_a_table():
    loss, args = network(pb.tanh)
    with pb.config(kernels=False):
        plan = pb.memory_plan(pb.grad(loss))(*args)
    text = str(plan)
    assert text == repr(plan)
    assert text.startswith("peak ") and "the backward pass keeps 640.0 KiB" in text
    row = next(r for r in text.splitlines() if "tanh" in r)
    assert row.split()[:4] == [f"test_memory_plan.py:{network.__code__.co_firstlineno + 2}",
                               "tanh", "f32[256,128]", "5"]  # fmt: skip
    assert max(map(len, text.splitlines())) <= 100


def test_types_are_enough_and_nothing_runs():
    from pullback.lazy.launch import state

    before = state.programs_run
    huge = pb.Type((100_000, 100_000), pb.float32)
    plan = pb.memory_plan(pb.grad(lambda x: pb.tanh(x @ x).sum()))(huge)
    assert plan.peak >= 3 * 4 * 10**10
    assert "GiB" in str(plan)
    assert state.programs_run == before


def test_tensors_from_outside_are_arguments():
    w = normal(8, 8)
    plan = pb.memory_plan(lambda x: x @ w)(normal(4, 8))
    assert plan.arguments == 4 * (64 + 32) and plan.results == 4 * 32


def test_values_live_at_the_peak():
    loss, args = network(pb.tanh)
    plan = pb.memory_plan(pb.grad(loss))(*args)
    assert sum(v.nbytes for v in plan.live) >= plan.temporaries - WORKSPACE
    assert any(v.operation == "tanh" for v in plan.live)


def test_equal_work_counts_once_and_dead_work_not_at_all():
    def twice(x):
        pb.exp(x @ x @ x)
        return (x @ x).sum() + (x @ x).sum()

    def once(x):
        return (x @ x).sum() * 2.0

    x = normal(64, 64)
    assert pb.memory_plan(twice)(x).temporaries == pb.memory_plan(once)(x).temporaries


# -- what XLA says -------------------------------------------------------------------------------


def temporaries(f, *args):
    """The temporary memory of the program of `f` in bytes, as XLA reports it."""
    graph = canonicalise(pb.trace(f, *args).graph)
    return registered_engine("xla", "cpu").compile(graph).memory().temporaries


def test_a_checkpointed_network_needs_less():
    n, d, depth = 256, 64, 12
    rng = np.random.default_rng(0)
    ws = [pb.tensor(rng.standard_normal((d, d)).astype("f") * 0.1) for _ in range(depth)]
    x = pb.tensor(rng.standard_normal((n, d)).astype("f"))

    def layer(x, w):
        return pb.sin(pb.tanh(x @ w)) * x

    def run(parts, safe):
        def four(x, *ws):
            for w in ws:
                x = layer(x, w)
            return x

        f = pb.checkpoint(four) if safe else four

        def loss(ws, x):
            for i in range(0, depth, parts):
                x = f(x, *ws[i : i + parts])
            return (x * x).sum()

        return temporaries(pb.grad(loss), ws, x)

    activation = 4 * n * d
    plain = run(1, safe=False)
    assert plain > 2 * depth * activation
    assert run(1, safe=True) < plain - 0.8 * depth * activation
    block = 4 * 4 * d * d  # bytes of its weights: a barrier copies its operands on CPU
    assert run(4, safe=True) < 0.5 * plain + 1.1 * block


def test_checkpointed_attention_needs_less():
    n, d, depth = 128, 32, 6
    rng = np.random.default_rng(0)
    ws = [pb.tensor(rng.standard_normal((4, d, d)).astype("f") * 0.1) for _ in range(depth)]
    x = pb.tensor(rng.standard_normal((n, d)).astype("f"))

    def layer(x, w):
        q, k, v, o = (x @ w[i] for i in range(4))
        return x + (pb.softmax(q @ k.T, axis=-1) @ v) * o

    def run(f):
        def loss(ws, x):
            for w in ws:
                x = f(x, w)
            return (x * x).sum()

        return temporaries(pb.grad(loss), ws, x)

    plain, safe = run(layer), run(pb.checkpoint(layer))
    scores = 4 * n * n
    assert plain > depth * scores
    assert safe < plain - (depth - 2) * scores


# -- on a mesh -----------------------------------------------------------------------------------

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))
SPECS = [pb.P(), pb.P("dp"), pb.P(None, "tp"), pb.P("dp", "tp"), pb.P(("dp", "tp"))]


def on_mesh(spec, *shape):
    return pb.Type(shape, pb.float32, pb.Sharding(MESH, spec))


def recurrent(x, w):
    return pb.scan(lambda h, _: (pb.tanh(h @ w), None), x, None, length=3)[0].sum()


def mapped(x, w):
    def local(x, w):
        return pb.psum((x @ w).sum(), ("dp", "tp"))

    return pb.shard_map(local, MESH, (pb.P("dp"), pb.P(None, "tp")), pb.P())(x, w)


@pytest.mark.parametrize("f", [recurrent, pb.grad(recurrent, argnums=(0, 1)), mapped])
def test_programs_on_a_mesh_can_be_planned(f):
    """A value that is the same on all devices may be used as one that differs between them."""
    for a, b in [(a, b) for a in SPECS for b in SPECS]:
        x, w = on_mesh(a, 16, 64), on_mesh(b, 64, 64)
        shards = [t.sharding.local_shape(t.shape) for t in (x, w)]
        plan = pb.memory_plan(f)(x, w)
        assert plan.arguments == 4 * sum([m * n for m, n in shards]), (a, b)
        assert plan.peak >= plan.arguments + plan.results


@on_devices
def test_gathered_values_take_memory():
    def gathered(x, w):
        return pb.tanh(pb.reshard(x, pb.P())) @ w

    def summed(x, w):
        return pb.reshard(x, pb.P()).sum(1)

    for f, a, b in [
        (gathered, pb.P("dp", "tp"), pb.P("tp")),
        (gathered, pb.P(None, ("dp", "tp")), pb.P(None, "tp")),
        (summed, pb.P(("dp", "tp")), pb.P()),
        (lambda x, w: pb.sort(x, axis=1) @ w, pb.P("dp", "tp"), pb.P("tp")),
        (lambda x, w: pb.reshard(x, pb.P(None, ("dp", "tp"))) + 1, pb.P(("dp", "tp")), pb.P()),
    ]:
        plan = pb.memory_plan(f)(on_mesh(a, 1024, 512), on_mesh(b, 512, 512))
        assert plan.peak == pytest.approx(plan.measure(), rel=0.35), (a, b, str(plan))
        assert plan.temporaries > 0
