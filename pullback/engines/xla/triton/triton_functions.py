"""Functions of f32 that are shorter than those of CUDA's library, and as exact.

The library's sine and cosine branch for each number, to reduce large ones; on a GPU, that keeps the
computations of several numbers apart. Here a whole tile takes the library's way if one of its
numbers is large.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from pullback.engines.xla.triton.tile_text import KernelText, Tile
from pullback.ops.elementwise.circular import COSINE, SINE

# pi/2 as a sum of f32. A number n below 2**17 times the first has at most 41 bits, so that x minus
# the product is exact where it is small.
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
LARGE = 100_000.0  # beyond which a number of quarter turns has more bits
_ROUNDING = 1.5 * 2**23  # a sum with it is an integer, in its last bits
# (tanh(u) / u - 1) / u**2 in powers of u**2, for |u| <= NEAR: 7e-9 of tanh(u)
TANH = (-0.333332598, 0.133308303, -0.0536880225, 0.020469418, -0.0055151619)
NEAR = 0.65


def write_triton_sine(k: KernelText, x: Tile) -> Tile:
    return _circular(k, x)[0]


def write_triton_cosine(k: KernelText, x: Tile) -> Tile:
    return _circular(k, x)[1]


def _circular(k: KernelText, x: Tile) -> tuple[Tile, Tile]:
    """The sine and the cosine, which share most of their work; unused operations vanish."""

    def both() -> tuple[Tile, Tile]:
        # Lanes with NaN are left out: they would hide large numbers.
        largest = k.reduce_all("arith.maxnumf", k.same("math.absf", x))
        limit = k.op(f"arith.constant {LARGE:e} : f32", (), "f32")
        is_large = k.compare("arith.cmpf ogt", largest, limit)
        library = [lambda: [k.library(f"__nv_{f}f", x) for f in ("sin", "cos")]]
        sine, cosine = k.branch(is_large, library[0], lambda: _circular_of_small(k, x))
        return sine, cosine

    return k.once(("circular", x), both)


def _circular_of_small(k: KernelText, x: Tile) -> list[Tile]:
    turns = _fma(k, x, 2 / np.pi, _ROUNDING)  # quarters, to the nearest
    count = k.bitcast(turns, "i32")
    n = k.same("arith.subf", turns, _number(k, x, _ROUNDING))
    r = x
    for part in HALF_PI:
        r = _fma(k, n, -part, r)
    z = k.same("arith.mulf", r, r)
    sine = _signed_as(k, _fma(k, k.same("arith.mulf", _series(k, z, SINE), z), r, r), r)
    cosine = _series(k, z, (1, -0.5, *COSINE))
    odd = k.compare(
        "arith.cmpi ne", k.same("arith.andi", count, _integer(k, x, 1)), _integer(k, x, 0)
    )
    later = k.same("arith.addi", count, _integer(k, x, 1))
    return [
        _turned(k, k.select(odd, cosine, sine), count),
        _turned(k, k.select(odd, sine, cosine), later),
    ]


def _signed_as(k: KernelText, y: Tile, x: Tile) -> Tile:
    """A number that is positive, or has the sign of x already, with the sign of x: also of zero."""
    sign = k.same("arith.andi", k.bitcast(x, "i32"), _integer(k, x, -(2**31)))
    return k.bitcast(k.same("arith.ori", k.bitcast(y, "i32"), sign), "f32")


def _turned(k: KernelText, x: Tile, quarters: Tile) -> Tile:
    """A number, negative after each half turn."""
    half = k.same("arith.andi", quarters, _integer(k, x, 2))
    sign = k.same("arith.shli", half, _integer(k, x, 30))
    return k.bitcast(k.same("arith.xori", k.bitcast(x, "i32"), sign), "f32")


def write_triton_tanh(k: KernelText, x: Tile) -> Tile:
    """1 - 2 / (exp(2 |x|) + 1), and a series near 0."""
    size = k.same("math.absf", x)
    power = k.op(f"math.exp2 {_scaled(k, size).name} : {x.type}", x.shape, "f32")
    below = k.same("arith.addf", power, _number(k, x, 1))
    rest = k.library("__nv_fast_fdividef", _number(k, x, 2), below)
    far = k.same("arith.subf", _number(k, x, 1), rest)
    z = k.same("arith.mulf", x, x)
    near = _fma(k, k.same("arith.mulf", _series(k, z, TANH), z), x, x)
    # NaN is not less than a number: it comes out of the series
    is_far = k.compare("arith.cmpf oge", size, _number(k, x, NEAR))
    return _signed_as(k, k.select(is_far, far, near), x)


def _scaled(k: KernelText, size: Tile) -> Tile:
    """2 |x| as an exponent of 2, below what is infinite: a quotient by infinity is inexact."""
    exponent = k.same("arith.mulf", size, _number(k, size, 2 / np.log(2)))
    return k.same("arith.minnumf", exponent, _number(k, size, 64))


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
