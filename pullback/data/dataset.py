"""Datasets with a length and an index, and those made of others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from pullback.data.collating import collate
from pullback.errors import ArgumentError, IndexOutOfRange
from pullback.graph.argument_checks import (
    checked_flag_argument,
    checked_function_argument,
    checked_integer_argument,
    shown_argument,
)
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor

Indices: TypeAlias = slice | Sequence[SupportsIndex] | np.ndarray | Tensor


@boundary_methods
class Dataset(ABC):
    """A collection of examples with a length, read by index.

    Subclasses define `__len__` and `__getitem__`; an example is a tree of NumPy arrays and numbers.
    Other objects with these methods, such as lists, serve a `DataLoader` as well.

    >>> class Squares(pb.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return {"x": index, "y": index**2}
    >>> Squares().map(lambda example: example["y"])[3]
    9
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: int) -> Any: ...

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} examples>"

    def take(self, indices: np.ndarray) -> Any:
        """Return a batch of examples; define it where that is faster than one by one."""
        return collate([self[int(i)] for i in indices])

    @property
    def takes_batches(self) -> bool:
        """Whether `take` is more than one example after the other."""
        return type(self).take is not Dataset.take

    def map(self, f: Callable[[Any], Any]) -> Dataset:
        """Return the dataset of `f(example)`, computed when an example is read."""
        return MappedDataset(self, checked_function_argument("Dataset.map", f, "f"))

    def filter(self, f: Callable[[Any], Any]) -> Dataset:
        """Return the examples for which `f` is true; all are read once, when one is needed."""
        return FilteredDataset(self, checked_function_argument("Dataset.filter", f, "f"))

    def subset(self, indices: Indices) -> Dataset:
        """Return the examples at `indices`: a slice, a sequence of integers, or a mask."""
        return SubsetDataset(self, dataset_subset_positions(indices, len(self)))

    def batch(self, size: int, drop_last: bool = False) -> Dataset:
        """Return the dataset of batches of consecutive examples."""
        return BatchedDataset(self, dataset_example_count("Dataset.batch", size), drop_last)


def dataset_position(index: Any, length: int) -> int:
    """Return an index counted from the front; raise if there is no such example."""
    found = checked_integer_argument("dataset", index, "an index")
    if not -length <= found < length:
        message = f"index {found} is out of range for {length} examples"
        raise IndexOutOfRange(message, op="dataset")
    return found % length


def dataset_subset_positions(indices: Indices, length: int) -> np.ndarray:
    """Return the positions that a slice, integers or a mask select."""
    if isinstance(indices, slice):
        return np.arange(length)[indices]
    found = dataset_vector("Dataset.subset", indices, "indices")
    if found.size == 0 and found.dtype.kind == "f":
        return np.arange(0)  # an empty list
    if found.dtype.kind not in "biu":
        message = f"indices must be a slice, integers or a mask, got {shown_argument(indices)}"
        raise ArgumentError(message, op="Dataset.subset")
    if found.dtype == bool:
        if len(found) != length:
            message = f"a mask needs one element for each of {length} examples, got {len(found)}"
            raise ArgumentError(message, op="Dataset.subset")
        return np.flatnonzero(found)
    for bad in found[(found < -length) | (found >= length)][:1]:
        message = f"index {bad} is out of range for {length} examples"
        raise IndexOutOfRange(message, op="Dataset.subset")
    return found.astype(np.int64) % max(length, 1)


def dataset_vector(op: str, values: Any, what: str) -> np.ndarray:
    """Return a sequence, an array or a tensor of rank 1 as an array."""
    try:
        found = np.asarray(values.numpy() if isinstance(values, Tensor) else values)
    except ValueError:  # nested lists of different lengths
        found = np.asarray(None)
    if found.ndim != 1:
        raise ArgumentError(
            f"{what} must be a vector or a sequence, got {shown_argument(values)}", op=op
        )
    return found


def dataset_example_count(op: str, size: int, what: str = "size") -> int:
    """Return a number of examples, at least 1."""
    found = checked_integer_argument(op, size, what)
    if found < 1:
        raise ArgumentError(f"{what} must be at least 1, got {found}", op=op)
    return found


@boundary_methods
class SequenceDataset(Dataset):
    """The elements of a list, or of anything else with a length and an index."""

    def __init__(self, items: Any) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Any:
        return self._items[dataset_position(index, len(self))]


@boundary_methods
class MappedDataset(Dataset):
    """A function of each example."""

    def __init__(self, base: Dataset, f: Callable[[Any], Any]) -> None:
        self._base, self._f = base, f

    def __len__(self) -> int:
        return len(self._base)

    def __getitem__(self, index: int) -> Any:
        return self._f(self._base[index])


@boundary_methods
class SubsetDataset(Dataset):
    """Some examples of a dataset, in any order."""

    def __init__(self, base: Dataset, positions: np.ndarray) -> None:
        self._base, self._chosen = base, positions

    @property
    def _positions(self) -> np.ndarray:
        return self._chosen

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, index: int) -> Any:
        return self._base[int(self._positions[dataset_position(index, len(self))])]

    def take(self, indices: np.ndarray) -> Any:
        return self._base.take(self._positions[indices])

    @property
    def takes_batches(self) -> bool:
        return self._base.takes_batches


class FilteredDataset(SubsetDataset):
    """The examples for which a function is true; which they are is found at the first use."""

    def __init__(self, base: Dataset, f: Callable[[Any], Any]) -> None:
        self._base, self._f = base, f
        self._found: np.ndarray | None = None

    @property
    def _positions(self) -> np.ndarray:
        if self._found is None:
            self._found = np.flatnonzero([bool(self._f(example)) for example in self._base])
        return self._found

    def __getstate__(self) -> dict[str, Any]:
        """Workers get the positions that this process found, and do not look themselves."""
        return {"_base": self._base, "_f": None, "_found": self._positions}


@boundary_methods
class BatchedDataset(Dataset):
    """Batches of consecutive examples."""

    def __init__(self, base: Dataset, size: int, drop_last: bool) -> None:
        self._base, self._size = base, size
        self._drop_last = checked_flag_argument("Dataset.batch", drop_last, "drop_last")

    def __len__(self) -> int:
        full, rest = divmod(len(self._base), self._size)
        return full + (rest > 0 and not self._drop_last)

    def __getitem__(self, index: int) -> Any:
        start = dataset_position(index, len(self)) * self._size
        return self._base.take(np.arange(start, min(start + self._size, len(self._base))))
