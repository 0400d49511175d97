"""Other names that NumPy has for functions of the array API standard, and close relatives."""

from __future__ import annotations

from pullback.errors import ArgumentError
from pullback.functions.angles import deg2rad, rad2deg
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.arithmetic import abs, divide, positive, pow, remainder
from pullback.functions.bitwise import bitwise_invert, bitwise_left_shift, bitwise_right_shift
from pullback.functions.comparisons import isfinite
from pullback.functions.complex_parts import conj
from pullback.functions.composed import composed
from pullback.functions.data_types import result_type
from pullback.functions.joining import concat
from pullback.functions.reductions import max, min
from pullback.functions.rounding import round, trunc
from pullback.functions.stacking import vstack
from pullback.functions.trigonometry import acos, acosh, asin, asinh, atan, atan2, atanh
from pullback.lazy.host_data import asarray, tensor
from pullback.lazy.host_reads import read_on_host
from pullback.typing import ArrayLike, DTypeLike

absolute = abs
amax, amin = max, min
arccos, arccosh, arcsin, arcsinh = acos, acosh, asin, asinh
arctan, arctan2, arctanh = atan, atan2, atanh
around = round
array, asanyarray, ascontiguousarray, asfortranarray = tensor, asarray, asarray, asarray
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
concatenate, row_stack = concat, vstack
conjugate = conj
copy = positive
degrees, radians = rad2deg, deg2rad
fix = trunc
mod, power, true_divide = remainder, pow, divide
promote_types = result_type


@composed
def asarray_chkfinite(x: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
    """Return `x` as a tensor, which is evaluated: an infinite or NaN element is an error.

    >>> pb.asarray_chkfinite([1, 2]).tolist()
    [1, 2]
    """
    made = asarray(x, dtype=dtype) if dtype is not None else as_tensor(x)
    if not bool(read_on_host(isfinite(made)).all()):
        raise ArgumentError("an element is infinite or NaN", op="asarray_chkfinite")
    return made


__all__ = [
    "absolute", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "around", "array", "asanyarray", "asarray_chkfinite", "ascontiguousarray",
    "asfortranarray", "bitwise_not", "concatenate", "conjugate", "copy", "degrees", "fix",
    "invert", "left_shift", "mod", "power", "promote_types", "radians", "right_shift", "row_stack",
    "true_divide",
]  # fmt: skip
