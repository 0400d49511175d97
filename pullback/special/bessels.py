"""Bessel functions."""

from __future__ import annotations

from pullback.errors import ArgumentError
from pullback.functions.arguments import Tensor, checked_integer_argument
from pullback.graph.argument_checks import with_argument_checks
from pullback.ops.elementwise.bessel import BesselI, BesselJ, BesselY
from pullback.ops.elementwise.bessel_k import BesselK
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


@with_argument_checks
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


@with_argument_checks
def iv(v: int, z: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the first kind of an integer order, from -8 to 8.

    >>> round(pb.special.iv(2, 1.0).item(), 4)
    0.1357
    """
    return special("iv", BesselI(bessel_order("iv", abs(v), "v", 8), False), z)


@with_argument_checks
def ive(v: int, z: ArrayLike) -> Tensor:
    """Return exp(-abs(z)) * iv(v, z), without overflow.

    >>> round(pb.special.ive(2, 1000.0).item(), 4)
    0.0126
    """
    return special("ive", BesselI(bessel_order("ive", abs(v), "v", 8), True), z)


def k0(x: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0, for x >= 0.

    >>> round(pb.special.k0(1.0).item(), 4)
    0.421
    """
    return special("k0", BesselK(0, False), x)


def k1(x: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the second kind of order 1, for x >= 0.

    >>> round(pb.special.k1(1.0).item(), 4)
    0.6019
    """
    return special("k1", BesselK(1, False), x)


def k0e(x: ArrayLike) -> Tensor:
    """Return exp(x) * k0(x), without underflow.

    >>> round(pb.special.k0e(1000.0).item(), 4)
    0.0396
    """
    return special("k0e", BesselK(0, True), x)


def k1e(x: ArrayLike) -> Tensor:
    """Return exp(x) * k1(x), without underflow.

    >>> round(pb.special.k1e(1000.0).item(), 4)
    0.0396
    """
    return special("k1e", BesselK(1, True), x)


@with_argument_checks
def kn(n: int, x: ArrayLike) -> Tensor:
    """Return the modified Bessel function of the second kind of an integer order, from 0 to 20.

    >>> round(pb.special.kn(2, 1.0).item(), 4)
    1.6248
    """
    return special("kn", BesselK(bessel_order("kn", n), False), x)


@with_argument_checks
def jv(v: int, z: ArrayLike) -> Tensor:
    """Return the Bessel function of the first kind of an integer order, from -20 to 20.

    >>> round(pb.special.jv(2, 1.0).item(), 4)
    0.1149
    """
    made = special("jv", BesselJ(bessel_order("jv", abs(v), "v")), z)
    return -made if v < 0 and v % 2 else made


@with_argument_checks
def jn(n: int, x: ArrayLike) -> Tensor:
    """Return `jv(n, x)`.

    >>> round(pb.special.jn(2, 1.0).item(), 4)
    0.1149
    """
    return jv(n, x)


@with_argument_checks
def yn(n: int, x: ArrayLike) -> Tensor:
    """Return the Bessel function of the second kind of an integer order, from 0 to 20.

    >>> round(pb.special.yn(2, 1.0).item(), 4)
    -1.6507
    """
    return special("yn", BesselY(bessel_order("yn", n)), x)


def bessel_order(name: str, n: int, what: str = "n", largest: int = 20) -> int:
    """Return the order of a function; recurrences and series lose digits beyond the largest."""
    order = checked_integer_argument(f"special.{name}", n, what)
    if not 0 <= order <= largest:
        message = f"{what} must be between {0 if what == 'n' else -largest} and {largest}"
        raise ArgumentError(f"{message}, got {order}", op=f"special.{name}")
    return order


__all__ = [
    "i0", "i0e", "i1", "i1e", "iv", "ive", "j0", "j1", "jn", "jv", "k0", "k0e", "k1", "k1e", "kn",
    "spherical_jn", "y0", "y1", "yn",
]  # fmt: skip
