"""What the engine and the program cache did so far."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from pullback.engines.xla.disk_cache import disk_cache
from pullback.errors import ArgumentError
from pullback.graph.node import Node
from pullback.lazy.cache import CacheInfo
from pullback.lazy.launch import lock, state
from pullback.lazy.program import engine
from pullback.lazy.settings import current


def cache_info() -> CacheInfo:
    """Hits, misses and compiles of the program cache, and the cause of every miss.

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
    """Forget all compiled programs in memory, and the counters; with `disk`, those on disk too."""
    if disk:
        disk_cache().clear()
    state.forget()


@dataclass(frozen=True)
class EngineInfo:
    """What the engine in use is, and what it did."""

    engine: str
    platform: str
    programs_run: int
    live_nodes: int


def engine_info() -> EngineInfo:
    """The engine in use, programs run so far, and how many nodes are alive."""
    live = sum(1 for o in gc.get_objects() if type(o) is Node)
    mode = current()
    platform = engine(mode.engine, mode.device).platform
    return EngineInfo(mode.engine, platform, state.programs_run, live)


def devices_of(tensor: Any) -> tuple[str, ...]:
    """The devices that a value is on, as `cpu:0`: those of its mesh, or the one in use."""
    mode, sharding = current(), tensor.sharding
    if sharding is None and mode.device:
        return (mode.device,)
    platform = engine(mode.engine).platform
    name = "cpu" if platform == "numpy" else platform
    return tuple([f"{name}:{k}" for k in (sharding.mesh.devices if sharding else (0,))])


def device_of(tensor: Any) -> str:
    found = devices_of(tensor)
    if len(found) > 1:
        raise ArgumentError(
            f"device: the tensor lies on {len(found)} devices, {tensor.sharding.mesh}",
            hint="x.devices names them, x.sharding.mesh is their grid, x.shards() are their parts.",
        )
    return found[0]
