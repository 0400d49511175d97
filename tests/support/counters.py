"""What several tests need: counters, memory, and small training loops."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pullback as pb
from pullback.lazy.launch import state


class Counts:
    """How much the counters moved since the block began."""

    def __init__(self) -> None:
        self._start = self._read()

    @staticmethod
    def _read() -> dict[str, int]:
        info = pb.cache_info()
        return {
            "programs": state.programs_run,
            "hits": info.hits,
            "misses": info.misses,
            "compiles": info.compiles,
        }

    def _moved(self, name: str) -> int:
        return self._read()[name] - self._start[name]

    @property
    def programs(self) -> int:
        """Programs run."""
        return self._moved("programs")

    @property
    def hits(self) -> int:
        return self._moved("hits")

    @property
    def misses(self) -> int:
        return self._moved("misses")

    @property
    def compiles(self) -> int:
        return self._moved("compiles")

    @property
    def nothing(self) -> bool:
        """Whether no engine was asked for anything."""
        return not (self.programs or self.hits or self.misses or self.compiles)


@contextmanager
def counting() -> Iterator[Counts]:
    """Counts inside a block; they can still be read after it."""
    yield Counts()


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Reference cycles stay: what dies late in a user's program dies late here."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def live_nodes() -> int:
    """Nodes alive once garbage is gone."""
    gc.collect()
    return pb.engine_info().live_nodes
