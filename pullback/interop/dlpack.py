"""DLPack: memory exchanged with NumPy, PyTorch, JAX and other libraries.

Exports share memory, which consumers must not write to. Capsules say so to consumers that know
version 1.0 of DLPack; others get a copy, unless they refuse one. On a GPU there is only the older
form, and memory is shared as it is. Imports are copied unless `copy=False` is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError, ExportError
from pullback.graph.argument_checks import checked_copy_argument
from pullback.lazy.host_data import asarray
from pullback.lazy.host_reads import buffer_for_host_read, read_on_host, refuse_host_read_cut
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import leaf_source
from pullback.typing import SupportsDLPack

_CPU, _CUDA, _CUDA_HOST = 1, 2, 3  # DLPack's numbers of device types
_HOST_MEMORY = (_CPU, _CUDA_HOST)
_VERSIONED = (1, 0)  # the first version whose capsules can say that memory is read-only
# NumPy's functions take versions and devices since 2.1
_NUMPY_IS_VERSIONED = tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1)


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Implement `Tensor.__dlpack_device__`: the type and number of the device of a tensor.

    A tensor on several devices is exported from the host, where its shards are joined.
    """
    if x.sharding is not None and len(x.devices) > 1:
        return _CPU, 0
    platform, _, index = x.device.partition(":")
    if platform == "cpu":
        return _CPU, 0
    from pullback.engines.xla.dlpack_capsules import capsule_device_number  # loads jaxlib

    return _CUDA, capsule_device_number(registered_engine("xla", platform).client, int(index))


def to_dlpack(
    x: Tensor, stream: int | None, max_version: tuple[int, int] | None,
    dl_device: tuple[Any, int] | None, copy: bool | None,
) -> Any:  # fmt: skip
    """Implement `Tensor.__dlpack__`: return a capsule with the memory of a tensor."""
    refuse_host_read_cut(x, "export through DLPack")
    here = dlpack_device(x)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted[0] == _CPU:
        if here[0] != _CPU and copy is False:
            raise ExportError(f"__dlpack__: copy=False, but the tensor is on {x.device}")
        return _dlpack_from_host(x, stream if here[0] == _CPU else None, max_version, copy)
    if wanted != here:
        what = f"the tensor is on {x.device}, and cannot be exported on DLPack's device {wanted}"
        raise ExportError(f"__dlpack__: {what}", hint="Move it there first: x.to_device(device).")
    return _dlpack_from_buffer(x, "cuda", stream, copy)


def _dlpack_from_host(
    x: Tensor, stream: int | None, max_version: tuple[int, int] | None, copy: bool | None
) -> Any:
    if stream is not None:
        raise ExportError(f"__dlpack__: stream must be None on the CPU, got {stream!r}")
    if x.dtype.numpy.isbuiltin != 1:  # bf16, which NumPy does not export
        return _dlpack_from_buffer(x, "cpu", None, copy)
    value = read_on_host(x)
    if not _NUMPY_IS_VERSIONED or max_version is None or tuple(max_version) < _VERSIONED:
        value = WritableDLPackView(value).array() if copy is False else value.copy()
        return value.__dlpack__()
    return (value.copy() if copy else value).__dlpack__(max_version=max_version)


class WritableDLPackView:
    """Read-only memory as a consumer needs it that can neither be told so nor gets a copy."""

    def __init__(self, value: np.ndarray) -> None:
        self._value = value  # keeps the memory alive, as NumPy keeps this object
        place = (value.ctypes.data, False)
        self.__array_interface__ = {**value.__array_interface__, "data": place}

    def array(self) -> np.ndarray:
        return np.asarray(self)


def _dlpack_from_buffer(x: Tensor, platform: str, stream: int | None, copy: bool | None) -> Any:
    """Export through jaxlib; its capsules have no flag, so memory of the CPU is copied."""
    from pullback.engines.xla.dlpack_capsules import buffer_to_capsule  # loads jaxlib

    there, value = registered_engine("xla", platform), buffer_for_host_read(x)
    if platform == "cpu":
        host = read_on_host(x)
        value = there.put(host if copy is False else host.copy(), x._node.type.plain)
    elif isinstance(value, np.ndarray):  # a leaf that no program has used yet
        value = there.put(value, x._node.type.plain)
    elif x.sharding is not None:  # on another device than the first
        value = next(iter(value.buffers().values()))
    elif copy:
        value = there.copy(value)
    return buffer_to_capsule(value, stream)


