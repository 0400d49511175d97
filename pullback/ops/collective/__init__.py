"""Collectives: ops that communicate along a named axis or between devices of a mesh."""

from pullback.ops.collective import move, reduce, reshard, rows, shard_map  # noqa: F401
