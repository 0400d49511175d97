"""Fourier transforms of signals that are symmetric up to conjugation: their spectra are real.

The conjugate of a signal has the conjugate spectrum in reverse order. The inverse transform of the
one is therefore the forward transform of the other, up to the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from pullback.fft.norms import fft_norm, opposite_fft_norm
from pullback.fft.operands import complex_fft_operand
from pullback.fft.real_transforms import (
    inverse_real_transform,
    inverse_real_transform_over,
    real_transform,
    real_transform_over,
)
from pullback.functions.complex_parts import conj
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Shape


def hfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the `n` real coefficients of a signal that is symmetric up to conjugation.

    `x` has the first `n // 2 + 1` elements of the signal; `n` is 2 (m - 1) for m of them if it is
    not given.

    >>> pb.fft.hfft([1.0, 2.0, 1.0]).tolist()
    [6.0, 0.0, -2.0, 0.0]
    """
    kind = opposite_fft_norm(fft_norm("fft.hfft", norm))
    return inverse_real_transform("fft.hfft", conj(complex_fft_operand(x)), n, axis, kind)


def ihfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the inverse of `hfft`: the first half of the signal with these real coefficients.

    >>> pb.fft.ihfft([6.0, 0.0, -2.0, 0.0]).real.tolist()
    [1.0, 2.0, 1.0]
    """
    kind = opposite_fft_norm(fft_norm("fft.ihfft", norm))
    return conj(real_transform("fft.ihfft", x, n, axis, kind))


def hfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return `hfft` over several axes, by default over all; `x` has half of the last of them.

    >>> pb.fft.hfftn([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _hermitian_transform("fft.hfftn", x, s, axes, norm)


def ihfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfftn`; `s` says the lengths to which `x` is cut or extended.

    >>> pb.fft.ihfftn([[10.0, -2.0], [-4.0, 0.0]]).real.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _inverse_hermitian_transform("fft.ihfftn", x, s, axes, norm)


def hfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return `hfftn` over two axes, by default the last ones.

    >>> pb.fft.hfft2([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _hermitian_transform("fft.hfft2", x, s, axes, norm)


def ihfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfft2`.

    >>> pb.fft.ihfft2([[10.0, -2.0], [-4.0, 0.0]]).real.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _inverse_hermitian_transform("fft.ihfft2", x, s, axes, norm)


def _hermitian_transform(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Tensor:
    kind = opposite_fft_norm(fft_norm(op, norm))
    return inverse_real_transform_over(op, conj(complex_fft_operand(x)), s, axes, kind)


def _inverse_hermitian_transform(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Tensor:
    return conj(real_transform_over(op, x, s, axes, opposite_fft_norm(fft_norm(op, norm))))


__all__ = ["hfft", "hfft2", "hfftn", "ihfft", "ihfft2", "ihfftn"]
