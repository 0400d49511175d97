"""Dtypes: one object each, compared by identity."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pullback.errors import DTypeError


class DType:
    """A dtype. `name` is the short name (`f32`), `public` that of the array API (`float32`)."""

    __slots__ = (
        "bits", "hlo", "is_complex", "is_float", "is_inexact", "is_integer", "kind", "name",
        "numpy", "public", "real",
    )  # fmt: skip

    def __init__(self, name: str, public: str, numpy: Any, kind: str, hlo: str) -> None:
        self.name, self.public, self.kind, self.hlo = name, public, kind, hlo
        self.numpy = np.dtype(numpy)
        self.bits = 8 * self.numpy.itemsize
        self.is_float, self.is_complex = kind == "f", kind == "c"
        self.is_inexact = kind in "fc"  # whether values of this type can carry a derivative
        self.is_integer = kind in "iu"
        self.real = self  # the dtype of one component; set below for complex dtypes

    @property
    def dtype(self) -> np.dtype:
        """The NumPy dtype, under the name that `np.dtype(...)` looks for."""
        return self.numpy

    __numpy_dtype__ = dtype  # the name since NumPy 2.4

    # What code written for NumPy asks of a dtype

    @property
    def char(self) -> str:
        return self.numpy.char

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def type(self) -> type[np.generic]:
        return self.numpy.type

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Whether `other` means this dtype; it may be NumPy's, a Python type or a name."""
        if self is other or not isinstance(other, (str, type, np.dtype)):
            return self is other
        try:
            return dtype(other) is self
        except DTypeError:
            return False

    # The fast one: programs are looked up by dtypes. As with NumPy's dtypes and their names, what
    # is equal to a dtype without being one is another key of a dict.
    __hash__ = object.__hash__

    def __reduce__(self) -> tuple:
        return dtype, (self.name,)


bool_ = DType("bool", "bool", np.bool_, "b", "i1")
int8 = DType("i8", "int8", np.int8, "i", "i8")
int16 = DType("i16", "int16", np.int16, "i", "i16")
int32 = DType("i32", "int32", np.int32, "i", "i32")
int64 = DType("i64", "int64", np.int64, "i", "i64")
uint8 = DType("u8", "uint8", np.uint8, "u", "ui8")
uint16 = DType("u16", "uint16", np.uint16, "u", "ui16")
uint32 = DType("u32", "uint32", np.uint32, "u", "ui32")
uint64 = DType("u64", "uint64", np.uint64, "u", "ui64")
float16 = DType("f16", "float16", np.float16, "f", "f16")
bfloat16 = DType("bf16", "bfloat16", ml_dtypes.bfloat16, "f", "bf16")
float32 = DType("f32", "float32", np.float32, "f", "f32")
float64 = DType("f64", "float64", np.float64, "f", "f64")
complex64 = DType("complex64", "complex64", np.complex64, "c", "complex<f32>")
complex128 = DType("complex128", "complex128", np.complex128, "c", "complex<f64>")
complex64.real, complex128.real = float32, float64

ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
NAMES = {d.name: d for d in ALL} | {d.public: d for d in ALL}
BY_NUMPY = {d.numpy: d for d in ALL}
_OF_PYTHON = {bool: bool_, int: int64, float: float32, complex: complex64}


def dtype(spec: Any) -> DType:
    """Return the dtype given as a DType, a name, a NumPy dtype or a Python number type."""
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in NAMES:
        return NAMES[spec]
    if isinstance(spec, type) and spec in _OF_PYTHON:
        return _OF_PYTHON[spec]
    try:
        if isinstance(spec, (str, type, np.dtype)):  # NumPy reads None as float64
            return BY_NUMPY[np.dtype(spec).newbyteorder("=")]
    except (TypeError, KeyError, ValueError, SyntaxError):  # NumPy evaluates some texts
        pass
    known = ", ".join(d.public for d in ALL)
    raise DTypeError(f"not a dtype: {spec!r}; known are {known}")


def _promote_two_dtypes(a: DType, b: DType) -> DType:
    """Array API promotion; an integer with a float gives the float, f16 with bf16 gives f32."""
    if a is b:
        return a
    order = "biufc"
    low, high = sorted((a, b), key=lambda d: order.index(d.kind))
    if low.kind == "b" or (low.is_integer and high.is_inexact):
        return high
    if low.kind == high.kind:
        if low.bits == high.bits:  # f16 and bf16
            return float32
        return max(low, high, key=lambda d: d.bits)
    if high.kind == "c":
        return complex128 if low.bits > 32 or high is complex128 else complex64
    # signed with unsigned: the next wider signed dtype; for i64 with u64, f64
    if high.bits < low.bits:
        return low
    return {8: int16, 16: int32, 32: int64}.get(high.bits, float64)


_PROMOTION = {(a, b): _promote_two_dtypes(a, b) for a in ALL for b in ALL}


def promote_dtypes(a: DType, b: DType) -> DType:
    """Return the dtype of an operation on two dtypes."""
    return _PROMOTION[a, b]
