"""Random numbers and iotas on meshes: each device computes its own shard of the same values."""

from __future__ import annotations

import numpy as np
import pytest
from devices import on_devices

import pullback as pb

MESH = pb.DeviceMesh((2, 4), ("a", "b"))
SPECS = [pb.P("a"), pb.P(None, "b"), pb.P(("a", "b")), pb.P("b", "a")]
SHAPE = (7, 5)  # not divisible by any axis
MAKERS = {
    "bits": lambda key: pb.random.bits(key, SHAPE),
    "uniform": lambda key: pb.random.uniform(key, SHAPE, minval=-1.0, maxval=3.0),
    "normal": lambda key: pb.random.normal(key, SHAPE, loc=1.0, scale=pb.arange(1.0, 6.0)),
    "complex": lambda key: pb.random.normal(key, SHAPE, pb.complex64),
    "truncated": lambda key: pb.random.truncated_normal(key, -1.0, 2.0, SHAPE),
    "exponential": lambda key: pb.random.exponential(key, SHAPE, pb.float64),
    "gamma": lambda key: pb.random.gamma(key, 0.7, SHAPE),
    "randint": lambda key: pb.random.randint(key, SHAPE, -9, 9),
    "bernoulli": lambda key: pb.random.bernoulli(key, 0.3, SHAPE),
    "dropout": lambda key: pb.where(pb.random.bernoulli(key, 0.5, SHAPE), 2.0, 0.0),
}


@pytest.mark.parametrize("name", MAKERS)
def test_each_device_draws_only_its_shard(name):
    make, key = MAKERS[name], pb.random.key(3)
    with pb.config(engine="reference"):
        want = make(key).numpy()
        for spec in SPECS:
            got = make(key).shard(MESH, spec)
            assert np.array_equal(got.numpy(), want)
            found = pb.debug.explain_sharding(lambda k, s=spec: make(k).shard(MESH, s))(key)
            assert not found.exchanges
            drawn = [n for n in found.program.nodes if n.op.name.startswith("Random")]
            assert drawn and all(n.op.whole for n in drawn)


@on_devices
def test_draws_on_devices():
    key = pb.random.key(3)
    for make in MAKERS.values():
        want = make(key).numpy()
        for spec in SPECS[2:]:
            assert np.array_equal(make(key).shard(MESH, spec).numpy(), want)


def test_gamma_with_sharded_parameters():
    """The position of a device's numbers depends on the layout of the parameters."""
    key, a = pb.random.key(1), np.linspace(0.5, 4.0, 35).reshape(SHAPE)
    with pb.config(engine="reference"):
        want = pb.random.gamma(key, a).numpy()
        for spec in SPECS:
            x = pb.tensor(a).shard(MESH, spec)
            assert np.array_equal(pb.random.gamma(key, x).numpy(), want)
            assert not pb.debug.explain_sharding(pb.random.gamma)(key, x).exchanges
            slope = pb.grad(lambda x: pb.random.gamma(key, x).sum())
            assert np.allclose(slope(x).numpy(), slope(pb.tensor(a)).numpy(), rtol=1e-6)


def test_sharded_keys_draw_their_own_numbers():
    keys = pb.random.split(pb.random.key(0), 6)
    with pb.config(engine="reference"):
        draw = pb.vmap(lambda k: pb.random.normal(k, (5,)))
        got = draw(keys.shard(MESH, pb.P("b")))
        assert got.sharding.spec is pb.P("b")
        assert np.array_equal(got.numpy(), draw(keys).numpy())
        split = draw(keys).shard(MESH, pb.P("a", "b"))
        assert np.array_equal(split.numpy(), draw(keys).numpy())


def test_a_long_chain_of_ops_on_draws_is_sliced():
    key = pb.random.key(0)
    with pb.config(engine="reference"):
        x = pb.random.normal(key, (9,))
        for _ in range(200):
            x = x * 1.01
        assert np.array_equal(x.shard(MESH, pb.P("b")).numpy(), x.numpy())