def imported_dlpack(x: Any, device: str | None, copy: bool | None) -> Tensor:
    """Implement `from_dlpack`."""
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=True if copy is None else copy)
    kind, number = x.__dlpack_device__()
    try:
        made = _imported_dlpack_from(x, int(kind), int(number), copy)
    except BufferError as error:  # raised by the producer
        what = f"{type(x).__name__} does not export its memory: {error}"
        raise ArgumentError(what, op="from_dlpack") from None
    return made if device is None else asarray(made, device=device, copy=copy)


def _imported_dlpack_from(x: Any, kind: int, number: int, copy: bool | None) -> Tensor:
    if kind == _CUDA:
        return _imported_dlpack_from_gpu(x, number, copy)
    if kind in _HOST_MEMORY:
        return _imported_dlpack_from_host(x, copy)
    what = f"needs memory of a CPU or a CUDA device, got DLPack's device type {kind}"
    raise ArgumentError(what, op="from_dlpack")


def _imported_dlpack_from_host(x: Any, copy: bool | None) -> Tensor:
    try:
        array = np.from_dlpack(x)
    except (RuntimeError, BufferError):  # a dtype that NumPy lacks, such as bf16
        return _imported_dlpack_buffer(x, registered_engine("xla", "cpu"), 0, copy)
    return asarray(array, copy=True if copy is None else copy)


def _imported_dlpack_from_gpu(x: Any, number: int, copy: bool | None) -> Tensor:
    """Import memory of a GPU, through the host if the GPU is not in use here."""
    mode = current()
    there = registered_engine(mode.engine, mode.device)
    if there.platform == "cuda":
        from pullback.engines.xla.dlpack_capsules import capsule_device_index

        index = capsule_device_index(there.client, number)  # type: ignore[attr-defined]
        if index is not None:
            return _imported_dlpack_buffer(x, there, index, copy)
    if copy is False:
        what = f"copy=False, but the data is on cuda:{number}, which is not in use here"
        raise ArgumentError(what, op="from_dlpack")
    options: dict[str, Any] = {"device": "cpu"} if _NUMPY_IS_VERSIONED else {}
    return asarray(np.from_dlpack(x, **options), copy=True)


def _imported_dlpack_buffer(x: Any, there: Any, index: int, copy: bool | None) -> Tensor:
    """Import memory of a device through jaxlib."""
    from pullback.engines.xla.dlpack_capsules import (  # loads jaxlib
        buffer_from_capsule,
        capsule_stream,
    )

    stream = capsule_stream(there.client, index)
    buffer, type = buffer_from_capsule(there.client, x.__dlpack__(stream=stream), index, stream)
    mode = current()
    if index == 0 and there is registered_engine(mode.engine, mode.device):
        value = buffer if copy is False else there.copy(buffer)
        return wrap(leaf_source(type, value))
    if there.platform == "cpu":
        return asarray(there.get(buffer), copy=True if copy is None else copy)
    if copy is False:
        raise ArgumentError("copy=False, but the data is on another device", op="from_dlpack")
    return asarray(there.get(buffer), device=f"{there.platform}:{index}")


def from_dlpack(
    x: SupportsDLPack, *, device: str | None = None, copy: bool | None = None
) -> Tensor:
    """Return a tensor with the data of an object that supports DLPack.

    The data is copied. With `copy=False` the tensor shares memory with `x`, which must not be
    written to any more; if it cannot be shared, that is an error.

    >>> import numpy as np
    >>> pb.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    if not hasattr(x, "__dlpack_device__"):
        message = f"needs an object with __dlpack__, got {type(x).__name__}"
        raise ArgumentError(message, op="from_dlpack")
    return imported_dlpack(x, device, checked_copy_argument("from_dlpack", copy))
