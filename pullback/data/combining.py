"""What may serve as a dataset, and datasets made of several."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.data.as_dataset import as_dataset_argument
from pullback.data.dataset import Dataset, dataset_position
from pullback.data.iterables import IterableChain, IterableDataset, IterableZip
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_sequence_argument, shown_argument
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor


def concat(datasets: Any) -> Any:
    """Return the examples of several datasets, one after the other.

    >>> list(pb.data.concat([[1, 2], [3]]))
    [1, 2, 3]
    """
    parts, indexed = _combined_datasets("data.concat", datasets)
    return ConcatDataset(parts) if indexed else IterableChain(parts)


def zip(*datasets: Any) -> Any:
    """Return tuples of the examples of datasets that have equal lengths.

    >>> list(pb.data.zip([1, 2], ["a", "b"]))
    [(1, 'a'), (2, 'b')]
    """
    parts, indexed = _combined_datasets("data.zip", list(datasets))
    return ZippedDataset(parts) if indexed else IterableZip(parts)


def _combined_datasets(op: str, datasets: Any) -> tuple[Any, bool]:
    """Return datasets of one kind, and whether they have a length and an index."""
    if isinstance(datasets, (np.ndarray, Tensor)):
        raise ArgumentError(f"datasets must be a list, got {shown_argument(datasets)}", op=op)
    parts = [
        as_dataset_argument(op, data)
        for data in checked_sequence_argument(op, datasets, "datasets")
    ]
    if not parts:
        raise ArgumentError("at least one dataset is needed", op=op)
    if all(isinstance(part, Dataset) for part in parts):
        return parts, True
    return [
        part if isinstance(part, IterableDataset) else IterableDataset(part) for part in parts
    ], False


@boundary_methods
class ConcatDataset(Dataset):
    """The examples of several datasets, one after the other."""

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self._parts = list(parts)
        self._ends = list(itertools.accumulate(map(len, self._parts)))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Any:
        found = dataset_position(index, len(self))
        part = bisect.bisect_right(self._ends, found)
        return self._parts[part][found - (self._ends[part - 1] if part else 0)]


@boundary_methods
class ZippedDataset(Dataset):
    """Tuples of the examples of several datasets at the same index."""

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self._parts = list(parts)
        lengths = [len(part) for part in self._parts]
        if len(set(lengths)) > 1:
            raise ArgumentError(f"datasets must have equal lengths, got {lengths}", op="data.zip")

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getitem__(self, index: int) -> Any:
        return tuple(part[index] for part in self._parts)

    def take(self, indices: np.ndarray) -> Any:
        return tuple(part.take(indices) for part in self._parts)

    @property
    def takes_batches(self) -> bool:
        return all(part.takes_batches for part in self._parts)
