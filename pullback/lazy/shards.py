"""The parts of a tensor that lies on a mesh, one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.lazy.pending import readable
from pullback.sharding.parts import places


@dataclass(frozen=True)
class Shard:
    """One device's part: where the device is in the mesh, its number, which part it has, and the
    values, without what pads them."""

    position: int
    device: int
    index: tuple[slice, ...]
    data: np.ndarray


def shards(tensor: Any) -> list[Shard]:
    sharding, shape = tensor.sharding, tensor.shape
    if sharding is None:
        raise ArgumentError(
            "shards: the tensor is on no mesh",
            hint="Lay it out first: x.shard(mesh, spec).",
        )  # fmt: skip
    made = []
    for k, data in readable(tensor).parts().items():
        index = tuple([
            slice(min(s.start, n), min(s.stop, n))
            for s, n in zip(places(sharding, shape, k), shape, strict=True)
        ])  # fmt: skip
        cut = np.asarray(data[tuple([slice(s.stop - s.start) for s in index])])
        cut.setflags(write=False)
        made.append(Shard(k, sharding.mesh.devices[k], index, cut))
    return made
