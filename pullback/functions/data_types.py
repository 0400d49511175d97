"""Dtypes: conversion, promotion and limits."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes

from pullback.errors import ArgumentError, DTypeError
from pullback.functions.arguments import (
    Tensor,
    argument_node,
    as_tensor,
    converted_argument,
    fresh_argument,
    node_of,
    operator_number,
)
from pullback.functions.sharding import to_device
from pullback.graph.argument_checks import checked_flag_argument
from pullback.graph.dtypes import DType, promote_dtypes
from pullback.graph.dtypes import dtype as dtype_of
from pullback.lazy.operators import NUMBERS, cast_tensor, scalar_operator_dtype
from pullback.lazy.record import record
from pullback.ops.elementwise.cast import Bitcast
from pullback.typing import ArrayLike, DTypeLike

_KINDS = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip


def astype(
    x: ArrayLike, dtype: DTypeLike, *, copy: bool = True, device: str | None = None
) -> Tensor:
    """Convert the elements to another dtype; floats are truncated to integers.

    With `copy=False`, a tensor that has the dtype already is returned itself.

    >>> pb.astype([1.7, -1.7], pb.int32).tolist()
    [1, -1]
    """
    x = as_tensor(x)
    wanted = converted_argument("astype", dtype_of, dtype)
    copy = checked_flag_argument("astype", copy, "copy")
    if x.dtype is not wanted:
        x = cast_tensor(node_of(x), wanted)
    elif copy:
        x = fresh_argument(x)
    return x if device is None else to_device(x, device)


def cast(x: ArrayLike, dtype: DTypeLike) -> Tensor:
    """Return `astype(x, dtype)`.

    >>> pb.cast([0, 2], "bool").tolist()
    [False, True]
    """
    return astype(x, dtype)


def bitcast(x: ArrayLike, dtype: DTypeLike) -> Tensor:
    """Reinterpret the bits of the elements as another dtype of the same width.

    >>> pb.bitcast(pb.tensor(1.0), "int32").item()
    1065353216
    """
    return record(Bitcast(converted_argument("bitcast", dtype_of, dtype)), (argument_node(x),))


def result_type(*values: ArrayLike | DTypeLike) -> DType:
    """Return the dtype of an operation on these tensors, dtypes and Python numbers.

    >>> pb.result_type(pb.int32, pb.float32), pb.result_type(pb.float16, 2.5)
    (f32, f16)
    """
    found: DType | None = None
    numbers = []
    for value in map(operator_number, values):
        if type(value) in NUMBERS:
            numbers.append(value)
            continue
        dtype = _known_data_type("result_type", value)
        found = dtype if found is None else promote_dtypes(found, dtype)
    if found is None:
        if not numbers:
            raise ArgumentError("needs at least one argument", op="result_type")
        found = as_tensor(numbers[0]).dtype
    for value in numbers:
        found = scalar_operator_dtype(value, found)
    return found


def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike) -> bool:
    """Return whether promotion converts the first dtype to the second.

    >>> pb.can_cast(pb.int32, pb.int64), pb.can_cast(pb.float64, pb.float32)
    (True, False)
    """
    source, target = (
        _known_data_type("can_cast", from_),
        converted_argument("can_cast", dtype_of, to),
    )
    return promote_dtypes(source, target) is target


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Return whether a dtype is of a kind: a dtype, the name of a kind, or a tuple of either.

    >>> pb.isdtype(pb.float32, "real floating"), pb.isdtype(pb.int8, ("bool", pb.int8))
    (True, True)
    """
    found = converted_argument("isdtype", dtype_of, dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return found.kind in _KINDS[kind]
    return found is converted_argument("isdtype", dtype_of, kind)


class FloatInfo(NamedTuple):
    """The limits of a float dtype; `dtype` is that of one part of a complex number."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(dtype: ArrayLike | DTypeLike) -> FloatInfo:
    """Return the limits of a float dtype; for a complex one, those of its parts.

    >>> pb.finfo(pb.float16).max
    65504.0
    """
    found = _known_data_type("finfo", dtype)
    if not found.is_inexact:
        raise DTypeError(f"needs a float dtype, got {found}", op="finfo")
    info = ml_dtypes.finfo(found.real.numpy)
    eps, most, least, normal = map(float, (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(info.bits, eps, most, least, normal, found.real)


def iinfo(dtype: ArrayLike | DTypeLike) -> IntegerInfo:
    """Return the limits of an integer dtype.

    >>> pb.iinfo(pb.int8).min, pb.iinfo(pb.uint16).max
    (-128, 65535)
    """
    found = _known_data_type("iinfo", dtype)
    if not found.is_integer:
        raise DTypeError(f"needs an integer dtype, got {found}", op="iinfo")
    info = ml_dtypes.iinfo(found.numpy)
    return IntegerInfo(found.bits, int(info.max), int(info.min), found)


def _known_data_type(op: str, value: Any) -> DType:
    """A dtype, or that of a tensor or a NumPy array."""
    if isinstance(value, Tensor):
        return value.dtype
    return converted_argument(
        op, dtype_of, value.dtype if hasattr(value, "__array_interface__") else value
    )


__all__ = [
    "astype", "bitcast", "can_cast", "cast", "finfo", "iinfo", "isdtype", "result_type",
]  # fmt: skip
