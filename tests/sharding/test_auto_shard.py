"""auto_shard: specs chosen by the cost model, saved plans, and equal results."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from devices import on_devices

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))
BOTH = ("dp", "tp")
SLOW = pb.Machine(flops=1e6, bandwidth=1e9, latency=1e-9)  # splitting pays for small sizes


def mlp(params, x):
    return pb.relu(x @ params["w1"] + params["b1"]) @ params["w2"]


def loss(params, x):
    return (mlp(params, x) ** 2).mean()


step = pb.value_and_grad(loss)


def f32(*shape):
    return pb.Type(shape, pb.float32)


def weights(width, hidden):
    return {"w1": f32(width, hidden), "b1": f32(hidden), "w2": f32(hidden, width)}


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def values(width=6, hidden=16):
    return {"w1": numbers(width, hidden), "b1": numbers(hidden), "w2": numbers(hidden, width)}


def seconds(f, *args):
    """Return the expected time of a layout written by hand."""
    return pb.debug.explain_sharding(f)(*args).seconds


def sharded(type, *dims):
    return type.sharded(pb.Sharding(MESH, pb.P(*dims)))


# -- choices --------------------------------------------------------------------------------------


def test_a_large_batch_is_split():
    plan = pb.auto_shard(step, MESH).plan(weights(512, 2048), f32(65536, 512))
    assert plan.specs["x"] is pb.P(BOTH)
    assert all(plan.specs[f"params['{name}']"] is pb.P() for name in ("w1", "b1", "w2"))
    assert len(plan.collectives) == 1 and plan.collectives[0].startswith("all_reduce over dp, tp")
    assert plan.nbytes == (2 * 512 * 2048 + 2048 + 1) * 4 * 7 // 4


def test_large_weights_are_split_by_columns_then_rows():
    plan = pb.auto_shard(step, MESH).plan(weights(8192, 32768), f32(64, 8192))
    assert plan.specs["params['w1']"] is pb.P(None, BOTH)
    assert plan.specs["params['b1']"] is pb.P(BOTH)
    assert plan.specs["params['w2']"] is pb.P(BOTH)
    assert plan.specs["x"] is pb.P()
    assert len(plan.collectives) == 1 and plan.collectives[0].startswith("all_reduce")


def test_a_batch_and_weights_share_the_mesh():
    sizes = weights(4096, 16384), f32(2048, 4096)
    plan = pb.auto_shard(step, MESH).plan(*sizes)
    (w1, b1, w2), x = (sizes[0][n] for n in ("w1", "b1", "w2")), sizes[1]
    columns = {"w1": sharded(w1, None, "tp"), "b1": sharded(b1, "tp"), "w2": sharded(w2, "tp")}
    for hand in [(columns, sharded(x, "dp")), (sizes[0], sharded(x, BOTH))]:
        assert plan.seconds <= seconds(step, *hand)


def test_small_arguments_stay_whole():
    plan = pb.auto_shard(step, MESH).plan(weights(8, 8), f32(16, 8))
    assert set(plan.specs.values()) == {pb.P()} and plan.collectives == ()


def test_too_little_memory_splits_parameters():
    sizes = weights(1024, 4096), f32(65536, 1024)
    free = pb.auto_shard(step, MESH).plan(*sizes)
    assert free.specs["x"] is pb.P(BOTH) and free.specs["params['w1']"] is pb.P()
    limit = free.memory * 3 // 4
    tight = pb.auto_shard(step, MESH, memory=limit).plan(*sizes)
    assert tight.memory <= limit
    assert tight.specs["params['w1']"].dims or tight.specs["params['w2']"].dims
    assert tight.seconds >= free.seconds
    with pytest.raises(ArgumentError, match=r"no layout fits into 1.0 KiB"):
        pb.auto_shard(step, MESH, memory=1024).plan(*sizes)


def attention(w, x):
    batch, length, width = x.shape
    q, k, v = (
        (x @ w[n]).reshape(batch, length, 16, width // 16).transpose(0, 2, 1, 3) for n in "qkv"
    )
    mixed = pb.softmax(q @ k.transpose(0, 1, 3, 2), axis=-1) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ w["o"]


def attention_loss(w, x):
    return (attention(w, x) ** 2).mean()


def square(width):
    return {name: f32(width, width) for name in "qkvo"}


def test_attention_splits_the_batch_or_the_heads():
    tp = pb.DeviceMesh(4, "tp")
    many = pb.auto_shard(pb.grad(attention_loss), tp).plan(square(512), f32(64, 256, 512))
    assert many.specs["x"] is pb.P("tp") and many.specs["w['q']"] is pb.P()
    one = pb.auto_shard(pb.grad(attention_loss), tp).plan(square(4096), f32(1, 256, 4096))
    assert [one.specs[f"w['{n}']"] for n in "qkv"] == [pb.P(None, "tp")] * 3
    assert one.specs["w['o']"] is pb.P("tp") and one.specs["x"] is pb.P()


@pytest.mark.parametrize("sizes", [(8, 512, 1024), (8, 128, 512)])
def test_plans_are_no_slower_than_layouts_by_hand(sizes):
    sizes = square(sizes[-1]), f32(*sizes)
    f = pb.grad(attention_loss)
    plan = pb.auto_shard(f, MESH).plan(*sizes)
    w, x = sizes
    columns = {n: sharded(w[n], "tp") if n == "o" else sharded(w[n], None, "tp") for n in w}
    for hand in [(w, sharded(x)), (w, sharded(x, BOTH)), (columns, sharded(x, "dp"))]:
        assert plan.seconds <= seconds(f, *hand) * 1.002


def test_uneven_dimensions_are_split_only_if_no_other_divides():
    def product(x, w):
        return x @ w

    plan = pb.auto_shard(product, pb.DeviceMesh(4, "dp")).plan(f32(4098, 4096), f32(4096, 4096))
    assert plan.specs["x"] is pb.P() and plan.specs["w"] is pb.P(None, "dp")
    odd = pb.auto_shard(product, pb.DeviceMesh(4, "dp")).plan(f32(4099, 4097), f32(4097, 4097))
    assert any(spec.dims for spec in odd.specs.values())


@pytest.mark.parametrize("shape", [(1, 4), (4, 1), (1, 1)])
def test_axes_with_one_device_split_nothing(shape):
    mesh = pb.DeviceMesh(shape, BOTH)
    plan = pb.auto_shard(step, mesh).plan(weights(512, 2048), f32(65536, 512))
    split = [a for a, n in zip(BOTH, shape, strict=True) if n > 1]
    assert plan.specs["x"] is pb.P(*split) and plan.specs["params['w1']"] is pb.P()


def test_empty_arguments_and_scalars():
    with pb.config(engine="reference"):
        f = pb.auto_shard(lambda x, y, s: (x.sum() + y * s, x * s), MESH, machine=SLOW)
        total, none = f(np.zeros((0, 8)), numbers(8, 8), np.float64(2.0))
        np.testing.assert_allclose(total.numpy(), 2 * numbers(8, 8))
        assert none.shape == (0, 8)
    with pytest.raises(ArgumentError, match="no argument is a tensor"):
        pb.auto_shard(lambda n: pb.ones(n), MESH)(3)


def test_a_training_step_keeps_the_layouts_of_its_parameters():
    def train(params, x):
        return pb.tree.map(lambda w, g: w - 0.1 * g, params, pb.grad(loss)(params, x))

    plan = pb.auto_shard(train, MESH).plan(weights(8192, 32768), f32(64, 8192))
    assert plan.specs["params['w1']"] is pb.P(None, BOTH)
    assert len(plan.collectives) == 1


def test_a_plan_is_the_same_every_time():
    sizes = weights(1024, 4096), f32(8192, 1024)
    first, second = (pb.auto_shard(step, MESH).plan(*sizes) for _ in range(2))
    assert first.specs == second.specs and first.seconds == second.seconds


# -- fixed layouts --------------------------------------------------------------------------------


def test_fixed_specs_are_kept():
    sizes = weights(512, 2048), f32(65536, 512)
    fixed = {"w1": pb.P(None, "tp"), "b1": None, "w2": None}
    plan = pb.auto_shard(step, MESH, in_specs=(fixed, pb.P("dp"))).plan(*sizes)
    assert plan.specs["params['w1']"] is pb.P(None, "tp") and plan.specs["x"] is pb.P("dp")
    named = pb.auto_shard(step, MESH, in_specs={"x": pb.P("tp")}).plan(*sizes)
    assert named.specs["x"] is pb.P("tp")


@pytest.mark.parametrize("which", ["x", 1, (-1,)])
def test_whole_arguments_are_not_split(which):
    plan = pb.auto_shard(step, MESH, whole=which).plan(weights(512, 2048), f32(65536, 512))
    assert plan.specs["x"] is pb.P()
    assert plan.specs["params['w1']"] is pb.P(None, BOTH)


def test_a_sharding_constraint_in_the_function_is_kept():
    def f(x, w):
        return pb.with_sharding_constraint(x @ w, MESH, pb.P("dp", "tp")) * 2.0

    wrapped = pb.auto_shard(f, MESH, machine=SLOW)
    x, w = numbers(8, 4), numbers(4, 8)
    with pb.config(engine="reference"):
        y = wrapped(x, w)
        assert y.sharding.spec is pb.P("dp", "tp")
        np.testing.assert_allclose(y.numpy(), 2 * x @ w)


# -- results --------------------------------------------------------------------------------------


def check_equal(f, *args, **options):
    wrapped = pb.auto_shard(f, MESH, machine=SLOW, **options)
    plain = pb.tree.map(pb.asarray, args)
    got, wanted = wrapped(*args), f(*plain)
    for a, b in zip(pb.tree.leaves(got), pb.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-12)
    assert any(spec.dims for spec in wrapped.plan(*args).specs.values())
    return got


@pytest.mark.parametrize("rows", [24, 3, 7])
def test_the_result_is_that_of_the_function(rows):
    with pb.config(engine="reference"):
        check_equal(step, values(), numbers(rows, 6))


def product(x, w):
    return x @ w


def network(ws, x):
    return (pb.tanh(x @ ws[0]) @ ws[1]).sum()


@pytest.mark.parametrize(("f", "mesh"), [(product, MESH), (network, pb.DeviceMesh(8, "dp"))])
def test_the_memory_that_is_said_to_be_needed_is_enough(f, mesh):
    """It is never more than the fastest plan needs."""
    up, down = f32(1024, 4096), f32(4096, 1024)
    args = (down, up) if f is product else ([up, down], down)
    f = f if f is product else pb.grad(f)
    free = pb.auto_shard(f, mesh).plan(*args)
    with pytest.raises(ArgumentError) as error:
        pb.auto_shard(f, mesh, memory=1024).plan(*args)
    needs = (float(re.search(r"needs ([\d.]+) MiB", str(error.value))[1]) + 0.05) * 2**20
    assert needs <= free.memory + 0.1 * 2**20
    assert pb.auto_shard(f, mesh, memory=needs).plan(*args).memory <= needs


def test_results_under_a_memory_limit_and_with_captured_tensors():
    with pb.config(engine="reference"):
        offset = pb.asarray(numbers(6, seed=3))
        check_equal(lambda p, x: step(p, x + offset), values(), numbers(24, 6))
        check_equal(step, values(8, 64), numbers(24, 8), memory=7500)
        names = {n: numbers(32, 32, seed=i) for i, n in enumerate("qkvo")}
        check_equal(pb.grad(attention_loss), names, numbers(4, 3, 32))


def test_derivatives_of_and_plans_for_compiled_functions():
    x, w = numbers(16, 8), numbers(8, 8)
    with pb.config(engine="reference"):
        f = pb.auto_shard(lambda w, x: pb.tanh(x @ w).sum(), MESH, machine=SLOW)
        wanted = x.T @ (1 - np.tanh(x @ w) ** 2)
        np.testing.assert_allclose(pb.grad(f)(pb.asarray(w), x).numpy(), wanted)
        compiled = pb.auto_shard(pb.compile(lambda w, x: x @ w), MESH, machine=SLOW)
        np.testing.assert_allclose(compiled(w, x).numpy(), x @ w)
        assert any(spec.dims for spec in compiled.plan(w, x).specs.values())


def layers(ws, x):
    return pb.scan(lambda x, w: (pb.tanh(x @ w), None), x, ws)[0]


def test_loops():
    ws, x = numbers(3, 8, 8), numbers(16, 8, seed=1)
    with pb.config(engine="reference"):
        check_equal(layers, ws, x)
        check_equal(pb.grad(lambda ws, x: layers(ws, x).sum()), ws, x)


def test_the_communication_of_a_loop_counts_in_every_iteration():
    ws = f32(5, 64, 64).sharded(pb.Sharding(MESH, pb.P(None, "tp")))
    once = pb.debug.explain_sharding(lambda w, x: pb.tanh(x @ w))(
        f32(64, 64).sharded(pb.Sharding(MESH, pb.P("tp"))), f32(16, 64)
    )
    found = pb.debug.explain_sharding(layers)(ws, f32(16, 64))
    assert once.nbytes and found.nbytes == 5 * once.nbytes
    assert found.communicating == pytest.approx(5 * once.communicating)
    assert found.computing == pytest.approx(5 * once.computing)


def test_numbers_and_keywords_pass_through():
    def f(x, power, *, scale):
        return x**power * scale["by"]

    wrapped = pb.auto_shard(f, MESH, machine=SLOW)
    with pb.config(engine="reference"):
        got = wrapped(numbers(8, 8), 2, scale={"by": numbers(8)})
        np.testing.assert_allclose(got.numpy(), numbers(8, 8) ** 2 * numbers(8))
    plan = wrapped.plan(numbers(8, 8), 2, scale={"by": numbers(8)})
    assert list(plan.specs) == ["x", "scale['by']"]


def test_a_plan_is_made_once_for_each_set_of_argument_types():
    calls = []

    def f(x, w):
        calls.append(x.shape)
        return x @ w

    wrapped = pb.auto_shard(f, MESH, machine=SLOW)
    with pb.config(engine="reference"):
        wrapped(numbers(8, 8), numbers(8, 8))
        before = len(calls)
        wrapped(numbers(8, 8, seed=1), numbers(8, 8))
        assert len(calls) == before + 1
        wrapped(numbers(16, 8), numbers(8, 8))
        assert len(calls) > before + 2


@on_devices
def test_on_xla():
    got, _ = check_equal(step, values(), numbers(24, 6))
    assert got.sharding.mesh is MESH


# -- plans ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plan():
    return pb.auto_shard(step, MESH).plan(weights(512, 2048), f32(65536, 512))


def test_a_plan_is_printed(plan):
    lines = str(plan).splitlines()
    assert lines[0].startswith("on dp=2, tp=4: 2.02 ms (1.72 ms computing, 298.9 us communicating)")
    assert "1 collectives, each device sends 14.0 MiB" in lines[1] and "96.0 MiB on" in lines[1]
    assert lines[2].split() == ["params['b1']", "f32[2048]", "P()"]
    assert lines[5].split(maxsplit=2) == ["x", "f32[65536,512]", "P(('dp', 'tp'))"]
    assert lines[6].startswith("all_reduce over dp, tp: f32[]")
    assert "test_auto_shard.py" in lines[7]


def test_a_plan_is_saved_and_used_again(plan, tmp_path):
    path = tmp_path / "plan.json"
    plan.save(path)
    assert json.loads(path.read_text())["mesh"] == {"dp": 2, "tp": 4}
    again = pb.ShardingPlan.load(path)
    assert again == plan and str(again) == str(plan)
    for given in (path, str(path), plan):
        wrapped = pb.auto_shard(step, MESH, plan=given)
        assert wrapped.plan(weights(6, 16), f32(24, 6)) == plan  # sizes may differ
    with pb.config(engine="reference"):
        args = pb.tree.map(lambda a: a.astype(np.float32), (values(), numbers(24, 6)))
        got, wanted = wrapped(*args)[0], step(*pb.tree.map(pb.asarray, args))[0]
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5)


def test_a_saved_spec_is_complete(tmp_path):
    spec = pb.P(None, "tp", replicated="dp", priority=(0, 2))
    fixed = pb.auto_shard(lambda x: x + 1.0, MESH, in_specs=(spec,)).plan(f32(8, 8))
    fixed.save(tmp_path / "plan.json")
    assert pb.ShardingPlan.load(tmp_path / "plan.json").specs["x"] is spec


def test_a_plan_for_another_mesh_or_other_arguments_is_rejected(plan):
    args = weights(512, 2048), f32(64, 512)
    with pytest.raises(ArgumentError, match=r"for a mesh of dp=2, tp=4, got DeviceMesh\(x=8\)"):
        pb.auto_shard(step, pb.DeviceMesh(8, "x"), plan=plan).plan(*args)
    with pytest.raises(ArgumentError, match=r"has params\['b1'\], which is not an argument"):
        pb.auto_shard(step, MESH, plan=plan).plan(args[1], args[1])
    with pytest.raises(ArgumentError, match=r"params\['b2'\] is not in the plan"):
        pb.auto_shard(step, MESH, plan=plan).plan({**args[0], "b2": f32(3)}, args[1])
    with pytest.raises(ArgumentError, match=r"x was planned as f32\[65536,512\], got f32\[64\]"):
        pb.auto_shard(step, MESH, plan=plan).plan(args[0], f32(64))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "other"}'])
def test_a_file_without_a_plan_is_rejected(text, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=r"plan.json is not a plan"):
        pb.auto_shard(step, MESH, plan=path)


def test_invalid_options():
    sizes = weights(8, 16), f32(8, 8)
    with pytest.raises(ArgumentError, match="DeviceMesh"):
        pb.auto_shard(step, (2, 4))
    with pytest.raises(ArgumentError, match="plan must be"):
        pb.auto_shard(step, MESH, plan=3)
    with pytest.raises(ArgumentError, match="'y' names no argument; the arguments are params, x"):
        pb.auto_shard(step, MESH, whole="y").plan(*sizes)
    with pytest.raises(ArgumentError, match="in_specs has 3 entries for 2 arguments"):
        pb.auto_shard(step, MESH, in_specs=(None, None, None)).plan(*sizes)
    with pytest.raises(ArgumentError, match="must be a prefix of its tree"):
        pb.auto_shard(step, MESH, in_specs=({"w9": pb.P()}, None)).plan(*sizes)
    with pytest.raises(ArgumentError, match="got 'dp'"):
        pb.auto_shard(step, MESH, in_specs=(None, "dp")).plan(*sizes)
    with pytest.raises(ArgumentError, match="has no axis 'sp'"):
        pb.auto_shard(step, MESH, in_specs=(None, pb.P("sp"))).plan(*sizes)
    with pytest.raises(ShapeError, match="names 3 dimensions"):
        pb.auto_shard(step, MESH, in_specs=(None, pb.P(None, None, "dp"))).plan(*sizes)


def test_without_scipy_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ArgumentError, match="needs the package scipy") as caught:
        pb.auto_shard(step, MESH).plan(weights(8, 16), f32(8, 8))
    assert "pullback[auto]" in str(caught.value)
