"""Several processes, on one machine or many, whose devices compute together.

Every process runs the same program. Start them with `python -m pullback.distributed --nproc 4
train.py`, or with any other launcher, and let each call `initialize` first.
"""

from pullback.distributed.membership import (
    Device,
    agree,
    barrier,
    devices,
    exchange,
    initialize,
    launch,
    local_devices,
    process_count,
    process_index,
    shutdown,
)
from pullback.errors import ProcessMismatch, WorkerLost

__all__ = [
    "Device", "ProcessMismatch", "WorkerLost", "agree", "barrier", "devices", "exchange",
    "initialize", "launch", "local_devices", "process_count", "process_index", "shutdown",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
