"""Operations on the bits of integers."""

from pullback.functions.function_factory import (
    BinaryFunction,
    UnaryFunction,
    binary_function,
    unary_function,
)
from pullback.ops.elementwise import bitwise as ops

bitwise_and: BinaryFunction = binary_function(
    "bitwise_and", ops.BitwiseAnd, "Bits that are set in both.", "[6, 5], 3 -> [2, 1]"
)
bitwise_or: BinaryFunction = binary_function(
    "bitwise_or", ops.BitwiseOr, "Bits that are set in at least one.", "[6, 5], 3 -> [7, 7]"
)
bitwise_xor: BinaryFunction = binary_function(
    "bitwise_xor", ops.BitwiseXor, "Bits that are set in exactly one.", "[6, 5], 3 -> [5, 6]"
)
bitwise_left_shift: BinaryFunction = binary_function(
    "bitwise_left_shift", ops.ShiftLeft, "Bits shifted to the left.", "[1, 3], 2 -> [4, 12]"
)
bitwise_right_shift: BinaryFunction = binary_function(
    "bitwise_right_shift", ops.ShiftRight, "Bits shifted to the right; the sign is kept.",
    "[8, -8], 2 -> [2, -2]",
)  # fmt: skip
bitwise_invert: UnaryFunction = unary_function(
    "bitwise_invert", ops.BitwiseNot, "All bits flipped; a bool is negated.", "[0, 1] -> [-1, -2]"
)
bitwise_count = unary_function(
    "bitwise_count", ops.PopulationCount, "Number of bits set in each integer.", "[7, 8] -> [3, 1]"
)

__all__ = [
    "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_or",
    "bitwise_right_shift", "bitwise_xor",
]  # fmt: skip
