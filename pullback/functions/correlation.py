"""Convolution and correlation of two sequences."""

from __future__ import annotations

from typing import Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.functions.complex_parts import conj
from pullback.functions.padding import pad
from pullback.functions.products import matmul
from pullback.functions.shape import flip, shaped
from pullback.functions.where_take import take
from pullback.graph.arguments import shown
from pullback.graph.dtypes import bool_, int64
from pullback.lazy.operators import as_tensor, operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.conv.convolution import Convolution
from pullback.ops.shape.iota import Iota
from pullback.typing import ArrayLike

Mode = Literal["full", "same", "valid"]


def convolve(a: ArrayLike, v: ArrayLike, mode: Mode = "full") -> Tensor:
    """Return the convolution of two vectors: the sums of a[i] v[k - i].

    The mode says for which k: "full" for all where the vectors overlap, "same" for as many as the
    longer vector has elements, "valid" where they overlap completely.

    >>> pb.convolve([1, 2, 3], [0, 1, 2]).tolist()
    [0, 1, 4, 7, 6]
    """
    x, y = _vectors("convolve", a, v, mode)
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return _slid(x, flip(y), mode)


def correlate(a: ArrayLike, v: ArrayLike, mode: Mode = "valid") -> Tensor:
    """Return the correlation of two vectors: the sums of a[i + k] times the conjugate of v[i].

    For `mode` see `convolve`.

    >>> pb.correlate([1, 2, 3], [0, 1, 2], "full").tolist()
    [2, 5, 8, 3, 0]
    """
    x, y = _vectors("correlate", a, v, mode)
    y = conj(y) if y.dtype.is_complex else y
    if y.shape[0] > x.shape[0]:  # shifts count the other way
        return flip(_slid(y, x, mode))
    return _slid(x, y, mode)


def _vectors(op: str, a: ArrayLike, v: ArrayLike, mode: str) -> tuple[Tensor, Tensor]:
    x, y = (wrap(n) for n in operands(as_tensor(a), as_tensor(v)))
    if x.ndim > 1 or y.ndim > 1:
        raise ShapeError(f"needs vectors, got {x._node.type} and {y._node.type}", op=op)
    x, y = (shaped(t, (1,)) if t.ndim == 0 else t for t in (x, y))
    for name, t in (("a", x), ("v", y)):
        if not t.size:
            raise ShapeError(f"{name} must not be empty, got {t._node.type}", op=op)
    if mode not in ("full", "same", "valid"):
        what = f'mode must be "full", "same" or "valid", got {shown(mode)}'
        raise ArgumentError(what, op=op)
    return x, y


def _slid(x: Tensor, y: Tensor, mode: str) -> Tensor:
    """The sums of x[i + k] y[i], where y is not longer than x."""
    n = y.shape[0]
    border = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}[mode]
    if x.dtype is bool_:
        return _slid(x.astype(int64), y.astype(int64), mode) != 0
    if x.dtype.is_inexact:
        op = Convolution((1,), (border,), (1,), (1,), 1)
        made = record(op, (shaped(x, (1, x.shape[0], 1))._node, shaped(y, (n, 1, 1))._node))
        return shaped(made, (made.size,))
    padded = pad(x, border)
    i, k = (record(Iota((padded.size - n + 1, n), axis, int64), ()) for axis in (0, 1))
    return matmul(take(padded, i + k), y)


__all__ = ["convolve", "correlate"]
