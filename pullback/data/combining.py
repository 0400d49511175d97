"""What may serve as a dataset, and datasets made of several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from pullback.data.arrays import ArrayDataset
from pullback.data.dataset import (
    ConcatDataset,
    Dataset,
    SequenceDataset,
    SubsetDataset,
    ZippedDataset,
)
from pullback.data.iterables import IterableChain, IterableDataset, IterableZip
from pullback.data.order import order_key, permuted_order
from pullback.errors import ArgumentError
from pullback.graph.arguments import integer, sequence, shown
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike


def as_dataset(data: Any) -> Dataset | IterableDataset:
    """Return anything that can serve as a dataset as one, with the methods of datasets.

    Arrays, and tuples, dicts and dataclasses of arrays become an `ArrayDataset`; lists, and other
    objects with a length and an index, are sequences of examples; any other iterable that can be
    read again becomes an `IterableDataset`.

    >>> data = pb.data.as_dataset([1, 2, 3]).map(lambda n: 10 * n)
    >>> list(data)
    [10, 20, 30]
    """
    return dataset_argument("data.as_dataset", data)


def dataset_argument(op: str, data: Any) -> Dataset | IterableDataset:
    """Like `as_dataset`, in the name of another function."""
    if isinstance(data, (Dataset, IterableDataset)):
        return data
    if isinstance(data, (np.ndarray, Tensor, tuple, dict)) or hasattr(data, "__dataclass_fields__"):
        return ArrayDataset(data)
    if isinstance(data, (str, bytes)):
        raise ArgumentError(f"needs a dataset, got {shown(data)}", op=op)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return SequenceDataset(data)
    if isinstance(data, Iterable):
        return IterableDataset(data)
    hint = "A dataset has __len__ and __getitem__, or __iter__."
    raise ArgumentError(f"needs a dataset, got {shown(data)}", op=op, hint=hint)


def indexed_dataset(op: str, data: Any) -> Dataset:
    """Like `dataset_argument`, for what needs a length and an index."""
    found = dataset_argument(op, data)
    if isinstance(found, IterableDataset):
        raise ArgumentError(f"needs a dataset with a length and an index, got {data!r}", op=op)
    return found


def concat(datasets: Any) -> Any:
    """Return the examples of several datasets, one after the other.

    >>> list(pb.data.concat([[1, 2], [3]]))
    [1, 2, 3]
    """
    parts, indexed = _combined_parts("data.concat", datasets)
    return ConcatDataset(parts) if indexed else IterableChain(parts)


def zip(*datasets: Any) -> Any:
    """Return tuples of the examples of datasets that have equal lengths.

    >>> list(pb.data.zip([1, 2], ["a", "b"]))
    [(1, 'a'), (2, 'b')]
    """
    parts, indexed = _combined_parts("data.zip", list(datasets))
    return ZippedDataset(parts) if indexed else IterableZip(parts)


def _combined_parts(op: str, datasets: Any) -> tuple[Any, bool]:
    """Return datasets of one kind, and whether they have a length and an index."""
    if isinstance(datasets, (np.ndarray, Tensor)):
        raise ArgumentError(f"datasets must be a list, got {shown(datasets)}", op=op)
    parts = [dataset_argument(op, data) for data in sequence(op, datasets, "datasets")]
    if not parts:
        raise ArgumentError("at least one dataset is needed", op=op)
    if all(isinstance(part, Dataset) for part in parts):
        return parts, True
    return [
        part if isinstance(part, IterableDataset) else IterableDataset(part) for part in parts
    ], False


def random_split(
    dataset: Any, lengths: Sequence[SupportsIndex | float], key: ArrayLike
) -> tuple[Dataset, ...]:
    """Divide a dataset at random into parts, given by their lengths or by fractions of the whole.

    The parts depend on the key alone. Lengths must add up to that of the dataset, fractions to 1;
    what fractions leave over is distributed one by one from the first part.

    >>> train, test = pb.data.random_split(range(10), (0.8, 0.2), pb.random.key(0))
    >>> len(train), sorted([*train, *test]) == list(range(10))
    (8, True)
    """
    op = "data.random_split"
    whole = indexed_dataset(op, dataset)
    sizes = _split_sizes(op, lengths, len(whole))
    order = permuted_order(order_key(op, key), len(whole))
    parts = np.split(order, np.cumsum(sizes)[:-1])
    return tuple(SubsetDataset(whole, part) for part in parts)


def _split_sizes(op: str, lengths: Any, total: int) -> list[int]:
    if not isinstance(lengths, (tuple, list)) or not lengths:
        raise ArgumentError(f"lengths must be a sequence, got {shown(lengths)}", op=op)
    if all(isinstance(n, (float, np.floating)) for n in lengths):
        if min(lengths) < 0 or abs(sum(lengths) - 1) > 1e-6:
            raise ArgumentError(f"fractions must add up to 1, got {list(lengths)}", op=op)
        sizes = [int(n * total + 1e-9) for n in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return sizes
    sizes = [integer(op, n, "a length") for n in lengths]
    if min(sizes) < 0 or sum(sizes) != total:
        message = f"lengths must add up to the {total} examples, got {sizes}"
        raise ArgumentError(message, op=op)
    return sizes
