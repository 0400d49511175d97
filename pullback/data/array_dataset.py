"""Datasets whose examples are the rows of arrays, in memory or in files."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import tree
from pullback.data.dataset import Dataset, dataset_position
from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor


@boundary_methods
class ArrayDataset(Dataset):
    """The rows of arrays: example `i` has row `i` of each array in a tree.

    `ArrayDataset(images, labels)` is short for `ArrayDataset((images, labels))`. Arrays are not
    copied; tensors are read.

    >>> import numpy as np
    >>> data = pb.data.ArrayDataset({"x": np.eye(3), "label": np.array([4, 5, 6])})
    >>> len(data), int(data[1]["label"])
    (3, 5)
    """

    def __init__(self, *arrays: Any) -> None:
        if not arrays:
            raise ArgumentError("at least one array is needed", op="ArrayDataset")
        given = arrays[0] if len(arrays) == 1 else arrays
        self.arrays = tree.map(_array_for_dataset, given)
        self._length = _common_array_length(type(self).__name__, self.arrays)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        i = dataset_position(index, self._length)
        return tree.map(lambda x: x[i], self.arrays)

    def take(self, indices: np.ndarray) -> Any:
        """Return the rows at `indices`, as copies."""
        return tree.map(lambda x: np.asarray(x[indices]), self.arrays)


def _array_for_dataset(value: Any) -> np.ndarray:
    array = value.numpy() if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "__array__") and not isinstance(array, np.generic):
        return np.asarray(array)
    hint = "Lists are trees: make an array of a list of numbers with np.asarray(list)."
    message = f"the leaves of the tree must be arrays, got {shown_argument(value)}"
    raise ArgumentError(message, op="ArrayDataset", hint=hint)


def _common_array_length(op: str, arrays: Any) -> int:
    """Return the length of all arrays of a tree; raise if they differ."""
    lengths: dict[str, int] = {}
    for path, x in zip(tree.paths(arrays), tree.leaves(arrays)):
        if not x.ndim:
            raise ShapeError(f"arrays need at least one dimension, got rank 0 at {path}", op=op)
        lengths[path] = len(x)
    if not lengths:
        raise ArgumentError("the tree has no arrays", op=op)
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{n} at {path}" for path, n in lengths.items())
        raise ShapeError(f"arrays must have the same length, got {found}", op=op)
    return next(iter(lengths.values()))
