"""Batches on other devices, over meshes, and of every dtype."""

from __future__ import annotations

import numpy as np
import pytest
from devices import on_devices
from helpers import told

import pullback as pb
from pullback.data import DataLoader
from pullback.data.batch_placement import BatchPlacement
from pullback.errors import PrecisionWarning, ShapeError
from pullback.graph.dtypes import ALL


@on_devices
def test_batches_on_devices_and_meshes():
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    (first, _) = DataLoader(x, 5, device="cpu:3")
    assert first.device == "cpu:3" and first.tolist() == x[:5].tolist()
    mesh = pb.DeviceMesh((4, 2), ("dp", "tp"))
    for sharding, spec in ((mesh, pb.P("dp")), (pb.Sharding(mesh, pb.P("dp", "tp")),) * 2):
        whole, rest = DataLoader({"x": x}, 8, sharding=sharding)
        wanted = spec.spec if isinstance(spec, pb.Sharding) else spec
        assert whole["x"].sharding == pb.Sharding(mesh, wanted)
        assert whole["x"].tolist() == x[:8].tolist() and rest["x"].tolist() == x[8:].tolist()
        assert whole["x"].shards()[2].data[0, 0] == 4.0
    loader = DataLoader((x, np.arange(10)), 8, sharding=pb.Sharding(mesh, pb.P("dp", "tp")))
    with told(ShapeError, ValueError, "P('dp', 'tp')"):
        next(iter(loader))


@pytest.mark.parametrize("owned", [False, True])
def test_every_dtype_and_layout(owned):
    place = BatchPlacement(None, None).place
    for dtype in ALL:
        array = np.arange(6).astype(dtype.numpy).reshape(2, 3)
        for given in (array, array.T, array[:, ::2], array[:0], np.array(array[0, 1])):
            made = place(given, owned)
            assert made.dtype is dtype and made.numpy().tolist() == given.tolist()
    batch = place({"n": 3, "t": pb.ones(2), "s": "text", "w": np.array(["a"]), "o": None}, owned)
    assert batch["n"].dtype is pb.int64 and batch["t"].tolist() == [1, 1]
    assert (batch["s"], batch["w"].tolist(), batch["o"]) == ("text", ["a"], None)
    swapped = place(np.arange(3, dtype=">f4"), owned)
    assert swapped.dtype is pb.float32 and swapped.tolist() == [0, 1, 2]


def test_float64_of_numpy_is_noticed():
    place = BatchPlacement(None, None).place
    with pytest.warns(PrecisionWarning):
        place(np.arange(3.0), False) * pb.ones(3)
    with pytest.warns(PrecisionWarning):
        place(np.arange(3.0), True) * pb.ones(3)


def test_settings_of_the_loop_hold_in_its_thread():
    with pb.config(engine="reference"), pb.default_dtype("float64"):
        (batch,) = DataLoader([1.5, 2.5], 2)
        assert batch.dtype is pb.float64
        assert isinstance(batch._node.value, np.ndarray)
    (batch,) = DataLoader(np.ones(3, np.float32), 3)
    assert not isinstance(batch._node.value, np.ndarray)  # it is on the device already
