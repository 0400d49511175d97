"""Tensors on every device of the process: `device=`, `to`, `default_device`."""

from __future__ import annotations

import numpy as np
import pytest
from devices import on_devices

import pullback as pb

ENGINES = pytest.mark.parametrize("engine", ["xla", "reference"])
LAST = "cpu:7"

CREATED = {
    "zeros": lambda **k: pb.zeros((2, 3), **k),
    "ones": lambda **k: pb.ones(3, **k),
    "empty": lambda **k: pb.empty(3, **k),
    "full": lambda **k: pb.full(3, 1.5, **k),
    "full of a tensor": lambda **k: pb.full(3, pb.tensor(1.5), **k),
    "zeros_like": lambda **k: pb.zeros_like(np.ones(3), **k),
    "ones_like": lambda **k: pb.ones_like(np.ones(3), **k),
    "empty_like": lambda **k: pb.empty_like(np.ones(3), **k),
    "full_like": lambda **k: pb.full_like(np.ones(3), 2, **k),
    "arange": lambda **k: pb.arange(3, **k),
    "linspace": lambda **k: pb.linspace(0, 1, 3, **k),
    "linspace of tensors": lambda **k: pb.linspace(pb.tensor(0.0), 1, 3, **k),
    "eye": lambda **k: pb.eye(3, **k),
    "tensor": lambda **k: pb.tensor([1.0, 2.0], **k),
    "asarray": lambda **k: pb.asarray(np.arange(3), **k),
    "from_dlpack": lambda **k: pb.from_dlpack(np.arange(3), **k),
}


@ENGINES
@on_devices
def test_creation_takes_a_device(engine):
    with pb.config(engine=engine):
        for name, make in CREATED.items():
            usual = make()
            for device in ("cpu", "cpu:0", "cpu:1", LAST):
                x = make(device=device)
                assert x.device == (device if ":" in device else "cpu:0"), name
                assert x.devices == (x.device,)
                assert x.dtype is usual.dtype and x.tolist() == usual.tolist(), name
            traced = pb.compile(lambda make=make: make(device=LAST) + 1)()
            assert traced.device == LAST and traced.tolist() == (usual + 1).tolist(), name


@ENGINES
@on_devices
def test_default_device_places_new_tensors(engine):
    with pb.config(engine=engine):
        outside = pb.tensor([1.0, 2.0])
        with pb.default_device(LAST):
            x = pb.tensor([1.0, 2.0])
            with pb.default_device("cpu:2"):
                assert pb.ones(3).device == "cpu:2"
            with pb.default_device("cpu:0"):
                assert pb.ones(3).device == "cpu:0"
            made = [pb.arange(2) * x, pb.random.normal(pb.random.key(0), (2,)), x + outside]
            assert [y.device for y in made] == [LAST] * 3
            assert (outside + 1).device == "cpu:0", "results are where their operands are"
            assert pb.zeros_like(outside).device == "cpu:0"
            ones = pb.compile(lambda: pb.ones(3))
            assert ones().device == LAST
        assert [y.device for y in made] == [LAST] * 3, "also if they are computed later"
        assert made[0].tolist() == [0.0, 2.0]
        assert made[1].tolist() == pb.random.normal(pb.random.key(0), (2,)).tolist()
        assert ones().device == "cpu:0", "it is traced again"
        assert pb.ones(3).device == "cpu:0"


@ENGINES
@on_devices
def test_moving_between_devices(engine):
    with pb.config(engine=engine):
        x = pb.tensor([[1.0, 2.0], [3.0, 4.0]])
        y = (x * 2).to("cpu:1")
        assert (y.device, y.tolist()) == ("cpu:1", [[2, 4], [6, 8]])
        z = (y + 1).to_device(LAST)
        assert (z.device, z.tolist()) == (LAST, [[3, 5], [7, 9]])
        back = pb.to_device(z, "cpu:0")
        assert (back.device, back.sharding, back.tolist()) == ("cpu:0", None, z.tolist())
        assert (back + x).device == "cpu:0"
        same = back.to("cpu:0")
        same += 1
        assert back.tolist() == z.tolist(), "a new handle"
        spread = x.shard(pb.DeviceMesh(2, "dp"), pb.P("dp")).to("cpu:3")
        assert (spread.device, spread.tolist()) == ("cpu:3", x.tolist())


@ENGINES
@on_devices
def test_transforms_follow_the_device(engine):
    with pb.config(engine=engine):
        x, w = pb.tensor([1.0, 2.0], device="cpu:1"), pb.tensor([3.0, 4.0])

        def f(x):
            return (x * x * w).sum()

        value, gradient = pb.value_and_grad(f)(x)
        assert (value.device, gradient.device) == ("cpu:1", "cpu:1")
        assert gradient.tolist() == [6.0, 16.0]
        assert pb.jvp(f, (x,), (x,))[1].device == "cpu:1"
        assert pb.vmap(lambda x: x * 2)(x).device == "cpu:1"
        assert pb.compile(pb.grad(f))(x).device == "cpu:1"
        total, rows = pb.scan(lambda c, r: (c + r, c), pb.zeros_like(x[0]), x)
        assert (total.device, rows.tolist()) == ("cpu:1", [0.0, 1.0])
        moved = pb.grad(lambda w: (w.to("cpu:2") ** 2).sum())(w)
        assert moved.tolist() == [6.0, 8.0]
        p = pb.tensor([1.0, 2.0], requires_grad=True, device=LAST)
        (p * p).sum().backward()
        pb.optim.SGD({"p": p}, learning_rate=0.5).step()
        assert (p.device, p.grad.device, p.tolist()) == (LAST, LAST, [0.0, 0.0])


@ENGINES
@on_devices
def test_mistakes_are_explained(engine):
    with pb.config(engine=engine):
        x, y = pb.ones(2, device="cpu:1"), pb.ones(2, device="cpu:2")
        with pytest.raises(pb.errors.ArgumentError, match="or device, got cpu:1 and cpu:2"):
            x + y
        with pytest.raises(pb.errors.EngineError, match="no device 'cpu:8': this process has 8"):
            x.to("cpu:8")
        with pytest.raises(pb.errors.EngineError, match="zeros: there is no device 'cpu:9'"):
            pb.zeros(3, device="cpu:9")
        for wrong in ("float32", "cpu:x", 3, "tpu:0"):
            with pytest.raises(pb.errors.ArgumentError, match="a device is a platform and"):
                x.to_device(wrong)
        with pytest.raises(pb.errors.ArgumentError, match="while a derivative needs it"):
            pb.grad(lambda x: x.to("cpu:2").sum())(x)
        with pytest.raises(pb.errors.ArgumentError, match="inside a function that is traced"):
            pb.compile(lambda x: x.to("cpu:2"))(x)


@on_devices
def test_programs_on_another_device_are_found_again():
    from counters import counting

    x = pb.tensor([1.0, 2.0], device="cpu:1")
    (x * 2 + 1).numpy()
    with counting() as counts:
        for v in (3.0, 4.0):
            assert (pb.tensor([1.0, 2.0], device="cpu:1") * v + v).tolist() == [2 * v, 3 * v]
        assert counts.compiles == 0 and counts.programs == 2
