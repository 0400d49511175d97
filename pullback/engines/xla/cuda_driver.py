"""CUDA's driver, called for what XLA has no functions for."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

_EVERY_CONTEXT, _MAPPED = 1, 2  # flags of memory of the host that a GPU can write


class CudaDriver:
    """The driver's functions, called in the context of one GPU; they raise RuntimeError."""

    def __init__(self, library: Any, ordinal: int) -> None:
        self._library, self._context = library, ctypes.c_void_p()
        device = ctypes.c_int()
        self._check(library.cuDeviceGet(ctypes.byref(device), ordinal))
        # XLA has made the primary context, which is kept as long as the process.
        self._check(library.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device))

    @classmethod
    def of_device(cls, ordinal: int) -> CudaDriver | None:
        """Return the driver for a GPU; None if it cannot be called."""
        try:
            return cls(ctypes.CDLL("libcuda.so.1"), ordinal)
        except (OSError, AttributeError, RuntimeError):
            return None

    def copy_to_host(self, address: int, array: np.ndarray) -> None:
        """Fill an array from memory of the GPU; XLA's programs on it go on meanwhile."""
        source, target = ctypes.c_uint64(address), ctypes.c_void_p(array.ctypes.data)
        self._call("cuMemcpyDtoH_v2", target, source, ctypes.c_size_t(array.nbytes))

    def shared_words(self, count: int) -> np.ndarray:
        """Return words of 64 bits, all 0, in memory of the host that programs can write at the
        address that it has on the host; it is never freed."""
        address, size = ctypes.c_void_p(), ctypes.c_size_t(8 * count)
        flags = ctypes.c_uint(_EVERY_CONTEXT | _MAPPED)
        self._call("cuMemHostAlloc", ctypes.byref(address), size, flags)
        pointer = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint64))
        words = np.ctypeslib.as_array(pointer, (count,))
        words[:] = 0
        return words

    def _call(self, name: str, *arguments: Any) -> None:
        library, before = self._library, ctypes.c_void_p()
        self._check(library.cuCtxPushCurrent_v2(self._context))
        try:
            self._check(getattr(library, name)(*arguments))
        finally:
            library.cuCtxPopCurrent_v2(ctypes.byref(before))

    def _check(self, result: int) -> None:
        if result:
            raise RuntimeError(f"CUDA's driver returned error {result}")
