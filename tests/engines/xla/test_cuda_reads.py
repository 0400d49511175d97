"""Small values are read through CUDA's driver; here, one that copies memory of the host."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.engines.engine_registry import registered_engine
from pullback.engines.xla.cuda_driver import CudaDriver
from pullback.graph.dtypes import dtype as dtype_named

pytestmark = pytest.mark.usefixtures("on_cpu")


class Driver:
    """CUDA's functions for a device whose memory is the host's."""

    def __init__(self) -> None:
        self.depth = self.copies = self.result = 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        return 101 if ordinal > 0 else 0

    def cuDevicePrimaryCtxRetain(self, context: Any, device: Any) -> int:
        return 0

    def cuCtxPushCurrent_v2(self, context: Any) -> int:
        self.depth += 1
        return 0

    def cuCtxPopCurrent_v2(self, before: Any) -> int:
        self.depth -= 1
        return 0

    def cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:
        assert self.depth == 1
        self.copies += 1
        if not self.result:
            ctypes.memmove(target, source.value, size.value)
        return self.result


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made, client = Driver(), registered_engine("xla").client
    monkeypatch.setattr(client, "_driver", CudaDriver(made, 0))
    monkeypatch.setattr(client, "platform", "cuda")
    return made


def computed(x: Any) -> Any:
    return pb.wait(pb.tensor(x) * 1 if x.dtype != bool else ~pb.tensor(~x))


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "i8", "u64", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(), (1,), (300,)])
def test_values_of_every_dtype(shape: tuple, dtype: str, driver: Driver) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype_named(dtype).numpy)
    y = computed(x)
    found = y.numpy()
    assert driver.copies == 1 and driver.depth == 0
    assert found.dtype == x.dtype and found.shape == x.shape and (found == x).all()


@pytest.mark.parametrize("shape", [(3, 2), (0,), (20_000,)])
def test_other_values_are_copied_by_xla(shape: tuple, driver: Driver) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert (computed(x).numpy() == x).all()
    assert driver.copies == 0


def test_errors_of_the_driver_leave_the_copy_to_xla(driver: Driver) -> None:
    driver.result = 700
    assert computed(np.float32(2)).item() == 2
    assert driver.copies == 1 and driver.depth == 0


def test_a_buffer_that_was_deleted_meanwhile(driver: Driver) -> None:
    y = computed(np.arange(3.0))
    y._node.value.delete()
    with pytest.raises(pb.errors.PullbackError):
        y.numpy()


def test_a_driver_or_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert CudaDriver.of_device(0) is None
    with pytest.raises(RuntimeError, match="error 101"):
        CudaDriver(Driver(), 1)
