"""Random parts of a dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from pullback.data.as_dataset import indexed_dataset
from pullback.data.dataset import Dataset, SubsetDataset
from pullback.data.order import order_key, permuted_order
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_integer_argument, shown_argument
from pullback.typing import ArrayLike


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
    sizes = _random_split_sizes(op, lengths, len(whole))
    order = permuted_order(order_key(op, key), len(whole))
    parts = np.split(order, np.cumsum(sizes)[:-1])
    return tuple(SubsetDataset(whole, part) for part in parts)


def _random_split_sizes(op: str, lengths: Any, total: int) -> list[int]:
    if not isinstance(lengths, (tuple, list)) or not lengths:
        raise ArgumentError(f"lengths must be a sequence, got {shown_argument(lengths)}", op=op)
    if all(isinstance(n, (float, np.floating)) for n in lengths):
        if min(lengths) < 0 or abs(sum(lengths) - 1) > 1e-6:
            raise ArgumentError(f"fractions must add up to 1, got {list(lengths)}", op=op)
        sizes = [int(n * total + 1e-9) for n in lengths]
        for i in range(total - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return sizes
    sizes = [checked_integer_argument(op, n, "a length") for n in lengths]
    if min(sizes) < 0 or sum(sizes) != total:
        message = f"lengths must add up to the {total} examples, got {sizes}"
        raise ArgumentError(message, op=op)
    return sizes
