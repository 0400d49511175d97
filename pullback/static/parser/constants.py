"""Convert literals of constants, nested or flat lists of numbers, to arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.errors import VerificationError
from pullback.graph.dtypes import DType
from pullback.graph.types import Type
from pullback.ops.text import OpTextNan, OpTextPair


def array_of_constant(literal: Any, type: Type) -> np.ndarray:
    """The array of a literal, allocated only after its size has been checked."""
    flat, shape = _flat_constant(literal)
    if not _parsed_constant_fits(shape, type.shape):
        if len(shape) > 1 or len(flat) == type.size:
            message = f"the literal has the shape {list(shape)}, its type is {type}"
            raise VerificationError(message, code="E3010", literal=shape, shape=type.shape)
        message = f"the literal has {len(flat)} elements, its type {type} has {type.size}"
        raise VerificationError(message, code="E4005", elements=len(flat), size=type.size)
    return _parsed_constant_array(flat, type.dtype).reshape(type.shape)


def _flat_constant(literal: Any) -> tuple[list, tuple[int, ...]]:
    """The elements of nested lists in order, and the shape of the nesting."""
    level, shape = [literal], []
    while level and type(level[0]) is tuple:
        widths = {len(x) if type(x) is tuple else -1 for x in level}
        if len(widths) > 1:
            raise VerificationError("the rows of a literal must have the same shape", code="E3010")
        shape.append(widths.pop())
        level = [y for x in level for y in x]
    if any(type(x) is tuple for x in level):
        raise VerificationError("the rows of a literal must have the same shape", code="E3010")
    return level, tuple(shape)


def _parsed_constant_fits(shape: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    """Whether a literal has the declared shape, or is a flat list of as many elements."""
    if shape == declared or (0 in declared and shape == declared[: declared.index(0) + 1]):
        return True
    return len(shape) == 1 and bool(declared) and shape[0] == math.prod(declared)


def _parsed_constant_array(flat: list, dtype: DType) -> np.ndarray:
    kinds = set(map(type, flat))
    if dtype.kind == "b":
        _require_constant(kinds <= {bool}, dtype)
        return np.array(flat, np.bool_)
    if dtype.is_integer:
        bounds = np.iinfo(dtype.numpy)
        _require_constant(kinds <= {int}, dtype)
        _require_constant(not flat or (bounds.min <= min(flat) and max(flat) <= bounds.max), dtype)
        return np.array(flat, dtype.numpy)
    if dtype.is_complex:
        _require_constant(kinds <= {int, float, OpTextNan, OpTextPair}, dtype)
        parts = [p for x in flat for p in ((x.real, x.imag) if type(x) is OpTextPair else (x, 0))]
        return _constant_floats(parts, dtype.real).view(dtype.numpy)
    _require_constant(kinds <= {int, float, OpTextNan}, dtype)
    return _constant_floats(flat, dtype)


def _constant_floats(flat: list, dtype: DType) -> np.ndarray:
    """Numbers as floats; each is rounded once, and none becomes infinite."""
    unusual = {i: x.bits for i, x in enumerate(flat) if type(x) is OpTextNan}
    wide = np.array([0.0 if i in unusual else x for i, x in enumerate(flat)], np.float64)
    with np.errstate(all="ignore"):
        made = wide.astype(dtype.numpy)
        _require_constant(np.array_equal(np.isfinite(made), np.isfinite(wide)), dtype)
    if unusual:
        words = made.view(f"u{dtype.numpy.itemsize}")
        for i, bits in unusual.items():
            _require_constant(bits < 1 << dtype.bits, dtype)
            words[i] = bits
            _require_constant(bool(np.isnan(made[i])), dtype)
    return made


def _require_constant(holds: bool, dtype: DType) -> None:
    if not holds:
        message = f"an element of the literal is not a valid {dtype}"
        raise VerificationError(message, code="E4005", dtype=dtype.name)
