"""Tensors of at least a rank."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.composed import composed
from pullback.functions.shape import reshaped_to
from pullback.typing import ArrayLike


def at_least_rank_1(x: Tensor) -> Tensor:
    return x if x.ndim else reshaped_to(x, (1,))


def at_least_rank_2(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else reshaped_to(x, (1, x.size))


def at_least_rank_3(x: Tensor) -> Tensor:
    if x.ndim >= 3:
        return x
    return reshaped_to(x, (*x.shape, 1) if x.ndim == 2 else (1, x.size, 1))


def _each_at_least_rank(reshaped: Any, xs: tuple[ArrayLike, ...]) -> Any:
    """Apply `reshaped` to each tensor; the result for one tensor is not a tuple."""
    made = tuple([reshaped_to(t := reshaped(as_tensor(x)), t.shape) for x in xs])
    return made[0] if len(made) == 1 else made


@composed
def atleast_1d(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
    """Return tensors as they are, but numbers as vectors; several give a tuple.

    >>> pb.atleast_1d(3.0).tolist()
    [3.0]
    """
    return _each_at_least_rank(at_least_rank_1, xs)


@composed
def atleast_2d(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
    """Return tensors with dimensions of size 1 put in front up to rank 2; several give a tuple.

    >>> pb.atleast_2d([1, 2]).tolist()
    [[1, 2]]
    """
    return _each_at_least_rank(at_least_rank_2, xs)


@composed
def atleast_3d(*xs: ArrayLike) -> Tensor | tuple[Tensor, ...]:
    """Return tensors with dimensions of size 1 added up to rank 3; several give a tuple.

    A vector of size n becomes [1, n, 1], a matrix [m, n] becomes [m, n, 1].

    >>> pb.atleast_3d([1, 2]).shape
    (1, 2, 1)
    """
    return _each_at_least_rank(at_least_rank_3, xs)


__all__ = ["atleast_1d", "atleast_2d", "atleast_3d"]
