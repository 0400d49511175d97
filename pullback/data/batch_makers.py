"""Making batches: the part of a loader that runs in its worker processes, or in its thread."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from pullback.data.collating import collate
from pullback.data.dataset import Dataset
from pullback.data.iterables import IterableDataset


class BatchMakerEnd:
    """What `StreamBatches` makes after the last batch."""


class IndexedBatchMaker:
    """Makes batches of a dataset from indices. `index` is the example that is being read."""

    def __init__(self, dataset: Dataset, collated: Callable[[list], Any] | None, single: bool):
        self._dataset, self._collated, self._single = dataset, collated, single
        self.index: int | None = None

    def begin(self, epoch: int, shard: tuple[int, int]) -> None:
        """Prepare for an epoch; all that matters here are indices."""

    def make(self, indices: Any) -> Any:
        """Return the batch of the examples at `indices`, or the only one if it is `single`."""
        self.index = None
        if self._single:
            return self._example(int(indices[0]))
        if self._collated is None and self._dataset.takes_batches:
            return self._dataset.take(indices)
        examples = [self._example(int(i)) for i in indices]
        self.index = None
        return (self._collated or collate)(examples)

    def _example(self, index: int) -> Any:
        self.index = index
        return self._dataset[index]

    def place(self, indices: Any) -> str:
        """Say what was being made, for a message."""
        if self.index is not None:
            return f"dataset[{self.index}]"
        shown = ", ".join(map(str, indices[:8])) + (", ..." if len(indices) > 8 else "")
        return f"the batch of examples {shown}"


class StreamBatchMaker:
    """Makes batches of a dataset that is read in order, until they end."""

    def __init__(
        self, dataset: IterableDataset, collated: Callable[[list], Any] | None, size: int | None,
        drop_last: bool,
    ) -> None:  # fmt: skip
        self._dataset, self._collated = dataset, collated
        self._size, self._drop_last = size, drop_last
        self._examples: Iterator[Any] = iter(())
        self._read = 0

    def begin(self, epoch: int, shard: tuple[int, int]) -> None:
        """Start at the first example of an epoch."""
        self._examples = self._dataset.iterate(epoch, shard)
        self._read = 0

    def make(self, indices: Any = None) -> Any:
        """Return the next batch, or the end of the stream."""
        group = []
        for example in itertools.islice(self._examples, self._size or 1):
            group.append(example)
            self._read += 1
        if not group or (self._size and len(group) < self._size and self._drop_last):
            return BatchMakerEnd()
        return (self._collated or collate)(group) if self._size else group[0]

    def place(self, indices: Any = None) -> str:
        """Say what was being made, for a message."""
        return f"the dataset, after {self._read} examples,"


Maker = IndexedBatchMaker | StreamBatchMaker
