"""Tensors of which each process has only its own part."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from pullback.engines.engine_registry import engine_for, engine_spans_processes
from pullback.errors import ArgumentError
from pullback.functions.arguments import as_tensor, node_of
from pullback.functions.sharding import shard
from pullback.graph.types import Type
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import leaf_source
from pullback.sharding.mesh import DeviceMesh, as_mesh
from pullback.sharding.spec import P, Sharding
from pullback.typing import ArrayLike

if TYPE_CHECKING:
    from pullback.engines.xla.xla_mesh import XlaMesh

_OP = "shard_local"


def shard_local(x: ArrayLike, mesh: DeviceMesh, spec: P | None = None) -> Tensor:
    """Make one sharded tensor of the parts that the processes have.

    `x` holds what belongs to the devices of this process, in their order: with `P("dp")`, its
    rows. All processes give parts of the same shape. In a single process this is `shard`.

    >>> import pullback as pb
    >>> mesh = pb.DeviceMesh(1, "dp")
    >>> pb.distributed.shard_local(pb.ones((4, 6)), mesh, pb.P("dp")).shape
    (4, 6)
    """
    if not engine_spans_processes(current(), as_mesh(mesh, _OP)):
        return shard(x, mesh, spec)
    sharding = Sharding(mesh, P() if spec is None else spec)
    given = as_tensor(x)
    array, dtype = given.numpy(), node_of(given).type.dtype
    engine = cast("XlaMesh", engine_for(current(), mesh))
    sharding.check(array.shape, _OP)
    blocks = [_local_block(sharding, engine.group.here, d, array.shape) for d in range(array.ndim)]
    parts: list[np.ndarray | None] = [None] * mesh.size
    for k in engine.group.here:
        at = tuple([block.part(mesh.index(k, block.axes)) for block in blocks])
        parts[k] = np.array(array[at], order="C")
    type = Type([block.whole for block in blocks], dtype, sharding)
    return wrap(leaf_source(type, engine.assemble(parts, type)))


class _LocalBlock:
    """A dimension of which a process has some consecutive shards, from number `first`."""

    def __init__(self, axes: tuple[str, ...], first: int, size: int, whole: int) -> None:
        self.axes, self._first, self._size, self.whole = axes, first, size, whole

    def part(self, number: int) -> slice:
        """Return where a shard begins and ends in what this process has."""
        start = (number - self._first) * self._size
        return slice(start, start + self._size)


def _local_block(
    sharding: Sharding, here: list[int], dim: int, shape: tuple[int, ...]
) -> _LocalBlock:
    mesh, axes = sharding.mesh, tuple(sharding.dims(len(shape))[dim])
    numbers = sorted({mesh.index(k, axes) for k in here})
    first, count = numbers[0], len(numbers)
    if numbers != list(range(first, first + count)):
        raise ArgumentError(
            f"the devices of this process must hold consecutive shards of dimension {dim}, "
            f"got numbers {numbers}",
            op=_OP,
            hint="Order the devices of the mesh by process.",
        )
    if shape[dim] % count:
        raise ArgumentError(
            f"dimension {dim} of size {shape[dim]} must divide into {count} equal shards, one for "
            "each device of this process",
            op=_OP,
        )
    size = shape[dim] // count
    return _LocalBlock(axes, first, size, size * mesh.extent(axes))
