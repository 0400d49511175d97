"""Names of NumPy for functions that the array API standard calls otherwise."""

from pullback.functions.arithmetic import abs, divide, pow, remainder
from pullback.functions.bitwise import bitwise_invert, bitwise_left_shift, bitwise_right_shift
from pullback.functions.complex_parts import conj
from pullback.functions.joining import concat
from pullback.functions.reductions import max, min
from pullback.functions.rounding import round
from pullback.functions.shape import flatten
from pullback.functions.trigonometry import acos, acosh, asin, asinh, atan, atan2, atanh
from pullback.lazy.host_data import tensor

absolute = abs
amax, amin = max, min
arccos, arccosh, arcsin, arcsinh = acos, acosh, asin, asinh
arctan, arctan2, arctanh = atan, atan2, atanh
around = round
array = tensor
bitwise_not = invert = bitwise_invert
concatenate = concat
conjugate = conj
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift
mod = remainder
power = pow
ravel = flatten
true_divide = divide

__all__ = [
    "absolute", "amax", "amin", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "around", "array", "bitwise_not", "concatenate", "conjugate", "invert", "left_shift",
    "mod", "power", "ravel", "right_shift", "true_divide",
]  # fmt: skip
