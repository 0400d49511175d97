"""Anything that can serve as a dataset, as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from pullback.data.array_dataset import ArrayDataset
from pullback.data.dataset import Dataset, SequenceDataset
from pullback.data.iterables import IterableDataset
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.tensor import Tensor


def as_dataset(data: Any) -> Dataset | IterableDataset:
    """Return anything that can serve as a dataset as one, with the methods of datasets.

    Arrays, and tuples, dicts and dataclasses of arrays become an `ArrayDataset`; lists, and other
    objects with a length and an index, are sequences of examples; any other iterable that can be
    read again becomes an `IterableDataset`.

    >>> data = pb.data.as_dataset([1, 2, 3]).map(lambda n: 10 * n)
    >>> list(data)
    [10, 20, 30]
    """
    return as_dataset_argument("data.as_dataset", data)


def as_dataset_argument(op: str, data: Any) -> Dataset | IterableDataset:
    """Like `as_dataset`, in the name of another function."""
    if isinstance(data, (Dataset, IterableDataset)):
        return data
    if isinstance(data, (np.ndarray, Tensor, tuple, dict)) or hasattr(data, "__dataclass_fields__"):
        return ArrayDataset(data)
    if isinstance(data, (str, bytes)):
        raise ArgumentError(f"needs a dataset, got {shown_argument(data)}", op=op)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return SequenceDataset(data)
    if isinstance(data, Iterable):
        return IterableDataset(data)
    hint = "A dataset has __len__ and __getitem__, or __iter__."
    raise ArgumentError(f"needs a dataset, got {shown_argument(data)}", op=op, hint=hint)


def indexed_dataset(op: str, data: Any) -> Dataset:
    """Like `as_dataset_argument`, for what needs a length and an index."""
    found = as_dataset_argument(op, data)
    if isinstance(found, IterableDataset):
        raise ArgumentError(f"needs a dataset with a length and an index, got {data!r}", op=op)
    return found
