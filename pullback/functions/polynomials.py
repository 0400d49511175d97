"""Arithmetic of polynomials, which are vectors of coefficients, the highest power first.

Leading zeros are kept, so that the size of a result depends on sizes alone.
"""

from __future__ import annotations

import math

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    float_arguments,
    float_node,
    operator_operands,
)
from pullback.functions.complex_parts import real
from pullback.functions.composed import composed
from pullback.functions.convolution import convolve
from pullback.functions.creation import created_from_array, ones, zeros
from pullback.functions.data_types import astype
from pullback.functions.joining import concat
from pullback.functions.shape import broadcast_to, expand_dims, flatten, reshaped_to
from pullback.functions.stacking import stack
from pullback.graph.dtypes import complex64, complex128
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.linalg.eig import Eigvals
from pullback.typing import ArrayLike

_MOST_INTEGRALS = 1000


def _polynomial_coefficients(op: str, *polynomials: ArrayLike) -> list[Tensor]:
    """Coefficients as vectors of the same dtype; a number is a polynomial of degree 0."""
    found = [wrap(n) for n in operator_operands(*[as_tensor(p) for p in polynomials])]
    for p in found:
        if p.ndim > 1:
            message = f"needs vectors of coefficients, got {p._node.type}"
            raise ShapeError(message, op=op, code="E3002")
    return [flatten(p) for p in found]


def _polynomial_of_size(p: Tensor, size: int) -> Tensor:
    return concat([zeros(size - p.size, dtype=p.dtype), p]) if p.size < size else p


@composed
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """Return the sum of two polynomials.

    >>> pb.polyadd([1, 2], [9, 5, 4]).tolist()
    [9, 6, 6]
    """
    a, b = _polynomial_coefficients("polyadd", a1, a2)
    return _polynomial_of_size(a, b.size) + _polynomial_of_size(b, a.size)


