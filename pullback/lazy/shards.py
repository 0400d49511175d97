"""The shards of a tensor on a mesh."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pullback.errors import ArgumentError
from pullback.lazy.pending import readable
from pullback.sharding.parts import places

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


@dataclass(frozen=True)
class Shard:
    """The shard of one device: the position of the device in the mesh, its number, the index of
    the shard in the tensor, and the values, without padding."""

    position: int
    device: int
    index: tuple[slice, ...]
    data: np.ndarray


def shards(tensor: Tensor) -> list[Shard]:
    sharding, shape = tensor.sharding, tensor.shape
    if sharding is None:
        raise ArgumentError(
            "shards: the tensor must be on a mesh", hint="Shard it first: x.shard(mesh, spec).",
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
