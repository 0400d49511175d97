"""Device meshes: devices in a grid with named axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.html import html_array
from pullback.graph.interned import Interned

MOST_DEVICES = 2**24  # more than there are anywhere; their numbers must fit into memory
PLATFORMS = ("cpu", "cuda")
ALONE = tuple([(name,) for name in PLATFORMS])


class DeviceMesh(metaclass=Interned):
    """Devices in a grid of the given shape with named axes.

    `devices` are device numbers in row-major order; by default the first ones. Equal meshes are the
    same object.

    >>> import pullback as pb
    >>> pb.DeviceMesh((2, 4), ("dp", "tp"))
    DeviceMesh(dp=2, tp=4)
    """

    def __init__(
        self,
        shape: int | Sequence[int],
        axis_names: str | Sequence[str],
        devices: Iterable[int] | None = None,
    ) -> None:
        self.shape = _mesh_integers(shape, "dimensions")
        self.axis_names = _mesh_names(axis_names)
        self.size = math.prod(self.shape)
        if self.size > MOST_DEVICES:
            what = f"a mesh has at most {MOST_DEVICES} devices, got {self.size}"
            raise ArgumentError(what, op="DeviceMesh")
        self.devices = tuple(range(self.size))
        if devices is not None:
            self.devices = _mesh_integers(devices, "devices")
        self._check()
        self.sizes = dict(zip(self.axis_names, self.shape, strict=True))

    def _check(self) -> None:
        names, sizes = self.axis_names, self.shape
        problem = ""
        if len(names) != len(sizes):
            problem = f"needs one axis name per dimension, got {len(names)} for {len(sizes)}"
        elif len(set(names)) != len(names):
            problem = f"axis names must be distinct, got {names!r}"
        elif not all(n > 0 for n in sizes):
            problem = f"dimensions must be positive integers, got {sizes!r}"
        elif len(self.devices) != self.size:
            problem = f"a mesh of {sizes} needs {self.size} devices, got {len(self.devices)}"
        elif len(set(self.devices)) != self.size:
            problem = f"devices must be distinct, got {list(self.devices)}"
        if problem:
            raise ArgumentError(problem, op="DeviceMesh")

    def parameters(self) -> tuple:
        return self.shape, self.axis_names, self.devices

    def __reduce__(self) -> tuple:
        return DeviceMesh, self.parameters()

    @property
    def platform(self) -> str | None:
        """The platform of a mesh that stands for one of its devices: it is named after it."""
        return self.axis_names[0] if self.axis_names in ALONE and self.size == 1 else None

    @property
    def title(self) -> str:
        """The mesh in messages; one that stands for a device has the device's name."""
        return f"{self.platform}:{self.devices[0]}" if self.platform else repr(self)

    @property
    def several(self) -> tuple[str, ...]:
        """The axes with more than one device."""
        return tuple([a for a, n in self.sizes.items() if n > 1])

    def extent(self, axes: Iterable[str]) -> int:
        """Return the number of devices along some axes together."""
        return math.prod([self.sizes[a] for a in axes])

    def index(self, position: int, axes: Sequence[str]) -> int:
        """Return which shard of a dimension split along `axes` a device holds."""
        made = 0
        for a in axes:
            made = made * self.sizes[a] + self.coordinates[position][a]
        return made

    @cached_property
    def coordinates(self) -> list[dict[str, int]]:
        """The coordinates of each position, in row-major order."""
        places = np.indices(self.shape).reshape(len(self.shape), -1).T
        return [dict(zip(self.axis_names, map(int, p), strict=True)) for p in places]

    def groups(self, axes: Sequence[str]) -> list[list[int]]:
        """Return the groups of positions that communicate over `axes`."""
        inside = [self.axis_names.index(a) for a in axes]
        outside = [i for i in range(len(self.shape)) if i not in inside]
        grid = np.arange(self.size).reshape(self.shape).transpose(*outside, *inside)
        return grid.reshape(-1, self.extent(axes)).tolist()

    def __repr__(self) -> str:
        axes = ", ".join(f"{a}={n}" for a, n in self.sizes.items())
        usual = self.devices == tuple(range(self.size))
        return f"DeviceMesh({axes})" if usual else f"DeviceMesh({axes}, devices={self.devices})"

    def _repr_html_(self) -> str:
        """Show the numbers of the devices in a notebook, in the shape of the mesh."""
        axes = ", ".join(f"{a}={n}" for a, n in self.sizes.items())
        return html_array(f"DeviceMesh({axes})", np.reshape(self.devices, self.shape))


def _mesh_integers(given: Any, what: str) -> tuple[int, ...]:
    """Flatten nested integers in row-major order."""
    try:
        array = np.asarray([given] if isinstance(given, (int, np.integer)) else list(given))
    except (TypeError, ValueError):
        array = np.asarray("no numbers")
    if array.size and array.dtype.kind not in "iu":
        raise ArgumentError(f"{what} must be integers, got {given!r}", op="DeviceMesh")
    return tuple(array.ravel().tolist())


def _mesh_names(given: Any) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (tuple, list)) or not all(isinstance(n, str) and n for n in names):
        raise ArgumentError(f"axis names must be strings, got {given!r}", op="DeviceMesh")
    return tuple(names)


DeviceMesh._quick = None  # compare arguments only after checking them: (2.0,) equals (2,)


def as_mesh(mesh: Any, op: str) -> DeviceMesh:
    if not isinstance(mesh, DeviceMesh):
        raise ArgumentError(f"needs a DeviceMesh, got {mesh!r}", op=op)
    return mesh
