"""Boxes: the parts of a tensor that shards are, as the begin and the end in each dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pullback.distributed.process_devices import devices
from pullback.lazy.tensor import Tensor
from pullback.sharding.parts import part_places
from pullback.sharding.spec import Sharding

Box = tuple[tuple[int, int], ...]


def whole_box(shape: Sequence[int]) -> Box:
    return tuple([(0, n) for n in shape])


def box_shape(box: Box) -> tuple[int, ...]:
    return tuple([stop - start for start, stop in box])


def box_size(box: Box) -> int:
    return math.prod(box_shape(box))


def device_box(sharding: Sharding, shape: Sequence[int], position: int) -> Box:
    """Return the part of a tensor that a device of the mesh has, without padding."""
    sides = zip(part_places(sharding, shape, position), shape, strict=True)
    return tuple([(min(s.start, n), min(s.stop, n)) for s, n in sides])


def shard_boxes(x: Tensor, turn: int) -> list[tuple[int, int, Box]]:
    """Return each box of a sharded tensor once, with a process and a position that have it.

    Every process finds the same, so that each shard is written by one of them. Those that have
    replicas take turns.
    """
    sharding = x.sharding
    assert sharding is not None
    holders: dict[Box, list[int]] = {}
    for position in range(sharding.mesh.size):
        box = device_box(sharding, x.shape, position)
        if box_size(box):
            holders.setdefault(box, []).append(position)
    owners, known = sharding.mesh.devices, devices()
    made = []
    for number, (box, positions) in enumerate(holders.items()):
        position = positions[(number + turn) % len(positions)]
        made.append((known[owners[position]].process, position, box))
    return made


def boxes_overlap(a: Box, b: Box) -> bool:
    return all(max(i, k) < min(j, m) for (i, j), (k, m) in zip(a, b, strict=True))


def copy_box_overlap(into: np.ndarray, box: Box, values: np.ndarray, at: Box) -> None:
    """Copy the part of `values`, which are at the box `at`, that belongs into the box of `into`."""
    common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, at, strict=True)]
    if all(start < stop for start, stop in common):
        there = tuple([slice(a - o, b - o) for (a, b), (o, _) in zip(common, box, strict=True)])
        here = tuple([slice(a - o, b - o) for (a, b), (o, _) in zip(common, at, strict=True)])
        into[there] = values[here]
