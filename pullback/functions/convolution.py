"""Convolution: of vectors, or of images [N, spatial..., C] with filters [spatial..., C, F]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import arguments
from pullback.functions.arguments import (
    converted_argument,
    float_arguments,
    per_axis_argument,
    record_as,
)
from pullback.functions.complex_parts import conj
from pullback.functions.flip_roll_resize import flip
from pullback.functions.padding import pad
from pullback.functions.products import matmul
from pullback.functions.shape import reshaped_to
from pullback.functions.where_take import take
from pullback.graph.argument_checks import shown_argument, with_argument_checks
from pullback.graph.dtypes import bool_, int64
from pullback.lazy.operators import as_tensor, operator_operands
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.conv.conv2d import ImageConvolution
from pullback.ops.conv.convolution import Convolution
from pullback.ops.conv.windows import resolve_window_padding, window_pairs
from pullback.ops.shape.iota import Iota
from pullback.typing import ArrayLike, Shape

ConvolveMode = Literal["full", "same", "valid"]

Padding = str | Sequence[Sequence[int]]


@with_argument_checks
def conv(
    x: ArrayLike, filters: ArrayLike, strides: Shape = 1, padding: Padding = "VALID",
    dilation: Shape = 1, groups: int = 1, input_dilation: Shape = 1,
) -> Tensor:  # fmt: skip
    """Convolve [N, spatial..., C] with filters [spatial..., C / groups, F], of any rank.

    `padding` is "VALID", "SAME" or a pair for each spatial dimension.

    >>> pb.conv(pb.ones((1, 5, 2)), pb.ones((3, 2, 4))).shape
    (1, 3, 4)
    """
    a, b = float_arguments(as_tensor(x), as_tensor(filters))
    rank = a.type.rank - 2
    if rank < 0 or b.type.rank != a.type.rank:
        wanted = "[N, spatial..., C] and [spatial..., C, F] of the same rank"
        message = f"needs {wanted}, got {a.type} and {b.type}"
        raise ShapeError(message, op="conv", code="E3002")
    steps = per_axis_argument("conv", strides, rank, "strides")
    apart = per_axis_argument("conv", dilation, rank, "dilation")
    inner = per_axis_argument("conv", input_dilation, rank, "input_dilation")
    border = convolution_padding_argument(
        "conv", padding, a.type.shape[1:-1], b.type.shape[:-2], steps, apart
    )
    return record_as("conv", Convolution(steps, border, inner, apart, groups), a, b)


def conv2d(
    x: ArrayLike, filters: ArrayLike, strides: Shape = 1, padding: Padding = "VALID"
) -> Tensor:
    """Convolve images [N, H, W, C] with filters [h, w, C, F].

    >>> pb.conv2d(pb.ones((1, 4, 4, 3)), pb.ones((3, 3, 3, 8)), padding="SAME").shape
    (1, 4, 4, 8)
    """
    a, b = float_arguments(as_tensor(x), as_tensor(filters))
    steps = per_axis_argument("conv2d", strides, 2, "strides")
    border: Any = (
        padding if isinstance(padding, str) else converted_argument("conv2d", window_pairs, padding)
    )
    return record(ImageConvolution(steps, border), (a, b))


def convolution_padding_argument(
    op: str, padding: Padding, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    pairs = isinstance(padding, (tuple, list)) and len(padding) == len(sizes)
    if not isinstance(padding, str) and not pairs:
        message = f'padding must be "VALID", "SAME" or {len(sizes)} pairs, got {padding!r}'
        raise ShapeError(message, op=op)
    return arguments.converted_argument(
        op, resolve_window_padding, padding, sizes, window, strides, dilation
    )


def convolve(a: ArrayLike, v: ArrayLike, mode: ConvolveMode = "full") -> Tensor:
    """Return the convolution of two vectors: the sums of a[i] v[k - i].

    The mode says for which k: "full" for all where the vectors overlap, "same" for as many as the
    longer vector has elements, "valid" where they overlap completely.

    >>> pb.convolve([1, 2, 3], [0, 1, 2]).tolist()
    [0, 1, 4, 7, 6]
    """
    x, y = _convolved_vectors("convolve", a, v, mode)
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return _slid_convolution(x, flip(y), mode)


def correlate(a: ArrayLike, v: ArrayLike, mode: ConvolveMode = "valid") -> Tensor:
    """Return the correlation of two vectors: the sums of a[i + k] times the conjugate of v[i].

    For `mode` see `convolve`.

    >>> pb.correlate([1, 2, 3], [0, 1, 2], "full").tolist()
    [2, 5, 8, 3, 0]
    """
    x, y = _convolved_vectors("correlate", a, v, mode)
    y = conj(y) if y.dtype.is_complex else y
    if y.shape[0] > x.shape[0]:  # shifts count the other way
        return flip(_slid_convolution(y, x, mode))
    return _slid_convolution(x, y, mode)


def _convolved_vectors(op: str, a: ArrayLike, v: ArrayLike, mode: str) -> tuple[Tensor, Tensor]:
    x, y = (wrap(n) for n in operator_operands(as_tensor(a), as_tensor(v)))
    if x.ndim > 1 or y.ndim > 1:
        raise ShapeError(f"needs vectors, got {x._node.type} and {y._node.type}", op=op)
    x, y = (reshaped_to(t, (1,)) if t.ndim == 0 else t for t in (x, y))
    for name, t in (("a", x), ("v", y)):
        if not t.size:
            raise ShapeError(f"{name} must not be empty, got {t._node.type}", op=op)
    if mode not in ("full", "same", "valid"):
        what = f'mode must be "full", "same" or "valid", got {shown_argument(mode)}'
        raise ArgumentError(what, op=op)
    return x, y


def _slid_convolution(x: Tensor, y: Tensor, mode: str) -> Tensor:
    """The sums of x[i + k] y[i], where y is not longer than x."""
    n = y.shape[0]
    border = {"full": (n - 1, n - 1), "same": (n // 2, n - 1 - n // 2), "valid": (0, 0)}[mode]
    if x.dtype is bool_:
        return _slid_convolution(x.astype(int64), y.astype(int64), mode) != 0
    if x.dtype.is_inexact:
        op = Convolution((1,), (border,), (1,), (1,), 1)
        made = record(
            op, (reshaped_to(x, (1, x.shape[0], 1))._node, reshaped_to(y, (n, 1, 1))._node)
        )
        return reshaped_to(made, (made.size,))
    padded = pad(x, border)
    i, k = (record(Iota((padded.size - n + 1, n), axis, int64), ()) for axis in (0, 1))
    return matmul(take(padded, i + k), y)


__all__ = ["conv", "conv2d", "convolve", "correlate"]
