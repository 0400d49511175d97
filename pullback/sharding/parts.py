"""Shards of host arrays: cutting an array into shards and joining them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pullback.sharding.spec import Sharding


def part_places(sharding: Sharding, shape: Sequence[int], position: int) -> tuple[slice, ...]:
    """Return the slices of a device's shard in the array; they may extend past its end."""
    dims, mesh = sharding.dims(len(shape)), sharding.mesh
    made = []
    for n, axes in zip(sharding.local_shape(shape), dims, strict=True):
        start = n * mesh.index(position, axes)
        made.append(slice(start, start + n))
    return tuple(made)


def part_of_array(array: np.ndarray, sharding: Sharding, position: int) -> np.ndarray:
    """Return a device's shard of an array, padded with zeros."""
    found = array[part_places(sharding, array.shape, position)]
    shape = sharding.local_shape(array.shape)
    if found.shape == shape:
        return np.array(found, order="C")
    made = np.zeros(shape, array.dtype)
    made[tuple([slice(n) for n in found.shape])] = found
    return made


def join_sharding_parts(
    parts: Mapping[int, np.ndarray], sharding: Sharding, shape: Sequence[int]
) -> np.ndarray:
    """Return the whole array from its shards, given by device position."""
    first = next(iter(parts.values()))
    if not shape:
        return np.asarray(first)
    made = np.empty(tuple(shape), first.dtype)
    for position, found in parts.items():
        at = part_places(sharding, shape, position)
        there = made[at]
        there[...] = found[tuple([slice(n) for n in there.shape])]
    return made
