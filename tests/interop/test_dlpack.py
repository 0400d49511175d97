"""DLPack: memory is shared where consumers can be told not to write to it, else copied."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ExportError, GradientCut

DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64", "complex64"]


@pytest.fixture(params=["xla", "reference"], autouse=True)
def _engine(request, on_cpu):
    """NumPy, on the other side, takes no memory of GPUs."""
    with pb.config(engine=request.param):
        yield


class Asking:
    """A consumer's view of a tensor that passes its own options, or a producer with its own device.

    NumPy asks for version 1.0; others do not know versions.
    """

    def __init__(self, x, device=None, **options):
        self.x, self.device, self.options = x, device, options

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options | self.options)

    def __dlpack_device__(self):
        return self.device or self.x.__dlpack_device__()


def pointer(x):
    return x.ctypes.data


def test_exports_share_memory_that_is_read_only():
    x = pb.arange(6.0).reshape(2, 3) * 2
    shared = np.from_dlpack(x)
    assert x.__dlpack_device__() == (1, 0)
    assert pointer(shared) == pointer(x.numpy()) and not shared.flags.writeable
    x += 1  # a new value: the old one stays as long as something uses it
    gc.collect()
    assert shared.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]


def test_consumers_that_cannot_be_told_get_a_copy():
    x = pb.arange(3.0) * 2
    for options in ({"max_version": None}, {"max_version": (0, 8)}, {"copy": True}):
        made = np.from_dlpack(Asking(x, **options))
        assert made.tolist() == [0.0, 2.0, 4.0] and pointer(made) != pointer(x.numpy())
    for version in (None, (1, 0)):
        made = np.from_dlpack(Asking(x, copy=False, max_version=version))
        assert pointer(made) == pointer(x.numpy())


def test_every_option_gives_a_capsule():
    for dtype, shape in itertools.product([*DTYPES, "bfloat16"], [(2,), (0, 3), ()]):
        x = pb.ones(shape, dtype=dtype)
        versions, devices = (None, (0, 0), (1, 0), (2, 0)), (None, (1, 0))
        for copy, version, device in itertools.product((None, True, False), versions, devices):
            capsule = x.__dlpack__(copy=copy, max_version=version, dl_device=device)
            assert type(capsule).__name__ == "PyCapsule"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_there_and_back(dtype):
    x = pb.tensor([[1, 0, 2]], dtype=dtype)
    array = np.from_dlpack(x)
    assert array.dtype == x.dtype and pb.from_dlpack(array).dtype is x.dtype
    assert (pb.from_dlpack(array) == x).all() and (pb.asarray(Asking(x)) == x).all()


def test_bfloat16_through_capsules():
    x = pb.tensor([1.5, -2.0], dtype="bfloat16")
    for copy in (None, True, False):
        made = pb.from_dlpack(Asking(x), copy=copy)
        assert made.dtype is pb.bfloat16 and made.tolist() == [1.5, -2.0]
    assert pb.asarray(Asking(x), "float32").tolist() == [1.5, -2.0]


def test_imports_are_copied_unless_refused():
    source = np.arange(4.0).reshape(2, 2)
    copied, shared = pb.from_dlpack(source), pb.from_dlpack(source, copy=False, device="cpu:0")
    source[0, 0] = 9.0
    assert copied.tolist() == [[0.0, 1.0], [2.0, 3.0]] and shared[0, 0].item() == 9.0
    assert pb.from_dlpack(source.T).tolist() == source.T.tolist()
    with told(ArgumentError, ValueError, "copy=False", "contiguous"):
        pb.from_dlpack(source.T, copy=False)


def test_what_cannot_be_exchanged_is_an_error():
    x = pb.ones(3)
    with told(ExportError, BufferError, "__dlpack__", "cpu:0", "(2, 0)", "to_device"):
        x.__dlpack__(dl_device=(2, 0))
    with told(ExportError, BufferError, "stream", "7"):
        x.__dlpack__(stream=7)
    with told(ArgumentError, ValueError, "from_dlpack", "device type 8"):
        pb.from_dlpack(Asking(x, device=(8, 0)))
    with told(ArgumentError, TypeError, "from_dlpack", "__dlpack__", "list"):
        pb.from_dlpack([1.0])
    with told(ArgumentError, ValueError, "from_dlpack", "does not export", "read"):
        locked = np.arange(3.0)
        locked.flags.writeable = False
        pb.from_dlpack(Asking(locked, max_version=None))
    with told(GradientCut, TypeError, "DLPack"):
        pb.grad(lambda x: pb.from_dlpack(Asking(x)).sum())(x)


def test_array_interface_outlives_its_tensor():
    x = pb.arange(6.0).reshape(2, 3) * 2
    array = np.asarray(x)
    x += 1
    del x
    gc.collect()
    assert array.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]] and not array.flags.writeable
    y = pb.zeros((0, 2), dtype="int32")
    assert y.__array_interface__["shape"] == (0, 2) and np.asarray(y).shape == (0, 2)
    assert pb.tensor([1, 2], dtype="uint8").tobytes() == b"\x01\x02"
    assert not hasattr(pb.ones(2, dtype="bfloat16"), "__array_interface__")
    assert np.asarray(pb.ones(2, dtype="bfloat16")).dtype == pb.bfloat16
    with told(GradientCut, TypeError, "NumPy"):
        pb.grad(lambda x: x.sum() * x.__array_interface__["shape"][0])(pb.ones(3))
