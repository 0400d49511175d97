"""Methods of tensors that other libraries call: NumPy's protocols and DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph.boundary import boundary_methods
from pullback.lazy.hooks import hooks
from pullback.lazy.host_reads import read_on_host, refuse_host_read_cut, warn_of_cut


@boundary_methods
class ProtocolMethods:
    """NumPy's protocols and DLPack."""

    __slots__ = ()

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        refuse_host_read_cut(self, "conversion to a NumPy array")
        warn_of_cut(self, "conversion to a NumPy array")
        value = read_on_host(self)
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    @property
    def __array_interface__(self: Any) -> dict[str, Any]:
        """The memory of the value, for libraries that read no other protocol."""
        value = self.__array__()
        if value.dtype.isbuiltin != 1:
            raise AttributeError(f"{self.dtype} has no array interface")  # NumPy calls __array__
        # NumPy keeps the buffer, not the tensor, whose value may be replaced
        described = {"data": value.data, "strides": value.strides, "version": 3}
        return {"shape": value.shape, "typestr": value.dtype.str, **described}

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return hooks.call_ufunc(function, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        return hooks.call_function(function, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return hooks.dlpack.to_dlpack(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return hooks.dlpack.dlpack_device(self)
