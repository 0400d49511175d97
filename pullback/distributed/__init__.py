"""Several processes, on one machine or many, whose devices compute together.

Every process runs the same program. Start them with `python -m pullback.distributed --nproc 4
train.py`, or with any other launcher, and let each call `initialize` first.
"""

from pullback.distributed.barriers import agree, barrier, exchange
from pullback.distributed.local_data import shard_local
from pullback.distributed.membership import initialize, launch, shutdown
from pullback.distributed.process_devices import (
    Device,
    devices,
    local_devices,
    process_count,
    process_index,
)
from pullback.errors import ProcessMismatch, WorkerLost
from pullback.graph.boundary import publish

__all__ = [
    "Device", "ProcessMismatch", "WorkerLost", "agree", "barrier", "devices", "exchange",
    "initialize", "launch", "local_devices", "process_count", "process_index", "shard_local",
    "shutdown",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


publish(__name__)
