"""Numbers on a logarithmic scale."""

from __future__ import annotations

import numpy as np

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, as_tensor, dtype_argument, operator_number
from pullback.functions.arithmetic import pow
from pullback.functions.composed import composed
from pullback.functions.creation import arange, created_from_formula, linspace
from pullback.functions.data_types import astype, result_type
from pullback.functions.shape import moveaxis, reshaped_to
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, complex128, float64
from pullback.lazy.operators import NUMBERS
from pullback.lazy.settings import current
from pullback.typing import ArrayLike, DTypeLike


@composed
def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True,
    base: ArrayLike = 10.0, dtype: DTypeLike | None = None, axis: int = 0,
) -> Tensor:  # fmt: skip
    """Return `num` numbers from `base ** start` to `base ** stop`, evenly spaced on a logarithmic
    scale. Tensors may be given for the ends and the base; a new axis has the numbers.

    >>> pb.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    _refuse_negative_space("logspace", num)
    ends = [operator_number(v) for v in (start, stop, base)]
    kind = _log_space_dtype("logspace", dtype, ends)
    if all(type(v) in NUMBERS for v in ends):
        first, last, root = ends
        return created_from_formula(
            "logspace", (num,), kind, lambda: np.logspace(first, last, num, endpoint, root)
        )
    wide = _wide_space_dtype(ends)
    first, last, root = (astype(v, wide) for v in ends)
    powers = linspace(first, last, num, endpoint=endpoint, dtype=wide)
    return moveaxis(astype(pow(root, powers), kind), 0, axis)


@composed
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True,
    dtype: DTypeLike | None = None, axis: int = 0,
) -> Tensor:  # fmt: skip
    """Return `num` numbers from `start` to `stop`, each a constant multiple of the one before.
    Tensors may be given for the ends; a new axis has the numbers.

    >>> pb.geomspace(1, 8, 4).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    _refuse_negative_space("geomspace", num)
    ends = [operator_number(v) for v in (start, stop)]
    kind = _log_space_dtype("geomspace", dtype, ends)
    if all(type(v) in NUMBERS for v in ends):
        if 0 in ends:
            raise ArgumentError(
                f"start and stop must not be 0, got {start} and {stop}", op="geomspace"
            )
        first, last = ends
        return created_from_formula(
            "geomspace", (num,), kind, lambda: np.geomspace(first, last, num, endpoint)
        )
    first, last = (astype(v, _wide_space_dtype(ends)) for v in ends)
    steps = max(num - 1 if endpoint else num, 1)
    index = reshaped_to(arange(num, dtype=float64), (num,) + (1,) * max(first.ndim, last.ndim))
    made = first * pow(last / first, index / steps)
    if endpoint and num > 1:
        made = where(index == num - 1, last, made)
    return moveaxis(astype(where(index == 0, first, made), kind), 0, axis)


def _refuse_negative_space(op: str, num: int) -> None:
    if num < 0:
        raise ArgumentError(f"num must not be negative, got {num}", op=op)


def _wide_space_dtype(ends: list) -> DType:
    """The dtype of the computation, as between numbers."""
    complexes = any(type(v) is complex or as_tensor(v).dtype.is_complex for v in ends)
    return complex128 if complexes else float64


def _log_space_dtype(op: str, dtype: DTypeLike | None, ends: list) -> DType:
    kind = result_type(*ends)
    return dtype_argument(op, dtype, kind if kind.is_inexact else current().default_dtype)


__all__ = ["geomspace", "logspace"]
