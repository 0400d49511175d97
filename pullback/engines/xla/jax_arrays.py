"""Classes that jaxlib needs for its arrays: abstract values and shardings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.engines.xla.bindings import _jax, xla_client
from pullback.graph.memo import remember
from pullback.graph.native import plain_values
from pullback.graph.types import Type

plain_values(_jax.ArrayImpl)


class Aval:
    """The abstract value of an array: its shape and dtype."""

    __slots__ = ("dtype", "ndim", "shape")
    weak_type = False

    def __init__(self, type: Type) -> None:
        self.shape, self.dtype, self.ndim = type.shape, type.dtype.numpy, len(type.shape)


_avals: dict[Type, Aval] = {}


def jax_aval_of(type: Type) -> Aval:
    """Return the abstract value of a type, from a cache."""
    aval = _avals.get(type)
    if aval is None:
        aval = remember(_avals, type, Aval(type), bound=4096)
    return aval


class JaxArrayOnDevice(_jax.SingleDeviceSharding):  # type: ignore[misc, name-defined]
    """Places a whole array on one device."""

    memory_kind = None
    is_fully_replicated = True
    is_fully_addressable = True

    def __init__(self, device: Any) -> None:
        super().__init__(device)
        self._only = {device}

    @property
    def device_set(self) -> set:
        return self._only

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return xla_client.HloSharding.replicate()


class JaxArrayOnDevices(_jax.Sharding):  # type: ignore[misc, name-defined]
    """Places an array on each of several devices, each with its own values.

    For jaxlib, the shape of one part is the shape of the whole. (If the sharding claimed that the
    parts are copies of one array, jaxlib would transfer the first to all devices.)
    """

    memory_kind = None
    is_fully_replicated = False

    def __init__(self, devices: Sequence[Any], is_fully_addressable: bool) -> None:
        super().__init__()
        self._all = jax_device_list(devices)
        self._set = set(devices)
        self._here = is_fully_addressable

    # Properties, because the package jax, if it is imported, replaces plain attributes.

    @property
    def is_fully_addressable(self) -> bool:
        return self._here

    @property
    def device_set(self) -> set:
        return self._set

    @property
    def _internal_device_list(self) -> Any:
        return self._all

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return xla_client.HloSharding.manual()

    def shard_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


def jax_device_list(devices: Sequence[Any]) -> Any:
    cls = getattr(xla_client, "DeviceList", None) or _jax.DeviceList
    return cls(tuple(devices))


def jax_result_handler(type: Type, sharding: Any) -> Any:
    """Return a handler that converts the results of a program to arrays."""
    try:
        return _jax.array_result_handler(jax_aval_of(type), sharding, True, True)
    except TypeError:  # jaxlib 0.12 has no `skip_checks`
        return _jax.array_result_handler(jax_aval_of(type), sharding, True)
