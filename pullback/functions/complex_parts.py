"""Complex numbers and their parts."""

from __future__ import annotations

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.functions.arguments import as_tensor, float_arguments, float_node, fresh_argument
from pullback.functions.composed import composed
from pullback.functions.data_types import finfo
from pullback.functions.function_factory import UnaryFunction, float_binary_function, unary_function
from pullback.functions.stacking import stack
from pullback.functions.trigonometry import cos, sin
from pullback.lazy.host_reads import read_on_host
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.elementwise.complex_parts import Complex, Conj, Imag, Real
from pullback.typing import ArrayLike

real = unary_function("real", Real, "Real part of each element.", "1 + 2j -> 1.0")
imag = unary_function("imag", Imag, "Imaginary part of each element.", "1 + 2j -> 2.0")
conj: UnaryFunction = unary_function(
    "conj", Conj, "Complex conjugate of each element.", "1 + 2j -> (1-2j)"
)
complex = float_binary_function(
    "complex", Complex, "Complex number with the given real and imaginary parts.",
    "1.0, 2.0 -> (1+2j)",
)  # fmt: skip


@composed
def polar(abs: ArrayLike, angle: ArrayLike) -> Tensor:
    """Return complex numbers from their absolute values and angles.

    >>> pb.polar(2.0, 0.0).item()
    (2+0j)
    """
    size, turn = map(wrap, float_arguments(abs, angle))
    return complex(size * cos(turn), size * sin(turn))


@composed
def view_as_real(x: ArrayLike) -> Tensor:
    """Return the real and imaginary parts of complex numbers along a new last axis.

    >>> pb.view_as_real([1 + 2j]).tolist()
    [[1.0, 2.0]]
    """
    a = as_tensor(x)
    if not a.dtype.is_complex:
        raise DTypeError(f"needs complex numbers, got {a._node.type}")
    return stack([real(a), imag(a)], axis=-1)


@composed
def view_as_complex(x: ArrayLike) -> Tensor:
    """Return complex numbers from real and imaginary parts along the last axis.

    >>> pb.view_as_complex([[1.0, 2.0]]).tolist()
    [(1+2j)]
    """
    a = wrap(float_node(x))
    if not a.ndim or a.shape[-1] != 2:
        raise ShapeError(f"the last axis must have size 2, got {a._node.type}")
    return complex(a[..., 0], a[..., 1])


@composed
def real_if_close(x: ArrayLike, tol: float = 100) -> Tensor:
    """Return the real part of a complex tensor if all imaginary parts are close to 0: less than
    `tol` times the machine epsilon, or than `tol` if that is at most 1. The tensor is evaluated.

    >>> pb.real_if_close([1 + 1e-12j, 2 + 0j]).dtype
    f32
    """
    x = as_tensor(x)
    if not x.dtype.is_complex:
        return fresh_argument(x)
    limit = tol * finfo(x.dtype).eps if tol > 1 else tol
    return real(x) if bool((np.abs(read_on_host(x).imag) < limit).all()) else fresh_argument(x)


__all__ = [
    "complex",
    "conj",
    "imag",
    "polar",
    "real",
    "real_if_close",
    "view_as_complex",
    "view_as_real",
]
