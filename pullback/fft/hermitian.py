"""Fourier transforms of signals that are symmetric up to conjugation: their spectra are real.

The conjugate of a signal has the conjugate spectrum in reverse order. The inverse transform of the
one is therefore the forward transform of the other, up to the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from pullback.fft.arguments import complex_operand, norm_of, opposite_norm
from pullback.fft.half_spectra import (
    from_half_spectrum,
    from_half_spectrum_over,
    half_spectrum,
    half_spectrum_over,
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
    kind = opposite_norm(norm_of("fft.hfft", norm))
    return from_half_spectrum("fft.hfft", conj(complex_operand(x)), n, axis, kind)


def ihfft(
    x: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = "backward"
) -> Tensor:
    """Return the inverse of `hfft`: the first half of the signal with these real coefficients.

    >>> pb.fft.ihfft([6.0, 0.0, -2.0, 0.0]).real.tolist()
    [1.0, 2.0, 1.0]
    """
    kind = opposite_norm(norm_of("fft.ihfft", norm))
    return conj(half_spectrum("fft.ihfft", x, n, axis, kind))


def hfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return `hfft` over several axes, by default over all; `x` has half of the last of them.

    >>> pb.fft.hfftn([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _hermitian("fft.hfftn", x, s, axes, norm)


def ihfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfftn`; `s` says the lengths to which `x` is cut or extended.

    >>> pb.fft.ihfftn([[10.0, -2.0], [-4.0, 0.0]]).real.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _inverse_hermitian("fft.ihfftn", x, s, axes, norm)


def hfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return `hfftn` over two axes, by default the last ones.

    >>> pb.fft.hfft2([[1.0, 2.0], [3.0, 4.0]]).tolist()
    [[10.0, -2.0], [-4.0, 0.0]]
    """
    return _hermitian("fft.hfft2", x, s, axes, norm)


def ihfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfft2`.

    >>> pb.fft.ihfft2([[10.0, -2.0], [-4.0, 0.0]]).real.tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _inverse_hermitian("fft.ihfft2", x, s, axes, norm)


def _hermitian(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Tensor:
    kind = opposite_norm(norm_of(op, norm))
    return from_half_spectrum_over(op, conj(complex_operand(x)), s, axes, kind)


def _inverse_hermitian(
    op: str, x: ArrayLike, s: Shape | None, axes: Sequence[SupportsIndex] | None, norm: str | None
) -> Tensor:
    return conj(half_spectrum_over(op, x, s, axes, opposite_norm(norm_of(op, norm))))


__all__ = ["hfft", "hfft2", "hfftn", "ihfft", "ihfft2", "ihfftn"]
