"""Names of devices, those of tensors, and the layout of values on one device.

Values are on the first device of the platform unless something places them elsewhere. A value on
another device has a sharding, on a mesh that holds this device alone and is named after its
platform, so recording, transforms and programs treat it like any value on a mesh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback.engines.engine_registry import registered_engine
from pullback.engines.protocols import Engine
from pullback.errors import ArgumentError, EngineError
from pullback.lazy.settings import SettingsScope, current
from pullback.sharding.mesh import PLATFORMS, DeviceMesh
from pullback.sharding.spec import P, Sharding

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


def devices_of(tensor: Tensor) -> tuple[str, ...]:
    """Return the devices of a tensor, such as `cpu:0`: those of its mesh, or the first one."""
    mode, sharding = current(), tensor.sharding
    mesh = sharding.mesh if sharding else None
    there = registered_engine(mode.engine, (mesh and mesh.platform) or mode.device)
    local = there.local_devices
    if mesh is None or mesh.platform:  # counted as `default_device` does
        return (f"{platform_in_device_names(there)}:{local.index(mesh.devices[0]) if mesh else 0}",)
    return tuple([f"{platform_in_device_names(there)}:{k}" for k in mesh.devices])


def device_of(tensor: Tensor) -> str:
    found, sharding = devices_of(tensor), tensor.sharding
    if sharding is not None and len(found) > 1:
        what = f"device: the tensor is on {len(found)} devices, {sharding.mesh}"
        raise ArgumentError(what, hint="Use x.devices, x.sharding.mesh or x.shards().")
    return found[0]


def default_device(name: str) -> SettingsScope:
    """Set the device of new tensors: a platform and an index, such as `cpu:0`.

    Results are on the device of their operands.

    >>> import pullback as pb
    >>> with pb.default_device("cpu:0"):
    ...     pb.tensor(1.0).device
    'cpu:0'
    """
    there, index = find_device("default_device", name)
    mode = current()
    if index == 0 and there is not registered_engine(mode.engine, mode.device):
        return SettingsScope(device=there.platform, place=None)  # a platform, and all of its work
    return SettingsScope(place=layout_on_named_device("default_device", name))


def layout_on_named_device(op: str, name: str) -> Sharding | None:
    """Return the layout of a value on a device; None on the first one of the platform in use."""
    there, index = find_device(op, name)
    mode = current()
    if index == 0 and there is registered_engine(mode.engine, mode.device):
        return None
    mesh = DeviceMesh(1, platform_in_device_names(there), [there.local_devices[index]])
    return Sharding(mesh, P())


def find_device(op: str, name: str) -> tuple[Engine, int]:
    """Return the engine of a device and the device's index; raise if there is none."""
    platform, colon, index = name.partition(":") if isinstance(name, str) else ("", "", "")
    platform = "cuda" if platform == "gpu" else platform
    if platform not in PLATFORMS or (colon and not index.isdecimal()):
        hint = "To change the type of the elements, write x.astype(dtype)."
        what = f"a device is a platform and an index, such as 'cpu:0' or 'cuda:1', got {name!r}"
        raise ArgumentError(what, op=op, hint=hint)
    mode = current()
    home = registered_engine(mode.engine, mode.device)
    there = (
        home
        if platform == platform_in_device_names(home)
        else registered_engine(mode.engine, platform)
    )
    count = len(there.local_devices)
    if int(index or 0) >= count:
        hint = "Set the environment variable PULLBACK_CPU_DEVICES before Python starts."
        what = f"there is no device {name!r}: this process has {count} of platform {platform}"
        raise EngineError(what, op=op, code="E6002", hint=hint if platform == "cpu" else None)
    return there, int(index or 0)


def platform_in_device_names(there: Engine) -> str:
    """Return the platform in names of devices; NumPy computes on the CPU."""
    return "cpu" if there.platform == "numpy" else there.platform
