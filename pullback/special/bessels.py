"""Bessel functions."""

from __future__ import annotations

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, integer
from pullback.graph.arguments import validated
from pullback.ops.elementwise.bessel import BesselI, BesselJ, BesselY
from pullback.ops.elementwise.spherical import SphericalJ
from pullback.special.operands import special
from pullback.typing import ArrayLike


def j0(x: ArrayLike) -> Tensor:
    """Return the Bessel function of the first kind of order 0.

    >>> pb.special.j0(0.0).item()
    1.0
    """
    return special("j0", BesselJ(0), x)


def j1(x: ArrayLike) -> Tensor:
    """Return the Bessel function of the first kind of order 1.

    >>> pb.special.j1(0.0).item()
    0.0
    """
    return special("j1", BesselJ(1), x)


def y0(x: ArrayLike) -> Tensor:
    """Return the Bessel function of the second kind of order 0; NaN below 0.

    >>> pb.special.y0(0.0).item()
    -inf
    """
    return special("y0", BesselY(0), x)


def y1(x: ArrayLike) -> Tensor:
    """Return the Bessel function of the second kind of order 1; NaN below 0.

    >>> pb.special.y1(0.0).item()
    -inf
    """
    return special("y1", BesselY(1), x)


def i0(x: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0.

    >>> pb.special.i0(0.0).item()
    1.0
    """
    return special("i0", BesselI(0, False), x)


def i1(x: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the first kind of order 1.

    >>> pb.special.i1(0.0).item()
    0.0
    """
    return special("i1", BesselI(1, False), x)


def i0e(x: ArrayLike) -> Tensor:
    """Return exp(-abs(x)) * i0(x), without overflow. The derivative at 0 is 0, as that of abs.

    >>> pb.special.i0e(0.0).item()
    1.0
    """
    return special("i0e", BesselI(0, True), x)


def i1e(x: ArrayLike) -> Tensor:
    """Return exp(-abs(x)) * i1(x), without overflow.

    >>> pb.special.i1e(0.0).item()
    0.0
    """
    return special("i1e", BesselI(1, True), x)


@validated
def spherical_jn(n: int, z: ArrayLike, derivative: bool = False) -> Tensor:
    """Return the spherical Bessel function of the first kind of order n, from 0 to 20.

    With `derivative`, return its derivative.

    >>> pb.special.spherical_jn(0, 0.0).item()
    1.0
    >>> round(pb.special.spherical_jn(1, 0.0, derivative=True).item(), 4)
    0.3333
    """
    order = bessel_order("spherical_jn", n)
    if not derivative:
        return special("spherical_jn", SphericalJ(order), z)
    above = special("spherical_jn", SphericalJ(order + 1), z)
    if order == 0:
        return -above
    below = special("spherical_jn", SphericalJ(order - 1), z)
    return (below * order - above * (order + 1)) / (2 * order + 1)


@validated
def iv(v: int, z: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the first kind of an integer order, from -8 to 8.

    >>> round(pb.special.iv(2, 1.0).item(), 4)
    0.1357
    """
    return special("iv", BesselI(bessel_order("iv", abs(v), "v", 8), False), z)


@validated
def ive(v: int, z: ArrayLike) -> Tensor:
    """Return exp(-abs(z)) * iv(v, z), without overflow.

    >>> round(pb.special.ive(2, 1000.0).item(), 4)
    0.0126
    """
    return special("ive", BesselI(bessel_order("ive", abs(v), "v", 8), True), z)


def bessel_order(name: str, n: int, what: str = "n", largest: int = 20) -> int:
    """Return the order of a function; recurrences and series lose digits beyond the largest."""
    order = integer(f"special.{name}", n, what)
    if not 0 <= order <= largest:
        message = f"{what} must be between {0 if what == 'n' else -largest} and {largest}"
        raise ArgumentError(f"{message}, got {order}", op=f"special.{name}")
    return order


__all__ = ["i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "spherical_jn", "y0", "y1"]
