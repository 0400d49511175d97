"""Parts of arrays: what each device of a mesh has of a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pullback.sharding.spec import Sharding


def places(sharding: Sharding, shape: Sequence[int], position: int) -> tuple[slice, ...]:
    """Where the part of a device lies in the whole, which may end before the part does."""
    dims, mesh = sharding.dims(len(shape)), sharding.mesh
    made = []
    for n, axes in zip(sharding.local_shape(shape), dims, strict=True):
        start = n * mesh.index(position, axes)
        made.append(slice(start, start + n))
    return tuple(made)


def part(array: np.ndarray, sharding: Sharding, position: int) -> np.ndarray:
    """A device's part of an array, filled up with zeros where the array ends before it."""
    found = array[places(sharding, array.shape, position)]
    shape = sharding.local_shape(array.shape)
    if found.shape == shape:
        return np.array(found, order="C")
    made = np.zeros(shape, array.dtype)
    made[tuple([slice(n) for n in found.shape])] = found
    return made


def join(parts: Mapping[int, np.ndarray], sharding: Sharding, shape: Sequence[int]) -> np.ndarray:
    """The whole array, from the parts of the devices by position."""
    first = next(iter(parts.values()))
    if not shape:
        return np.asarray(first)
    made = np.empty(tuple(shape), first.dtype)
    for position, found in parts.items():
        at = places(sharding, shape, position)
        there = made[at]
        there[...] = found[tuple([slice(n) for n in there.shape])]
    return made
