"""Joining tensors along the first, second or third axis, and splitting them there."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import Tensor, along, as_tensor, axis_of, integer, operands
from pullback.functions.composed import composed
from pullback.functions.joining import concat
from pullback.functions.known_values import tensor_sequence
from pullback.functions.shape import shaped
from pullback.lazy.host_reads import read
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, DTypeLike, Shape

_MOST_PARTS = 10**6  # each is a tensor


def _of_rank_1(x: Tensor) -> Tensor:
    return x if x.ndim else shaped(x, (1,))


def _of_rank_2(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else shaped(x, (1, x.size))


def _of_rank_3(x: Tensor) -> Tensor:
    if x.ndim >= 3:
        return x
    return shaped(x, (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1))


def _each_at_least(reshaped: Any, xs: tuple[ArrayLike, ...]) -> Any:
    """Apply `reshaped` to each tensor; the result for one tensor is not a tuple."""
    made = tuple([shaped(t := reshaped(as_tensor(x)), t.shape) for x in xs])
    return made[0] if len(made) == 1 else made


@composed
def atleast_1d(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
    """Return tensors as they are, but numbers as vectors; several give a tuple.

    >>> pb.atleast_1d(3.0).tolist()
    [3.0]
    """
    return _each_at_least(_of_rank_1, xs)


@composed
def atleast_2d(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
    """Return tensors with dimensions of size 1 put in front up to rank 2; several give a tuple.

    >>> pb.atleast_2d([1, 2]).tolist()
    [[1, 2]]
    """
    return _each_at_least(_of_rank_2, xs)


@composed
def atleast_3d(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
    """Return tensors with dimensions of size 1 added up to rank 3; several give a tuple.

    A vector of size n becomes [1, n, 1], a matrix [m, n] becomes [m, n, 1].

    >>> pb.atleast_3d([1, 2]).shape
    (1, 2, 1)
    """
    return _each_at_least(_of_rank_3, xs)


@composed
def vstack(arrays: Sequence[ArrayLike] | Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Join tensors along the first axis; vectors are rows.

    >>> pb.vstack([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    return _stacked([_of_rank_2(x) for x in _stack_parts("vstack", arrays)], 0, dtype)


@composed
def hstack(arrays: Sequence[ArrayLike] | Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """Join tensors along the second axis, vectors along their only one.

    >>> pb.hstack([[1, 2], [3]]).tolist()
    [1, 2, 3]
    """
    parts = [_of_rank_1(x) for x in _stack_parts("hstack", arrays)]
    return _stacked(parts, 0 if parts[0].ndim == 1 else 1, dtype)


@composed
def dstack(arrays: Sequence[ArrayLike] | Tensor) -> Tensor:
    """Join tensors along the third axis; a vector of size n is [1, n, 1], a matrix [m, n, 1].

    >>> pb.dstack([[1, 2], [3, 4]]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return concat([_of_rank_3(x) for x in _stack_parts("dstack", arrays)], axis=2)


@composed
def column_stack(arrays: Sequence[ArrayLike] | Tensor) -> Tensor:
    """Join tensors along the second axis; vectors are columns.

    >>> pb.column_stack([[1, 2], [3, 4]]).tolist()
    [[1, 3], [2, 4]]
    """
    parts = _stack_parts("column_stack", arrays)
    return concat([x if x.ndim >= 2 else shaped(x, (x.size, 1)) for x in parts], axis=1)


def _stack_parts(op: str, arrays: Sequence[ArrayLike] | Tensor) -> list[Tensor]:
    parts = tensor_sequence(op, arrays, "arrays")
    if not parts:
        raise ArgumentError("arrays must contain at least one tensor", op=op)
    return [wrap(x) for x in operands(*parts)]


def _stacked(parts: list[Tensor], axis: int, dtype: DTypeLike | None) -> Tensor:
    return concat(parts, axis=axis, dtype=dtype)


@composed
def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Tensor:
    """Join `values` to the end of a tensor along an axis; without an axis both are flattened.

    >>> pb.append([[1, 2]], [[3], [4]]).tolist()
    [1, 2, 3, 4]
    """
    return concat([wrap(v) for v in operands(as_tensor(x), as_tensor(values))], axis=axis)


@composed
def block(arrays: ArrayLike) -> Tensor:
    """Assemble a tensor from nested lists of blocks: the innermost lists are joined along the last
    axis, those around them along the one before.

    >>> a, b = pb.ones((2, 2)), pb.zeros((2, 1))
    >>> pb.block([[a, b], [1.0, 2.0, 3.0]]).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 2.0, 3.0]]
    """
    depth = _block_depth(arrays)
    leaves: list[Tensor] = []
    nested = _block_leaves(arrays, depth, leaves)
    rank = max(depth, *[x.ndim for x in leaves], 0)
    return _block_joined(nested, depth, rank)


def _block_depth(arrays: Any) -> int:
    return 1 + _block_depth(arrays[0]) if isinstance(arrays, list) and arrays else 0


def _block_leaves(arrays: Any, depth: int, leaves: list[Tensor]) -> Any:
    """Return nested lists with tensors in place of what the lists hold; collect the tensors."""
    if isinstance(arrays, list):
        if not depth or not arrays:
            raise ArgumentError("all lists must be nested equally deep, none empty", op="block")
        return [_block_leaves(a, depth - 1, leaves) for a in arrays]
    if depth:
        raise ArgumentError("all lists must be nested equally deep, none empty", op="block")
    leaves.append(as_tensor(arrays))
    return leaves[-1]


def _block_joined(arrays: Any, depth: int, rank: int) -> Tensor:
    if isinstance(arrays, list):
        return concat([_block_joined(a, depth - 1, rank) for a in arrays], axis=rank - depth)
    return shaped(arrays, (1,) * (rank - arrays.ndim) + arrays.shape)


@composed
def array_split(x: ArrayLike, sections: Shape | np.ndarray | Tensor, axis: int = 0) -> list[Tensor]:
    """Split a tensor along an axis, before the given indices or into a number of parts, of which
    the first are longer by one where it does not divide.

    >>> [part.tolist() for part in pb.array_split([1, 2, 3, 4, 5], 3)]
    [[1, 2], [3, 4], [5]]
    """
    x = as_tensor(x)
    return _split_parts("array_split", x, sections, axis_of("array_split", axis, x.ndim), False)


@composed
def vsplit(x: ArrayLike, sections: Shape | np.ndarray | Tensor) -> list[Tensor]:
    """Split a tensor along its first axis: into a number of equal parts, or before indices.

    >>> [part.tolist() for part in pb.vsplit([[1, 2], [3, 4]], 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _split_parts("vsplit", _splittable("vsplit", x, 2), sections, 0)


@composed
def hsplit(x: ArrayLike, sections: Shape | np.ndarray | Tensor) -> list[Tensor]:
    """Split a tensor along its second axis, a vector along its only one.

    >>> [part.tolist() for part in pb.hsplit([[1, 2], [3, 4]], 2)]
    [[[1], [3]], [[2], [4]]]
    """
    x = _splittable("hsplit", x, 1)
    return _split_parts("hsplit", x, sections, 0 if x.ndim == 1 else 1)


@composed
def dsplit(x: ArrayLike, sections: Shape | np.ndarray | Tensor) -> list[Tensor]:
    """Split a tensor along its third axis: into a number of equal parts, or before indices.

    >>> [part.shape for part in pb.dsplit(pb.zeros((2, 2, 4)), [1])]
    [(2, 2, 1), (2, 2, 3)]
    """
    return _split_parts("dsplit", _splittable("dsplit", x, 3), sections, 2)


def _splittable(op: str, x: ArrayLike, rank: int) -> Tensor:
    x = as_tensor(x)
    if x.ndim < rank:
        raise ShapeError(f"needs rank {rank} or more, got {x._node.type}", op=op, code="E3002")
    return x


def _split_parts(op: str, x: Tensor, sections: Any, axis: int, equal: bool = True) -> list[Tensor]:
    n = x.shape[axis]
    if isinstance(sections, (np.ndarray, Tensor)):
        sections = (sections if isinstance(sections, np.ndarray) else read(sections)).tolist()
    if isinstance(sections, (tuple, list)):
        cuts = [0, *[integer(op, c, "an index") for c in sections], n]
    else:
        count = integer(op, sections, "the number of parts")
        if not 1 <= count <= _MOST_PARTS or (equal and n % count):
            what = "equal parts" if equal else "parts"
            message = f"axis {axis} of {x._node.type} cannot be split into {count} {what}"
            raise ShapeError(message, op=op)
        size, longer = divmod(n, count)
        cuts = [i * size + min(i, longer) for i in range(count + 1)]
    return [x[along(axis, slice(a, b))] for a, b in itertools.pairwise(cuts)]


__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "column_stack",
    "dsplit", "dstack", "hsplit", "hstack", "vsplit", "vstack",
]  # fmt: skip
