"""The processes and their devices."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.engines import processes
from pullback.engines.engine_registry import registered_engine


@dataclass(frozen=True)
class Device:
    """A device of some process; meshes refer to it by `number`."""

    number: int
    process: int
    kind: str

    def __repr__(self) -> str:
        return f"<{self.kind}:{self.number} of process {self.process}>"


def process_index() -> int:
    """The number of this process; 0 if it is alone.

    >>> import pullback as pb
    >>> pb.distributed.process_index(), pb.distributed.process_count()
    (0, 1)
    """
    return processes.current_processes().index


def process_count() -> int:
    """The number of processes.

    >>> import pullback as pb
    >>> pb.distributed.process_count()
    1
    """
    return processes.current_processes().count


def devices() -> list[Device]:
    """The devices of all processes, in the order in which meshes take them.

    >>> import pullback as pb
    >>> len(pb.distributed.devices()) >= len(pb.distributed.local_devices()) > 0
    True
    """
    client = registered_engine("xla").client
    return [Device(i, d.process_index, client.platform) for i, d in enumerate(client.devices)]


def local_devices() -> list[Device]:
    """The devices of this process.

    >>> import pullback as pb
    >>> pb.distributed.local_devices()[0] in pb.distributed.devices()
    True
    """
    return [d for d in devices() if d.process == process_index()]


__all__ = ["Device", "devices", "local_devices", "process_count", "process_index"]
