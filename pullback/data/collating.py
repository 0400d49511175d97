"""Batches made of examples: trees of NumPy arrays, stacked leaf by leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import complex64, complex128, float64
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor

_OP = "data.collate"


def collate(examples: Sequence[Any]) -> Any:
    """Return examples as one batch: arrays and numbers at the same place of each are stacked.

    Examples are trees with the same structure. Python numbers get the dtypes that `pb.tensor` gives
    them, arrays keep theirs; strings and other objects are gathered in lists.

    >>> import numpy as np
    >>> pb.data.collate([{"x": np.zeros(2), "label": 3}, {"x": np.ones(2), "label": 4}])
    {'x': array([[0., 0.], [1., 1.]]), 'label': array([3, 4])}
    """
    if isinstance(examples, (str, bytes)) or not isinstance(examples, Sequence):
        raise ArgumentError(f"examples must be a list, got {shown_argument(examples)}", op=_OP)
    if not examples:
        raise ArgumentError("a batch needs at least one example, got none", op=_OP)
    rows = [tree.leaves(example) for example in examples]
    structure = tree.structure(examples[0])
    for i, example in enumerate(examples):
        if i and tree.structure(example) != structure:
            first, other = map(tree.show_tree_structure, (structure, tree.structure(example)))
            message = (
                f"examples of a batch must have the same structure, got {first} "
                f"and, for example {i} of the batch, {other}"
            )
            raise ArgumentError(message, op=_OP)
    paths = tree.paths(examples[0])
    columns = [_collated(path, column) for path, column in zip(paths, zip(*rows))]
    return tree.unflatten(structure, columns)


def _collated(path: str, column: Sequence[Any]) -> Any:
    """Return the values at one place of all examples as an array, or as a list if they are none."""
    if all(
        isinstance(x, (bool, int, float, complex)) and not _is_collated_numpy(x) for x in column
    ):
        return _collated_numbers(column)
    arrays = [array for x in column if (array := _collated_array(x)) is not None]
    if len(arrays) < len(column):
        return list(column)
    first = arrays[0].shape
    for i, x in enumerate(arrays):
        if x.shape != first:
            at = f" at {path}" if path else ""
            message = (
                f"examples of a batch must have the same shape{at}, got {list(first)} and, for "
                f"example {i} of the batch, {list(x.shape)}"
            )
            hint = "Pad or cut them with dataset.map(f), or pass collate= to the loader."
            raise ShapeError(message, op=_OP, hint=hint)
    return np.stack(arrays)


def _is_collated_numpy(x: Any) -> bool:
    return isinstance(x, np.generic)  # np.float64 is a float


def _collated_array(x: Any) -> np.ndarray | None:
    """Return a value as an array; None if it is no array of numbers."""
    if isinstance(x, Tensor):
        return x.numpy()
    if isinstance(x, (str, bytes)) or not (hasattr(x, "__array__") or isinstance(x, complex)):
        return np.asarray(x) if isinstance(x, (bool, int, float)) else None
    array = np.asarray(x)
    return None if array.dtype.kind in "OSUmM" else array


def _collated_numbers(column: Sequence[Any]) -> np.ndarray:
    """Return Python numbers as an array of the dtype that `pb.tensor` gives them."""
    found = np.asarray(column)
    if found.dtype == object:
        raise ArgumentError("integers of examples must fit into 64 bits", op=_OP)
    default = current().default_dtype
    if found.dtype.kind == "f":
        return found.astype(default.numpy)
    if found.dtype.kind == "c":
        return found.astype((complex128 if default is float64 else complex64).numpy)
    return found
