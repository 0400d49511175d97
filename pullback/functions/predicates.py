"""Questions about tensors: equality as a whole, kinds of elements, and their signs at infinity."""

from __future__ import annotations

import math

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.functions.arguments import Tensor, as_tensor, axes_argument, fresh, literal
from pullback.functions.comparisons import equal, isinf, isnan, signbit
from pullback.functions.complex_parts import imag, real
from pullback.functions.composed import composed
from pullback.functions.creation import full_like
from pullback.functions.data_types import finfo
from pullback.functions.shape import broadcast_shapes
from pullback.graph.dtypes import bool_
from pullback.lazy.host_reads import read
from pullback.typing import ArrayLike, Axis


@composed
def array_equal(x1: ArrayLike, x2: ArrayLike, equal_nan: bool = False) -> Tensor:
    """Return whether two tensors have the same shape and equal elements.

    >>> pb.array_equal([1, 2], [1, 2]).item(), pb.array_equal([1, 2], [1]).item()
    (True, False)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if a.shape != b.shape:
        return literal(False, bool_)
    same = equal(a, b)
    return (same | (isnan(a) & isnan(b)) if equal_nan else same).all()


@composed
def array_equiv(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return whether two tensors have equal elements after broadcasting.

    >>> pb.array_equiv([1, 2], [[1, 2], [1, 2]]).item()
    True
    """
    a, b = as_tensor(x1), as_tensor(x2)
    try:
        broadcast_shapes(a.shape, b.shape)
    except ShapeError:
        return literal(False, bool_)
    return equal(a, b).all()


@composed
def isneginf(x: ArrayLike) -> Tensor:
    """Return whether each element is negative infinity.

    >>> pb.isneginf([-pb.inf, pb.inf, 0.0]).tolist()
    [True, False, False]
    """
    x = _real_elements("isneginf", x)
    return isinf(x) & signbit(x)


@composed
def isposinf(x: ArrayLike) -> Tensor:
    """Return whether each element is positive infinity.

    >>> pb.isposinf([-pb.inf, pb.inf, 0.0]).tolist()
    [False, True, False]
    """
    x = _real_elements("isposinf", x)
    return isinf(x) & ~signbit(x)


def _real_elements(op: str, x: ArrayLike) -> Tensor:
    x = as_tensor(x)
    if x.dtype.is_complex:
        raise DTypeError(f"needs real elements, got {x._node.type}", op=op)
    return x.astype("int8") if x.dtype is bool_ else x


@composed
def iscomplex(x: ArrayLike) -> Tensor:
    """Return whether the imaginary part of each element is not 0.

    >>> pb.iscomplex([1 + 1j, 2 + 0j]).tolist()
    [True, False]
    """
    x = as_tensor(x)
    return imag(x) != 0 if x.dtype.is_complex else full_like(x, False, dtype=bool_)


@composed
def isreal(x: ArrayLike) -> Tensor:
    """Return whether the imaginary part of each element is 0.

    >>> pb.isreal([1 + 1j, 2 + 0j]).tolist()
    [False, True]
    """
    x = as_tensor(x)
    return imag(x) == 0 if x.dtype.is_complex else full_like(x, True, dtype=bool_)


@composed
def iscomplexobj(x: ArrayLike) -> bool:
    """Return whether a tensor has a complex dtype.

    >>> pb.iscomplexobj([1.0]), pb.iscomplexobj([1 + 0j])
    (False, True)
    """
    return as_tensor(x).dtype.is_complex


@composed
def isrealobj(x: ArrayLike) -> bool:
    """Return whether a tensor has a dtype that is not complex.

    >>> pb.isrealobj([1.0]), pb.isrealobj([1 + 0j])
    (True, False)
    """
    return not as_tensor(x).dtype.is_complex


def isscalar(element: object) -> bool:
    """Return whether a value is a Python or NumPy scalar; a tensor of rank 0 is none.

    >>> pb.isscalar(3.0), pb.isscalar(pb.tensor(3.0))
    (True, False)
    """
    return bool(np.isscalar(element)) if not isinstance(element, Tensor) else False


@composed
def real_if_close(x: ArrayLike, tol: float = 100) -> Tensor:
    """Return the real part of a complex tensor if all imaginary parts are close to 0: less than
    `tol` times the machine epsilon, or than `tol` if that is at most 1. The tensor is evaluated.

    >>> pb.real_if_close([1 + 1e-12j, 2 + 0j]).dtype
    f32
    """
    x = as_tensor(x)
    if not x.dtype.is_complex:
        return fresh(x)
    limit = tol * finfo(x.dtype).eps if tol > 1 else tol
    return real(x) if bool((np.abs(read(x).imag) < limit).all()) else fresh(x)


@composed
def ndim(x: ArrayLike) -> int:
    """Return the number of dimensions.

    >>> pb.ndim([[1, 2, 3]])
    2
    """
    return as_tensor(x).ndim


@composed
def shape(x: ArrayLike) -> tuple[int, ...]:
    """Return the size of each dimension.

    >>> pb.shape([[1, 2, 3]])
    (1, 3)
    """
    return as_tensor(x).shape


@composed
def size(x: ArrayLike, axis: Axis = None) -> int:
    """Return the number of elements, or that along axes.

    >>> pb.size([[1, 2, 3]]), pb.size([[1, 2, 3]], axis=0)
    (3, 1)
    """
    x = as_tensor(x)
    return math.prod(x.shape[i] for i in axes_argument("size", axis, x.ndim))


__all__ = [
    "array_equal", "array_equiv", "iscomplex", "iscomplexobj", "isneginf", "isposinf", "isreal",
    "isrealobj", "isscalar", "ndim", "real_if_close", "shape", "size",
]  # fmt: skip