@composed
def polysub(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """Return the difference of two polynomials.

    >>> pb.polysub([2, 10, -2], [3, 10, -4]).tolist()
    [-1, 0, 2]
    """
    a, b = _polynomial_coefficients("polysub", a1, a2)
    return _polynomial_of_size(a, b.size) - _polynomial_of_size(b, a.size)


@composed
def polymul(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """Return the product of two polynomials.

    >>> pb.polymul([1, 2, 3], [9, 5, 1]).tolist()
    [9, 23, 38, 17, 3]
    """
    a, b = _polynomial_coefficients("polymul", a1, a2)
    return convolve(a, b)


@composed
def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Tensor, Tensor]:
    """Return the quotient of two polynomials and the remainder, which has one coefficient less
    than the divisor. The first coefficient of the divisor must not be 0.

    >>> [p.tolist() for p in pb.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])]
    [[1.5, 1.75], [0.25]]
    """
    a, b = (flatten(wrap(n)) for n in float_arguments(*_polynomial_coefficients("polydiv", u, v)))
    if not b.size:
        raise ArgumentError("the divisor has no coefficients", op="polydiv")
    steps = a.size - b.size + 1
    if steps < 1:
        return zeros(1, dtype=a.dtype), a
    quotient = []
    for _ in range(steps):
        factor = a[0] / b[0]
        quotient.append(factor)
        a = concat([a[1 : b.size] - factor * b[1:], a[b.size :]])
    return stack(quotient), a if a.size else zeros(1, dtype=b.dtype)


@composed
def polyder(p: ArrayLike, m: int = 1) -> Tensor:
    """Return the `m`-th derivative of a polynomial.

    >>> pb.polyder([1, 1, 1, 1]).tolist()
    [3, 2, 1]
    """
    if m < 0:
        raise ArgumentError(f"m must not be negative, got {m}", op="polyder")
    (a,) = _polynomial_coefficients("polyder", p)
    degree = a.size - 1
    left = max(degree - m + 1, 0)
    factors = np.array([math.perm(degree - i, m) for i in range(left)], np.float64)
    return a[:left] * astype(created_from_array(factors), a.dtype)


@composed
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Tensor:
    """Return the `m`-th antiderivative of a polynomial with the constants `k`, 0 by default.

    >>> pb.polyint([6.0, 2.0], k=5.0).tolist()
    [3.0, 2.0, 5.0]
    """
    if not 0 <= m <= _MOST_INTEGRALS:
        raise ArgumentError(f"m must be from 0 to {_MOST_INTEGRALS}, got {m}", op="polyint")
    (a,) = (flatten(wrap(n)) for n in float_arguments(*_polynomial_coefficients("polyint", p)))
    constants = zeros(m, dtype=a.dtype) if k is None else flatten(astype(k, a.dtype))
    if constants.size == 1:
        constants = constants * ones(m, dtype=a.dtype)
    if constants.size != m:
        message = f"k must be {m} constants, one for each integral, got {constants.size}"
        raise ShapeError(message, op="polyint")
    for i in range(m):
        powers = astype(created_from_array(np.arange(a.size, 0, -1, dtype=np.float64)), a.dtype)
        a = concat([a / powers, constants[i : i + 1]])
    return a


@composed
def poly(seq_of_zeros: ArrayLike) -> Tensor:
    """Return the polynomial with the given zeros and first coefficient 1, or the characteristic
    polynomial of a square matrix.

    >>> pb.poly([1.0, -2.0]).tolist()
    [1.0, 1.0, -2.0]
    """
    x = wrap(float_node(seq_of_zeros))
    matrix = x.ndim == 2
    if x.ndim > 2 or (matrix and x.shape[0] != x.shape[1]):
        message = f"needs a vector of zeros or a square matrix, got {x._node.type}"
        raise ShapeError(message, op="poly", code="E3002")
    zeros_of = record(Eigvals(), (node_of(x),)) if matrix and x.size else flatten(x)
    made = ones(1, dtype=zeros_of.dtype)
    for i in range(zeros_of.size):
        made = concat([made, zeros(1, dtype=made.dtype)]) - zeros_of[i] * concat(
            [zeros(1, dtype=made.dtype), made]
        )
    return made if x.dtype.is_complex or not made.dtype.is_complex else real(made)


@composed
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Tensor:
    """Return the zeros of a polynomial, as complex numbers.

    Coefficients that are 0 at either end lower the degree, so `p` is evaluated. Inside a traced
    function write `strip_zeros=False`: then the first coefficient must not be 0.

    >>> sorted(pb.roots([1.0, -3.0, 2.0]).real.numpy().round(5).tolist())
    [1.0, 2.0]
    """
    (a,) = (flatten(wrap(n)) for n in float_arguments(*_polynomial_coefficients("roots", p)))
    kind = a.dtype if a.dtype.is_complex else complex128 if a.dtype.bits == 64 else complex64
    at_zero = 0
    if strip_zeros:
        places = np.flatnonzero(read_on_host(a))
        first, last = (int(places[0]), int(places[-1])) if places.size else (0, -1)
        at_zero = a.size - last - 1 if places.size else 0
        a = a[first : last + 1]
    if a.size < 2:
        return zeros(at_zero, dtype=kind)
    n = a.size - 1
    below = created_from_array(np.eye(n - 1, n).astype(a.dtype.numpy))
    companion = concat([reshaped_to(-a[1:] / a[0], (1, n)), below])
    found = astype(record(Eigvals(), (node_of(companion),)), kind)
    return concat([found, zeros(at_zero, dtype=kind)]) if at_zero else found


def polyval(p: ArrayLike, x: ArrayLike) -> Tensor:
    """Return the values at `x` of the polynomial with coefficients `p`, the highest power first.

    >>> pb.polyval([1, 0, 3], [2, 5]).tolist()
    [7, 28]
    """
    coefficients, points = (wrap(n) for n in operator_operands(as_tensor(p), as_tensor(x)))
    if coefficients.ndim > 1:
        what = f"p must be a vector of coefficients, got {coefficients._node.type}"
        raise ShapeError(what, op="polyval", code="E3002")
    if coefficients.ndim == 0:
        coefficients = expand_dims(coefficients)
    if not coefficients.size:
        return points * 0
    value = broadcast_to(coefficients[0], points.shape)
    for i in range(1, coefficients.size):  # Horner's scheme
        value = value * points + coefficients[i]
    return value


__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]
