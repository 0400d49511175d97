"""Checklist N34, N52 and N54: mapped axes on meshes, shard_map, pipelines."""

from __future__ import annotations

import runpy

import numpy as np
import pytest
from devices import on_devices
from paths import EXAMPLES
from rows import same

import pullback as pb
from pullback import P

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 4))
W = RNG.standard_normal((4, 6))


@pytest.fixture
def reference():
    with pb.config(engine="reference"):
        yield


@pytest.mark.usefixtures("reference")
def test_N34_axes_inside_vmap_are_logical_and_a_mesh_may_split_the_mapped_one():
    mesh = pb.DeviceMesh((2, 2), ("dp", "tp"))
    x, y = RNG.standard_normal((4, 3)), RNG.standard_normal((4, 5, 3))
    add = pb.vmap(lambda x, y: x + y, spmd_axis_name="dp")
    same(add(pb.tensor(x), pb.tensor(y)), x[:, None] + y)
    laid = add(pb.tensor(x), pb.tensor(y).shard(mesh, P(None, None, "tp")))
    same(laid, x[:, None] + y)
    assert laid.sharding == pb.Sharding(mesh, P("dp", None, "tp"))

    # values inside that are laid out are split along the mapped axis too
    def halves(x):
        return pb.with_sharding_constraint(x * 2, mesh, P(None, "tp"))

    made = pb.vmap(halves, spmd_axis_name="dp")(pb.tensor(y))
    assert made.sharding.spec == P("dp", None, "tp")
    same(made, 2 * y)

    # and so are the examples of a shard_map inside
    product = pb.shard_map(
        lambda x, w: pb.psum(x @ w, "tp"), mesh, in_specs=(P(None, "tp"), P("tp")), out_specs=P()
    )
    xs, w = pb.tensor(np.stack([X, -X])), pb.tensor(W)
    many = pb.vmap(product, (0, None), spmd_axis_name="dp")
    assert many(xs, w).sharding.spec == P("dp")
    same(many(xs, w), np.stack([X, -X]) @ W)
    got = pb.grad(lambda w: (many(xs, w) ** 2).sum())(w)
    same(got, pb.grad(lambda w: ((xs @ w) ** 2).sum())(w))

    for wrong, words in (("pp", "has no axis 'pp'"), (3, "must be a mesh axis")):
        with pytest.raises(pb.PullbackError, match=words):
            pb.vmap(lambda x: x, spmd_axis_name=wrong)(pb.tensor(y).shard(mesh, P()))
    with pytest.raises(pb.PullbackError, match="cannot be sharded along 'tp': it uses this axis"):
        pb.vmap(product, (0, None), spmd_axis_name="tp")(xs, w)
    with pytest.raises(pb.PullbackError, match=r"must be divisible by the 2 devices .* got 3"):
        pb.vmap(product, (0, None), spmd_axis_name="dp")(pb.stack([xs[0]] * 3), w)


@pytest.mark.usefixtures("reference")
def test_an_example_or_row_has_the_layout_of_all():
    """Values inside vmap and scan can be laid out, whether or not the examples are split."""
    mesh = pb.DeviceMesh((2, 2, 2), ("a", "b", "c"))
    array = np.arange(48.0).reshape(4, 3, 4)
    x = pb.tensor(array).shard(mesh, P("a", None, "b"))
    seen = []

    def doubled(row):
        seen.append(row.sharding.spec)
        return pb.with_sharding_constraint(row * 2, P("c"))

    made = [
        pb.vmap(doubled)(x),
        pb.vmap(doubled, spmd_axis_name="b")(x),
        pb.vmap(pb.compile(doubled), in_axes=1, out_axes=1)(x),
        pb.scan(lambda c, row: (c, doubled(row)), 0, x)[1],
    ]
    assert seen == [P(None, "b"), P(), P("a", "b"), P(None, "b")]
    assert [y.sharding.spec for y in made] == [
        P("a", "c"), P("b", "c"), P("c"), P(None, "c"),
    ]  # fmt: skip
    for y in made:
        np.testing.assert_array_equal(y.numpy(), array * 2)
    grads = pb.vmap(pb.grad(lambda row: (doubled(row) ** 2).sum()))(x)
    np.testing.assert_array_equal(grads.numpy(), array * 8)
    assert grads.sharding is x.sharding


def two_layers(x, u, v):
    return pb.tanh(x @ u) @ v


def shared_work(mesh):
    """Data parallelism, and tensor parallelism of two layers, with explicit collectives."""

    def f(x, u, v):
        return pb.psum(pb.tanh(x @ u) @ v, "tp")

    specs = (P("dp"), P(None, "tp"), P("tp"))
    return pb.shard_map(f, mesh, in_specs=specs, out_specs=P("dp"))


def check_n52():
    mesh = pb.DeviceMesh((2, 2), ("dp", "tp"))
    x, u, v = pb.tensor(X), pb.tensor(W), pb.tensor(RNG.standard_normal((6, 4)))
    split = shared_work(mesh)
    same(split(x, u, v), two_layers(x, u, v))

    def loss(f):
        return lambda x, u, v: (f(x, u, v) ** 2).mean()

    want = pb.grad(loss(two_layers), (0, 1, 2))(x, u, v)
    for got, g in zip(pb.grad(loss(split), (0, 1, 2))(x, u, v), want, strict=True):
        same(got, g)

    # the gradient inside: a sum over devices is the transpose of having the same on all
    def inside(x, u, v):
        def part(x, u, v):
            y = pb.psum(pb.tanh(x @ u) @ v, "tp")
            return pb.psum((y**2).sum(), "dp") / X.size

        return pb.grad(part, (0, 1, 2))(x, u, v)

    specs = (P("dp"), P(None, "tp"), P("tp"))
    made = pb.shard_map(inside, mesh, in_specs=specs, out_specs=specs)(x, u, v)
    for got, g in zip(made, want, strict=True):
        same(got, g)


@pytest.mark.usefixtures("reference")
def test_N52_shard_map_equals_the_unsharded_result():
    check_n52()


@on_devices
def test_N52_shard_map_equals_the_unsharded_result_on_devices():
    check_n52()


@on_devices
def test_N54_pipelines_equal_the_sequential_program():
    """GPipe, and GPipe times data parallelism: values, loss and gradients."""
    example = runpy.run_path(str(EXAMPLES / "pipeline.py"))
    meshes = [pb.DeviceMesh(4, "stage"), pb.DeviceMesh((2, 4), ("data", "stage"))]
    for mesh in meshes:
        assert example["compare"](mesh) < 1e-12
    with pb.config(engine="reference"):
        for mesh in (*meshes, pb.DeviceMesh((4, 3), ("data", "stage"))):
            assert example["compare"](mesh) < 1e-12
