"""The sine and cosine of f32 as formulas, which XLA compiles into vector instructions.

Its own functions call the C library for each number. A number x = m 2**k is reduced by multiples
of pi/2 as in Payne and Hanek (1983): those bits of 2/pi that give multiples of 4, when they are
multiplied by 2**k, are left out of the product with m. So no x is too large.
"""

from __future__ import annotations

import math

import numpy as np

from pullback.graph.dtypes import float32, float64, int32, int64, uint64
from pullback.ops.elementwise.functions import cast, equal, greater_equal, less, where
from pullback.ops.elementwise.series import horner_series
from pullback.ops.prelude import TABLE, Node, constant_node, op_functions

bits_and, bits_or, bits_xor = op_functions("BitwiseAnd", "BitwiseOr", "BitwiseXor")
shift_left, shift_right = op_functions("ShiftLeft", "ShiftRight")
# floor(2/pi * 2**230) in words of 64 bits, from the highest
TWO_OVER_PI = (0x28BE60DB93, 0x91054A7F09D5F47D, 0x4D377036D8A5664F, 0x10E4107F9458EAF7)
# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4, in powers of r**2, for |r| <= pi/4
SINE = (-0.166666549367, 0.00833217768649, -0.000195172346947)
COSINE = (0.0416666468546, -0.001388736691, 2.44383794769e-5)


def circular(x: Node, quarters: int) -> Node:
    """Return the sine of x, f32, plus so many quarters of a turn."""
    pattern = TABLE["Bitcast"](int32)(x)
    size = bits_and(pattern, 0x7FFFFFFF)
    turns, r = circular_remainder(size)
    r = where(less(size, 0x3F000000), TABLE["Bitcast"](float32)(size), r)  # below 1/2: x itself
    turns = where(less(size, 0x3F000000), 0, turns)
    z = r * r
    sine = r + r * z * horner_series(SINE, z)
    cosine = 1 - z * 0.5 + z * z * horner_series(COSINE, z)
    odd = equal(bits_and(turns, 1), 1 - quarters)
    made = TABLE["Bitcast"](int32)(where(odd, cosine, sine))
    minus = shift_left(bits_and(turns + quarters, 2), 30)
    if quarters == 0:
        minus = bits_xor(minus, bits_and(pattern, -(2**31)))
    made = TABLE["Bitcast"](float32)(bits_xor(made, minus))
    return where(greater_equal(size, 0x7F800000), np.nan, made)


def circular_remainder(pattern: Node) -> tuple[Node, Node]:
    """Return x / (pi/2) rounded to an integer, modulo 4, and the rest in [-pi/4, pi/4]; for
    x >= 1/2, given by its bits."""
    wide = cast(pattern, uint64)
    m = bits_or(bits_and(wide, 0x7FFFFF), 0x800000)
    place = shift_right(wide, 23) - 126  # x = m * 2**(place - 24)
    second, third = greater_equal(place, 64), greater_equal(place, 128)
    words = [constant_node(w, uint64) for w in (*TWO_OVER_PI, 0)]
    a, b, c = (where(third, words[i + 2], where(second, words[i + 1], words[i])) for i in range(3))
    by = bits_and(place, 63)
    rest = bits_xor(by, 63)

    def joined(high: Node, low: Node) -> Node:
        return bits_or(shift_left(high, by), shift_right(shift_right(low, 1), rest))

    # 62 bits of fraction, of which the last come from the next word
    product = m * joined(a, b) + shift_right(m * shift_right(joined(b, c), 32), 32)
    turns = cast(shift_right(product + 2**61, 62), int32)
    fraction = TABLE["Bitcast"](int64)(shift_left(product, 2))
    return turns, cast(cast(fraction, float64) * (math.pi / 2**65), float32)
