"""Splitting a tensor into parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    axis_argument,
    axis_slice_argument,
    checked_integer_argument,
)
from pullback.functions.composed import composed
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Shape

_MOST_PARTS = 10**6  # each is a tensor


def split(x: ArrayLike, sections: Shape, axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis: into a number of equal parts, or before the given indices.

    >>> [part.tolist() for part in pb.split([1, 2, 3, 4], 2)]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = axis_argument("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, (tuple, list)):
        cuts = [0, *[checked_integer_argument("split", c, "an index") for c in sections], n]
    else:
        parts = checked_integer_argument("split", sections, "the number of parts")
        if parts < 1 or n % parts:
            message = f"axis {axis} of {x._node.type} cannot be split into {parts} equal parts"
            raise ShapeError(message, op="split")
        cuts = list(range(0, n + 1, n // parts)) if n else [0] * (parts + 1)
    return [x[axis_slice_argument(axis, slice(a, b))] for a, b in itertools.pairwise(cuts)]


@composed
def array_split(x: ArrayLike, sections: Shape | np.ndarray | Tensor, axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis, before the given indices or into a number of parts, of which
    the first are longer by one where it does not divide.

    >>> [part.tolist() for part in pb.array_split([1, 2, 3, 4, 5], 3)]
    [[1, 2], [3, 4], [5]]
    """
    x = as_tensor(x)
    return _split_parts(
        "array_split", x, sections, axis_argument("array_split", axis, x.ndim), False
    )


@composed
def vsplit(x: ArrayLike, sections: Shape | np.ndarray | Tensor) -> list[Tensor]:
    """Split a tensor along its first axis: into a number of equal parts, or before indices.

    >>> [part.tolist() for part in pb.vsplit([[1, 2], [3, 4]], 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _split_parts("vsplit", _splittable_operand("vsplit", x, 2), sections, 0)


@composed
def hsplit(x: ArrayLike, sections: Shape | np.ndarray | Tensor) -> list[Tensor]:
    """Split a tensor along its second axis, a vector along its only one.

    >>> [part.tolist() for part in pb.hsplit([[1, 2], [3, 4]], 2)]
    [[[1], [3]], [[2], [4]]]
    """
    x = _splittable_operand("hsplit", x, 1)
    return _split_parts("hsplit", x, sections, 0 if x.ndim == 1 else 1)


@composed
def dsplit(x: ArrayLike, sections: Shape | np.ndarray | Tensor) -> list[Tensor]:
    """Split a tensor along its third axis: into a number of equal parts, or before indices.

    >>> [part.shape for part in pb.dsplit(pb.zeros((2, 2, 4)), [1])]
    [(2, 2, 1), (2, 2, 3)]
    """
    return _split_parts("dsplit", _splittable_operand("dsplit", x, 3), sections, 2)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor into its slices along an axis, and remove that axis.

    >>> [part.tolist() for part in pb.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = as_tensor(x)
    axis = axis_argument("unstack", axis, x.ndim)
    return tuple([x[axis_slice_argument(axis, i)] for i in range(x.shape[axis])])


def _splittable_operand(op: str, x: ArrayLike, rank: int) -> Tensor:
    x = as_tensor(x)
    if x.ndim < rank:
        raise ShapeError(f"needs rank {rank} or more, got {x._node.type}", op=op, code="E3002")
    return x


def _split_parts(op: str, x: Tensor, sections: Any, axis: int, equal: bool = True) -> list[Tensor]:
    n = x.shape[axis]
    if isinstance(sections, (np.ndarray, Tensor)):
        sections = (
            sections if isinstance(sections, np.ndarray) else read_on_host(sections)
        ).tolist()
    if isinstance(sections, (tuple, list)):
        cuts = [0, *[checked_integer_argument(op, c, "an index") for c in sections], n]
    else:
        count = checked_integer_argument(op, sections, "the number of parts")
        if not 1 <= count <= _MOST_PARTS or (equal and n % count):
            what = "equal parts" if equal else "parts"
            message = f"axis {axis} of {x._node.type} cannot be split into {count} {what}"
            raise ShapeError(message, op=op)
        size, longer = divmod(n, count)
        cuts = [i * size + min(i, longer) for i in range(count + 1)]
    return [x[axis_slice_argument(axis, slice(a, b))] for a, b in itertools.pairwise(cuts)]


__all__ = ["array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"]
