"""Questions about tensors: kinds of elements, and their signs at infinity."""

from __future__ import annotations

import numpy as np

from pullback.errors import DTypeError
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.comparisons import isinf, signbit
from pullback.functions.complex_parts import imag
from pullback.functions.composed import composed
from pullback.functions.creation import full_like
from pullback.graph.dtypes import bool_
from pullback.typing import ArrayLike


@composed
def isneginf(x: ArrayLike) -> Tensor:
    """Return whether each element is negative infinity.

    >>> pb.isneginf([-pb.inf, pb.inf, 0.0]).tolist()
    [True, False, False]
    """
    x = _infinity_predicate_operand("isneginf", x)
    return isinf(x) & signbit(x)


@composed
def isposinf(x: ArrayLike) -> Tensor:
    """Return whether each element is positive infinity.

    >>> pb.isposinf([-pb.inf, pb.inf, 0.0]).tolist()
    [False, True, False]
    """
    x = _infinity_predicate_operand("isposinf", x)
    return isinf(x) & ~signbit(x)


def _infinity_predicate_operand(op: str, x: ArrayLike) -> Tensor:
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


__all__ = [
    "iscomplex", "iscomplexobj", "isneginf", "isposinf", "isreal", "isrealobj", "isscalar",
]  # fmt: skip
