"""Sums of a tensor and a product, each with a weight."""

from __future__ import annotations

from typing import Any

from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.arithmetic import add, divide, multiply
from pullback.functions.composed import composed
from pullback.functions.data_types import astype, result_type
from pullback.functions.products import matmul, outer
from pullback.functions.reductions import sum
from pullback.functions.shape import broadcast_shapes, spread_to_shape
from pullback.typing import ArrayLike


@composed
def addmm(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, *, beta: ArrayLike = 1, alpha: ArrayLike = 1
) -> Tensor:
    """Return `beta * x + alpha * (a @ b)` for matrices; x is not used where `beta` is the number 0.

    >>> pb.addmm([1.0, 2.0], [[1.0, 2.0]], [[3.0, 0.0], [0.0, 4.0]], alpha=10).tolist()
    [[31.0, 82.0]]
    """
    return _weighted_product_sum(x, matmul(a, b), beta, alpha)


@composed
def addmv(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, *, beta: ArrayLike = 1, alpha: ArrayLike = 1
) -> Tensor:
    """Return `beta * x + alpha * (a @ b)` for a matrix and a vector.

    >>> pb.addmv([1.0], [[1.0, 2.0]], [3.0, 4.0]).tolist()
    [12.0]
    """
    return _weighted_product_sum(x, matmul(a, b), beta, alpha)


@composed
def addr(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, *, beta: ArrayLike = 1, alpha: ArrayLike = 1
) -> Tensor:
    """Return `beta * x + alpha * outer(a, b)` for vectors.

    >>> pb.addr(0.0, [1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return _weighted_product_sum(x, outer(a, b), beta, alpha)


@composed
def baddbmm(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, *, beta: ArrayLike = 1, alpha: ArrayLike = 1
) -> Tensor:
    """Return `beta * x + alpha * (a @ b)` for batches of matrices.

    >>> pb.baddbmm(1.0, pb.ones((2, 1, 3)), pb.ones((2, 3, 1))).tolist()
    [[[4.0]], [[4.0]]]
    """
    return _weighted_product_sum(x, matmul(a, b), beta, alpha)


@composed
def addbmm(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, *, beta: ArrayLike = 1, alpha: ArrayLike = 1
) -> Tensor:
    """Return `beta * x + alpha * sum(a @ b, axis=0)` for batches of matrices.

    >>> pb.addbmm(1.0, pb.ones((2, 1, 3)), pb.ones((2, 3, 1))).tolist()
    [[7.0]]
    """
    return _weighted_product_sum(x, sum(matmul(a, b), axis=0), beta, alpha)


@composed
def addcmul(x: ArrayLike, a: ArrayLike, b: ArrayLike, *, value: ArrayLike = 1) -> Tensor:
    """Return `x + value * a * b`.

    >>> pb.addcmul([1.0, 2.0], [3.0, 4.0], 5.0, value=0.5).tolist()
    [8.5, 12.0]
    """
    return add(x, _product_with_weight(multiply(a, b), value))


@composed
def addcdiv(x: ArrayLike, a: ArrayLike, b: ArrayLike, *, value: ArrayLike = 1) -> Tensor:
    """Return `x + value * a / b`.

    >>> pb.addcdiv([1.0, 2.0], [3.0, 4.0], 2.0).tolist()
    [2.5, 4.0]
    """
    return add(x, _product_with_weight(divide(a, b), value))


def _weighted_product_sum(
    x: ArrayLike, product: Tensor, beta: ArrayLike, alpha: ArrayLike
) -> Tensor:
    product = _product_with_weight(product, alpha)
    if _is_product_weight(beta, 0):
        shape = broadcast_shapes(as_tensor(x).shape, product.shape)
        return astype(spread_to_shape(product, shape), result_type(x, product))
    return add(_product_with_weight(as_tensor(x), beta), product)


def _product_with_weight(x: Tensor, weight: ArrayLike) -> Tensor:
    return x if _is_product_weight(weight, 1) else multiply(x, weight)


def _is_product_weight(value: Any, wanted: int) -> bool:
    return type(value) in (int, float) and value == wanted


__all__ = ["addbmm", "addcdiv", "addcmul", "addmm", "addmv", "addr", "baddbmm"]
