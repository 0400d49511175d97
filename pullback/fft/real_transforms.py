"""Fourier transforms of real numbers, whose spectrum is symmetric: half of it says everything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

from pullback.fft.lengths import fft_length, fft_lengths_and_axes, resized_to_fft_length
from pullback.fft.norms import fft_norm, scaled_by_fft_norm
from pullback.fft.operands import complex_fft_operand, real_fft_operand
from pullback.functions.arguments import axis_argument, record_as
from pullback.lazy.tensor import Tensor
from pullback.ops.fft.fourier import Irfft, Rfft
from pullback.typing import ArrayLike, Shape


def rfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the `n // 2 + 1` first coefficients of the Fourier transform of real numbers.

    The others are conjugates of these. For `n` and `norm` see `fft`.

    >>> pb.fft.rfft([1.0, 2.0, 1.0, 0.0]).tolist()
    [(4+0j), -2j, 0j]
    """
    return real_transform("fft.rfft", x, n, axis, norm)


def irfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the `n` real numbers whose `rfft` is given; the inverse of `rfft`.

    `n` is 2 (m - 1) for m coefficients if it is not given: say it for an odd length.

    >>> pb.fft.irfft([4.0, -2j, 0.0]).tolist()
    [1.0, 2.0, 1.0, 0.0]
    """
    return inverse_real_transform("fft.irfft", x, n, axis, norm)


def rfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the Fourier transform of real numbers over several axes, by default over all.

    The result has only the first half of the last of these axes, as that of `rfft`.

    >>> pb.fft.rfftn([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return real_transform_over("fft.rfftn", x, s, axes, norm)


def irfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `rfftn`; `s` says the lengths of the result.

    >>> pb.fft.irfftn([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return inverse_real_transform_over("fft.irfftn", x, s, axes, norm)


def rfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return `rfftn` over two axes, by default the last ones.

    >>> pb.fft.rfft2([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return real_transform_over("fft.rfft2", x, s, axes, norm)


def irfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `rfft2`.

    >>> pb.fft.irfft2([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return inverse_real_transform_over("fft.irfft2", x, s, axes, norm)


def real_transform(op: str, x: ArrayLike, n: int | None, axis: int, norm: str | None) -> Tensor:
    """Transform real numbers along one axis, for the function `op`."""
    a = real_fft_operand(op, x)
    place = axis_argument(op, axis, a.ndim)
    sizes = None if n is None else (fft_length(op, n),)
    return real_transform_over(op, a, sizes, (place,), norm)


def real_transform_over(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Tensor:
    """Transform real numbers over several axes, for the function `op`."""
    a, kind = real_fft_operand(op, x), fft_norm(op, norm)
    sizes, places = fft_lengths_and_axes(op, a, s, axes)
    for n, axis in zip(sizes, places, strict=True):
        a = resized_to_fft_length(a, axis, n)
    return scaled_by_fft_norm(record_as(op, Rfft(places), a._node), kind, math.prod(sizes))


def inverse_real_transform(
    op: str, x: ArrayLike, n: int | None, axis: int, norm: str | None
) -> Tensor:
    """Transform half a spectrum along one axis to real numbers, for `op`."""
    z = complex_fft_operand(x)
    place = axis_argument(op, axis, z.ndim)
    sizes = None if n is None else (fft_length(op, n),)
    return inverse_real_transform_over(op, z, sizes, (place,), norm)


def inverse_real_transform_over(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Tensor:
    """Transform half a spectrum over several axes to real numbers, for `op`."""
    z, kind = complex_fft_operand(x), fft_norm(op, norm)
    sizes, places = fft_lengths_and_axes(op, z, s, axes)
    if s is None:
        sizes[-1] = fft_length(op, 2 * (sizes[-1] - 1), "the length of the result, 2 (m - 1),")
    for n, axis in zip(sizes, places, strict=True):
        z = resized_to_fft_length(z, axis, n // 2 + 1 if axis == places[-1] else n)
    result = record_as(op, Irfft(places, sizes[-1]), z._node)
    return scaled_by_fft_norm(result, kind, math.prod(sizes), inverse=True)


__all__ = ["irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn"]
