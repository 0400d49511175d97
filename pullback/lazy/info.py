"""Information about the engine, the program cache, and the shards of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pullback.engines.engine_registry import registered_engine
from pullback.errors import ArgumentError
from pullback.graph.html import html_table
from pullback.graph.node import live_nodes
from pullback.lazy.cache import CacheInfo
from pullback.lazy.host_reads import buffer_for_host_read, refuse_host_read_cut
from pullback.lazy.launch import lock, state
from pullback.lazy.settings import current
from pullback.sharding.parts import part_places

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


def cache_info() -> CacheInfo:
    """Return hits, misses and compiles of the program cache, and the cause of every miss.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0])
    >>> y = (x * 7 - 5).numpy()
    >>> hits = pb.cache_info().hits
    >>> y = (x * 8 - 3).numpy()
    >>> pb.cache_info().hits - hits
    1
    """
    with lock:
        return state.cache.info()


def clear_cache(disk: bool = False) -> None:
    """Drop all programs in memory and reset the counters; with `disk`, also those on disk.

    >>> pb.clear_cache()
    >>> pb.cache_info().misses
    0
    """
    if disk:
        from pullback.engines.xla.disk_cache import disk_cache  # keeps `import pullback` light

        disk_cache().clear()
    state.forget()


@dataclass(frozen=True)
class EngineInfo:
    """The engine in use, the programs it ran, and the number of live nodes.

    `kernels` is the instruction set of pullback's own kernels, or why programs call none; on GPUs,
    attention calls cuDNN.
    """

    engine: str
    platform: str
    kernels: str
    programs_run: int
    live_nodes: int

    def _repr_html_(self) -> str:
        return html_table("EngineInfo", vars(self).items())


def engine_info() -> EngineInfo:
    """Return the engine in use, the number of programs run, and the number of live nodes.

    >>> with pb.config(engine="reference"):
    ...     pb.engine_info().platform
    'numpy'
    """
    mode = current()
    platform = registered_engine(mode.engine, mode.device).platform
    return EngineInfo(
        mode.engine, platform, _engine_kernel_info(platform), state.programs_run, len(live_nodes())
    )


def _engine_kernel_info(platform: str) -> str:
    if not current().kernels:
        return "switched off"
    if platform != "cpu":
        return "cudnn" if platform == "cuda" else f"none for {platform}"
    from pullback.engines.xla.kernels import kernel_library  # keeps `import pullback` light

    found = kernel_library()
    return "not compiled" if found is None else found.instructions


@dataclass(frozen=True)
class ShardInfo:
    """The shard of one device of a mesh."""

    position: int  # of the device in the mesh
    device: int  # its number
    index: tuple[slice, ...]  # of the shard in the tensor
    data: np.ndarray  # without padding


def shards_info(tensor: Tensor) -> list[ShardInfo]:
    sharding, shape = tensor.sharding, tensor.shape
    if sharding is None:
        hint = "Shard it first: x.shard(mesh, spec)."
        raise ArgumentError("shards: the tensor must be on a mesh", hint=hint)
    refuse_host_read_cut(tensor, "shards")
    made = []
    for k, data in buffer_for_host_read(tensor).parts().items():
        sides = zip(part_places(sharding, shape, k), shape, strict=True)
        index = tuple([slice(min(s.start, n), min(s.stop, n)) for s, n in sides])
        cut = np.asarray(data[tuple([slice(s.stop - s.start) for s in index])])
        cut.setflags(write=False)
        made.append(ShardInfo(k, sharding.mesh.devices[k], index, cut))
    return made
