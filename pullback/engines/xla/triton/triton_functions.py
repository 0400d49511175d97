"""Functions of f32 that take fewer instructions than those of CUDA's library, and are as exact.

The library's sine and cosine branch for each number, to reduce large ones. On a GPU, that keeps the
computations of several numbers apart, and takes three times as many registers.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from pullback.engines.xla.triton.tile_text import KernelText, Tile
from pullback.ops.elementwise.circular import COSINE, SINE

# pi/2 as a sum of f32. A number n below 2**17 times the first has at most 41 bits, so that x minus
# the product is exact where it is small. All are positive, which keeps the sign of -0.
HALF_PI = (1.570796251296997, 7.549789415861596e-08, 5.390302529957765e-15)
LARGE = 100_000.0  # beyond which a number of quarter turns has more bits
_ROUNDING = 1.5 * 2**23  # a sum with it is an integer, in its last bits
# (tanh(u) / u - 1) / u**2 in powers of u**2, for |u| <= NEAR: 4e-8 of tanh(u)
TANH = (-0.333329466, 0.13320725, -0.0526718108, 0.0164375759)
NEAR = 0.55


def write_triton_circular(k: KernelText, x: Tile) -> tuple[Tile, Tile]:
    """The sine and the cosine of numbers up to `LARGE`; what is not used of it vanishes."""
    turns = _fma(k, x, 2 / np.pi, _ROUNDING)  # quarters, to the nearest
    count = k.bitcast(turns, "i32")
    n = k.same("arith.subf", turns, _number(k, x, _ROUNDING))
    r = x
    for part in HALF_PI:
        r = _fma(k, n, -part, r)
    z = k.same("arith.mulf", r, r)
    sine = k.same("arith.mulf", _series(k, z, (1, *SINE)), r)  # -0 for -0
    cosine = _series(k, z, (1, -0.5, *COSINE))
    last = k.same("arith.andi", count, _integer(k, x, 1))
    odd = k.compare("arith.cmpi ne", last, _integer(k, x, 0))
    halves = k.same("arith.shli", count, _integer(k, x, 30))  # the sign after half turns
    later = k.same("arith.addi", halves, _integer(k, x, 1 << 30))
    return (
        _turned(k, k.select(odd, cosine, sine), halves),
        _turned(k, k.select(odd, sine, cosine), later),
    )


def _signed_as(k: KernelText, y: Tile, x: Tile) -> Tile:
    """A number that is positive, or has the sign of x already, with the sign of x: also of zero."""
    sign = k.same("arith.andi", k.bitcast(x, "i32"), _integer(k, x, -(2**31)))
    return k.bitcast(k.same("arith.ori", k.bitcast(y, "i32"), sign), "f32")


def _turned(k: KernelText, y: Tile, halves: Tile) -> Tile:
    """A number, negative where the first bit is set."""
    sign = k.same("arith.andi", halves, _integer(k, y, -(2**31)))
    return k.bitcast(k.same("arith.xori", k.bitcast(y, "i32"), sign), "f32")


def write_triton_tanh(k: KernelText, x: Tile) -> Tile:
    """1 - 2 / (exp(2 |x|) + 1), and a series near 0."""
    size = k.same("math.absf", x)
    # Numbers are not subnormal where the result is used, so these instructions need no scaling.
    exponent = k.same("arith.mulf", size, _number(k, x, 2 / np.log(2)))
    power = k.instruction("ex2.approx.ftz.f32", exponent)
    below = k.same("arith.addf", power, _number(k, x, 1))
    far = _fma(k, k.instruction("rcp.approx.ftz.f32", below), -2, 1)
    z = k.same("arith.mulf", x, x)
    near = _fma(k, k.same("arith.mulf", _series(k, z, TANH), z), x, x)
    # NaN is not less than a number: it comes out of the series
    is_far = k.compare("arith.cmpf oge", size, _number(k, x, NEAR))
    return _signed_as(k, k.select(is_far, far, near), x)


def _series(k: KernelText, z: Tile, coefficients: tuple[float, ...]) -> Tile:
    """The sum of powers of z, by Horner's scheme."""
    first, *rest = coefficients[::-1]
    return reduce(lambda s, c: _fma(k, s, z, c), rest, _number(k, z, first))


def _fma(k: KernelText, x: Tile, y: Tile | float, z: Tile | float) -> Tile:
    """x y + z, rounded once."""
    tiles = [t if isinstance(t, Tile) else _number(k, x, t) for t in (x, y, z)]
    return k.same("math.fma", *tiles)


def _number(k: KernelText, x: Tile, value: float) -> Tile:
    return k.full(x.shape, np.float32(value), "f32")


def _integer(k: KernelText, x: Tile, value: int) -> Tile:
    return k.full(x.shape, np.int32(value), "i32")
