"""Where a loader's batches come from: this process or workers, by index or in order."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pullback.data.batch_makers import BatchMakerEnd, IndexedBatchMaker, Maker, StreamBatchMaker
from pullback.data.dataset import Dataset, dataset_vector
from pullback.data.iterables import IterableDataset
from pullback.data.order import BatchOrder, Key
from pullback.data.worker import WorkerJob, WorkerTask
from pullback.data.worker_pool import WorkerPool
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_integer_argument, shown_argument
from pullback.lazy.settings import current

_LOAD = "DataLoader.load_state_dict"
_AHEAD = 2  # tasks that a worker has at a time, so that it never waits for the loader
Stopped = Callable[[], bool]  # whether nobody waits for batches any more
Collate = Callable[[list[Any]], Any]


class BatchSource(ABC):
    """Makes the batches of epochs, in worker processes if there are any."""

    maker: Maker

    def __init__(self, workers: int) -> None:
        self._count = workers
        self.pool: WorkerPool | None = None
        self.in_use = threading.Lock()  # a thread may outlive its loop by a batch

    @abstractmethod
    def batches(self, epoch: int, first: int, stopped: Stopped) -> Iterator[Any]:
        """Yield the batches of an epoch from number `first` on."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what determines the batches, besides the dataset and the position."""

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:
        """Take the order of a saved state; raise if its positions mean other batches here."""

    def start(self) -> None:
        """Start the worker processes, unless they run."""
        if self._count and self.pool is None:
            self.pool = WorkerPool(WorkerJob(self.maker, str(current().default_dtype)), self._count)

    def close_if_broken(self) -> None:
        """End the worker processes if one of them has ended; the next loop starts others."""
        if self.pool is not None and self.pool.is_broken:
            self.close()

    def close(self) -> None:
        """End the worker processes."""
        with self.in_use:
            if self.pool is not None:
                self.pool.close()
                self.pool = None

    def _made(self, indices: np.ndarray | None) -> Any:
        """Make a batch in this process; errors say which example they are about."""
        try:
            return self.maker.make(indices)
        except Exception as error:
            error.add_note(f"({self.maker.place(indices)} raised this)")
            raise


class IndexedBatchSource(BatchSource):
    """Batches of a dataset with a length and an index."""

    def __init__(
        self, dataset: Dataset, plan: BatchOrder, collate: Collate | None, single: bool,
        workers: int,
    ) -> None:  # fmt: skip
        super().__init__(workers)
        self._plan = plan
        self.maker = IndexedBatchMaker(dataset, collate, single)

    def __len__(self) -> int:
        return len(self._plan)

    def __str__(self) -> str:
        return f"{self._plan.length} examples in {len(self)} batches"

    def batches(self, epoch: int, first: int, stopped: Stopped) -> Iterator[Any]:
        plan = self._plan
        rows = plan.rows(epoch)
        indices = (plan.batch(rows, number) for number in range(first, len(plan)))
        if self.pool is None:
            return map(self._made, indices)
        tasks = (WorkerTask(0, part) for part in indices)
        return self.pool.batches(tasks, _AHEAD, stopped)

    def state(self) -> dict[str, Any]:
        plan = self._plan
        key = None if plan.key is None else plan.key.tolist()
        return {"key": key, "batch_size": plan.size, "length": plan.length}

    def load(self, state: Mapping[str, Any]) -> None:
        plan = self._plan
        _compare_batch_source_state(state, batch_size=plan.size, length=plan.length)
        saved = state.get("key")
        if (saved is None) != (plan.key is None):
            raise _batch_source_state_error("shuffle", saved is not None, plan.key is not None)
        if saved is not None:
            self._plan = replace(plan, key=_saved_batch_source_key(saved))


class StreamBatchSource(BatchSource):
    """Batches of a dataset that is read in order."""

    def __init__(
        self, dataset: IterableDataset, size: int | None, drop_last: bool,
        shard: tuple[int, int], collate: Collate | None, workers: int,
    ) -> None:  # fmt: skip
        super().__init__(workers)
        if size is not None and size % shard[1]:
            message = (
                f"batch_size counts the examples of all processes and must divide by {shard[1]}, "
                f"their number, got {size}"
            )
            raise ArgumentError(message, op="DataLoader")
        self._shard, self._size = shard, size
        self.maker = StreamBatchMaker(dataset, collate, size and size // shard[1], drop_last)

    def __len__(self) -> int:
        message = "the dataset is read in order, so the number of its batches is not known"
        raise ArgumentError(message, op="DataLoader")

    def __str__(self) -> str:
        return "examples that are read in order"

    def batches(self, epoch: int, first: int, stopped: Stopped) -> Iterator[Any]:
        """Yield batches; those before `first` are read again, and dropped."""
        if self.pool is not None:
            found = self.pool.streams(epoch, self._shard, _AHEAD, stopped)
        else:
            self.maker.begin(epoch, self._shard)
            found = itertools.takewhile(
                _is_batch_from_source, map(self._made, itertools.repeat(None))
            )
        return itertools.islice(found, first, None)

    def state(self) -> dict[str, Any]:
        return {"batch_size": self._size or 0, "workers": self._count}

    def load(self, state: Mapping[str, Any]) -> None:
        _compare_batch_source_state(state, batch_size=self._size or 0, workers=self._count)


def _is_batch_from_source(made: Any) -> bool:
    return not isinstance(made, BatchMakerEnd)


def _compare_batch_source_state(state: Mapping[str, Any], **here: int) -> None:
    """Raise unless the numbers of a state are those of this loader."""
    for name, number in here.items():
        if (
            name in state
            and (saved := checked_integer_argument(_LOAD, state[name], name)) != number
        ):
            raise _batch_source_state_error(name, saved, number)


def _saved_batch_source_key(saved: Any) -> Key:
    words = dataset_vector(_LOAD, saved, "key")
    if len(words) != 2 or words.dtype.kind not in "iu" or not (words >= 0).all():
        raise ArgumentError(f"key must be two integers, got {shown_argument(saved)}", op=_LOAD)
    return words.astype(np.uint32)


def _batch_source_state_error(name: str, saved: Any, here: Any) -> ArgumentError:
    message = (
        f"the state was saved with {name}={saved}, and this loader has {name}={here}: positions "
        "would mean other examples"
    )
    return ArgumentError(message, op=_LOAD)
