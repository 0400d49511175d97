"""DLPack capsules of buffers: memory of a GPU, and dtypes that NumPy cannot exchange."""

from __future__ import annotations

from typing import Any

from pullback.engines.xla.bindings import _jax
from pullback.engines.xla.client import Client


def hardware_index(client: Client, index: int) -> int:
    """Return the number by which other libraries know a device of this process."""
    found = client.devices[client.local_numbers[index]].local_hardware_id
    return index if found is None else found


def local_index(client: Client, hardware: int) -> int | None:
    """Return the index of the device that other libraries know by a number."""
    for index in range(len(client.local_numbers)):
        if hardware_index(client, index) == hardware:
            return index
    return None


def export_buffer(buffer: Any, stream: int | None) -> Any:
    """Return a capsule with the memory of a buffer, in the form that cannot say it is read-only.

    Work on `stream` waits until the buffer has been computed.
    """
    return _jax.buffer_to_dlpack_managed_tensor(buffer, stream=stream)


def import_capsule(client: Client, capsule: Any, index: int, stream: int | None) -> Any:
    """Return a buffer on a device that shares memory with a capsule."""
    device = client.devices[client.local_numbers[index]]
    buffer = _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream)
    return client.adopt(buffer) if index == 0 else buffer


def external_stream(client: Client, index: int) -> int | None:
    """Return the stream on which a producer must finish its work, None on the CPU."""
    device = client.devices[client.local_numbers[index]]
    if client.platform == "cpu":
        return None
    return device.get_stream_for_external_ready_events()
