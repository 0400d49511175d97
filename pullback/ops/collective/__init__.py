"""Collectives: values that cross a named axis or a mesh of devices."""

from pullback.ops.collective import move, reduce, reshard, shard_map

__all__ = ["move", "reduce", "reshard", "shard_map"]
