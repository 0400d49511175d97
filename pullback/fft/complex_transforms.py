"""Discrete Fourier transforms of complex numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsIndex

from pullback.fft.lengths import fft_length, fft_lengths_and_axes, resized_to_fft_length
from pullback.fft.norms import fft_norm, scaled_by_fft_norm
from pullback.fft.operands import complex_fft_operand
from pullback.functions.arguments import axis_argument, record_as
from pullback.lazy.tensor import Tensor
from pullback.ops.fft.fourier import Fft
from pullback.typing import ArrayLike, Shape


def fft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the discrete Fourier transform along an axis.

    The axis is cut, or extended by zeros, to `n` elements. `norm` says which direction is divided
    by `n`: "backward", "forward", or "ortho" for both by its square root.

    >>> pb.fft.fft([1.0, 2.0, 1.0, 0.0]).tolist()
    [(4+0j), -2j, 0j, 2j]
    """
    return _complex_transform("fft.fft", x, n, axis, norm, False)


def ifft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the inverse of `fft` along an axis.

    >>> pb.fft.ifft([4.0, 0.0, 0.0, 0.0]).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _complex_transform("fft.ifft", x, n, axis, norm, True)


def fftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the discrete Fourier transform over several axes, by default over all.

    Each axis is cut, or extended by zeros, to the length that `s` gives; -1 keeps its size.

    >>> pb.fft.fftn([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return _complex_transform_over("fft.fftn", x, s, axes, norm, False)


def ifftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `fftn`.

    >>> pb.fft.ifftn([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]
    """
    return _complex_transform_over("fft.ifftn", x, s, axes, norm, True)


def fft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the discrete Fourier transform over two axes, by default the last ones.

    >>> pb.fft.fft2([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[(10+0j), (-2+0j)], [(-4+0j), 0j]]
    """
    return _complex_transform_over("fft.fft2", x, s, axes, norm, False)


def ifft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `fft2`.

    >>> pb.fft.ifft2([[10.0, -2.0], [-4.0, 0.0]]).tolist()
    [[(1+0j), (2+0j)], [(3+0j), (4+0j)]]
    """
    return _complex_transform_over("fft.ifft2", x, s, axes, norm, True)


def _complex_transform(
    op: str, x: ArrayLike, n: int | None, axis: int, norm: str | None, inverse: bool
) -> Tensor:
    z = complex_fft_operand(x)
    place = axis_argument(op, axis, z.ndim)
    sizes = None if n is None else (fft_length(op, n),)
    return _complex_transform_over(op, z, sizes, (place,), norm, inverse)


def _complex_transform_over(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None,
    norm: str | None, inverse: bool,
) -> Tensor:  # fmt: skip
    z, kind = complex_fft_operand(x), fft_norm(op, norm)
    sizes, places = fft_lengths_and_axes(op, z, s, axes)
    for n, axis in zip(sizes, places, strict=True):
        z = resized_to_fft_length(z, axis, n)
    result = record_as(op, Fft(places, inverse), z._node)
    return scaled_by_fft_norm(result, kind, math.prod(sizes), inverse)


__all__ = ["fft", "fft2", "fftn", "ifft", "ifft2", "ifftn"]
