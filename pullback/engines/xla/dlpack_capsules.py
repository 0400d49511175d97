"""DLPack capsules of buffers: memory of a GPU, and dtypes that NumPy cannot exchange."""

from __future__ import annotations

import ctypes
from typing import Any

from pullback.engines.xla.bindings import _jax
from pullback.engines.xla.client import Client
from pullback.engines.xla.jax_arrays import JaxArrayOnDevice, jax_aval_of
from pullback.errors import DTypeError
from pullback.graph.dtypes import ALL, bfloat16
from pullback.graph.types import Type


def capsule_device_number(client: Client, index: int) -> int:
    """Return the number by which other libraries know a device of this process."""
    found = client.devices[client.local_numbers[index]].local_hardware_id
    return index if found is None else found


def capsule_device_index(client: Client, hardware: int) -> int | None:
    """Return the index of the device that other libraries know by a number."""
    for index in range(len(client.local_numbers)):
        if capsule_device_number(client, index) == hardware:
            return index
    return None


def buffer_to_capsule(buffer: Any, stream: int | None) -> Any:
    """Return a capsule with the memory of a buffer, in the form that cannot say it is read-only.

    Work on `stream` waits until the buffer has been computed.
    """
    return _jax.buffer_to_dlpack_managed_tensor(buffer, stream=stream)


def buffer_from_capsule(
    client: Client, capsule: Any, index: int, stream: int | None
) -> tuple[Any, Type]:
    """Return a buffer on a device that shares memory with a capsule, and its type."""
    type = capsule_type(capsule)
    device = client.devices[client.local_numbers[index]]
    made = _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream)
    place = client.place if index == 0 else JaxArrayOnDevice(device)
    # jaxlib alone makes an array without an abstract value. It is not committed: the memory is not
    # ours (see `Client.made`)
    aval = jax_aval_of(type)
    return _jax.ArrayImpl(aval, place, made._arrays, False, _skip_checks=True), type


class DLTensor(ctypes.Structure):
    """What a capsule describes: the start of its memory block, in DLPack's layout."""

    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
    )  # fmt: skip


_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # by DLPack's number


def capsule_type(capsule: Any) -> Type:
    """Return the shape and dtype of the memory in a capsule of the older form."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = DLTensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(tensor.shape[: tensor.ndim])
    if (tensor.code, tensor.bits) == (4, 16):
        return Type(shape, bfloat16)
    for dtype in ALL:
        if (dtype.kind, dtype.bits) == (_KINDS.get(tensor.code), tensor.bits) and tensor.lanes == 1:
            return Type(shape, dtype)
    what = f"the elements have no dtype of ours: DLPack's code {tensor.code}, {tensor.bits} bits"
    raise DTypeError(what, op="from_dlpack")


def capsule_stream(client: Client, index: int) -> int | None:
    """Return the stream on which a producer must finish its work, None on the CPU."""
    device = client.devices[client.local_numbers[index]]
    if client.platform == "cpu":
        return None
    return device.get_stream_for_external_ready_events()
