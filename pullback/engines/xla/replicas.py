"""Checksums of the inputs of a program, for comparison with those of other processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.engines.environment import environment_variable
from pullback.engines.xla.sharded import ShardedDeviceGroup, ShardedValue, sharded_value_checksum
from pullback.sharding.parts import part_places
from pullback.sharding.spec import Sharding

if TYPE_CHECKING:
    from pullback.engines.xla.xla_mesh import XlaMesh
    from pullback.graph.graph import Graph


def check_replicas() -> bool:
    """Whether processes compare what they share at each launch, not only at a program's first."""
    return environment_variable("PULLBACK_CHECK_REPLICAS", False)


class ReplicatedProgram:
    """A program on a mesh that spans processes: all must start it, on equal values."""

    identity = ""  # the same on every process; found when they first agree on it

    def __init__(self, engine: XlaMesh, whole: Graph, local: Graph) -> None:
        self.whole, self.local, self.devices = whole, local, engine.group
        self._unsharded = engine.whole

    def checksums(self, args: Sequence[Any]) -> list[dict[str, int]]:
        """Return for each input the checksums of the parts that other processes have, too.

        The key is the position of the part in the value. A value that was cut from one on the host
        has only the checksum of that, under an empty key.
        """
        return [
            self._checksums_of(x, node.type.sharding or self._unsharded, node.type.shape)
            for x, node in zip(args, self.whole.inputs, strict=True)
        ]

    def _checksums_of(
        self, value: Any, sharding: Sharding, shape: tuple[int, ...]
    ) -> dict[str, int]:
        if isinstance(value, np.ndarray):
            return {"": sharded_value_checksum(value)}
        shards: ShardedValue = value.shards
        if shards.checksum is not None:
            return {"": shards.checksum}
        shared = _replica_parts(self.devices, sharding, shape)
        if not shared:
            return {}
        shards.wait()
        buffers, get = shards.buffers(), self.devices.client.get
        return {key: sharded_value_checksum(get(buffers[k])) for key, k in shared.items()}


def _replica_parts(
    devices: ShardedDeviceGroup, sharding: Sharding, shape: tuple[int, ...]
) -> dict[str, int]:
    """Return the parts here that other processes have, too, each with a position that has it."""
    keys = [
        ",".join(str(s.start) for s in part_places(sharding, shape, k)) for k in range(len(devices))
    ]
    if len(set(keys)) == 1:  # every device has the whole value
        keys = [""] * len(devices)
    owners: dict[str, set[int]] = {}
    for key, device in zip(keys, devices.devices, strict=True):
        owners.setdefault(key, set()).add(device.process_index)
    return {keys[k]: k for k in reversed(devices.here) if len(owners[keys[k]]) > 1}


def differing_replicas(found: dict[int, list[dict[str, int]]]) -> dict[int, dict[int, list[int]]]:
    """Return the inputs that differ: for each, the processes by their checksum of the part.

    `found` has the checksums that each process sent.
    """
    differing = {}
    for i, by_part in enumerate(zip(*found.values(), strict=True)):
        groups: dict[str, dict[int, list[int]]] = {}
        for process, parts in zip(found, by_part, strict=True):
            for key, number in parts.items():
                groups.setdefault(key, {}).setdefault(number, []).append(process)
        wrong = next((g for g in groups.values() if len(g) > 1), None)
        if wrong is not None:
            differing[i] = wrong
    return differing
