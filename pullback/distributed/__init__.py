"""Several processes, on one machine or many, whose devices compute together.

Every process runs the same program. Start them with `python -m pullback.distributed --nproc 4
train.py`, or with any other launcher, and let each call `initialize` first.
"""

from pullback.distributed import membership
from pullback.distributed.local_data import shard_local as shard_local
from pullback.distributed.membership import *  # noqa: F403
from pullback.graph.boundary import publish

__all__ = sorted([*membership.__all__, "shard_local"])


def __dir__() -> list[str]:
    return __all__


publish(__name__)
