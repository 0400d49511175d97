"""Runs of equal elements."""

from __future__ import annotations

import numpy as np

from pullback.functions.arguments import Tensor, as_tensor, axis_of
from pullback.functions.composed import composed
from pullback.functions.creation import from_array
from pullback.functions.shape import flatten
from pullback.functions.where_take import take
from pullback.lazy.host_reads import read
from pullback.typing import ArrayLike


@composed
def unique_consecutive(
    x: ArrayLike, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None,
) -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Return the first element of each run of equal elements, or of equal slices along an axis.

    With `return_inverse`, also the number of the run of each element; with `return_counts`, also
    the lengths of the runs. Values decide the shape of the result, so they are read.

    >>> pb.unique_consecutive([1, 1, 2, 2, 1]).tolist()
    [1, 2, 1]
    >>> pb.unique_consecutive([1, 1, 2], return_counts=True)[1].tolist()
    [2, 1]
    """
    given = as_tensor(x)
    a = flatten(given) if axis is None else given
    place = 0 if axis is None else axis_of("unique_consecutive", axis, a.ndim)
    rows = np.moveaxis(read(a), place, 0)
    changes = (rows[1:] != rows[:-1]).any(axis=tuple(range(1, rows.ndim)))
    starts = np.flatnonzero([True, *changes][: len(rows)])
    made = [take(a, starts, place)]
    if return_inverse:
        runs = np.zeros(len(rows), np.int64)
        runs[starts[1:]] = 1
        numbers = np.cumsum(runs)
        made.append(from_array(numbers.reshape(given.shape) if axis is None else numbers))
    if return_counts:
        made.append(from_array(np.diff([*starts, len(rows)]).astype(np.int64)))
    return made[0] if len(made) == 1 else tuple(made)


__all__ = ["unique_consecutive"]
