"""Collectives: ops that communicate along a named axis or between devices of a mesh."""

from pullback.ops.collective import (  # noqa: F401  # isort: skip
    axis_index, gather_scatter_permute, pvary, all_reduce, reshard, rows, shard_map,
)  # fmt: skip
