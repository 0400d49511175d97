"""The frequencies of Fourier coefficients, and their order."""

from __future__ import annotations

from pullback.errors import ArgumentError, DTypeError
from pullback.fft.lengths import fft_length
from pullback.functions.arguments import (
    dtype_argument,
    literal_argument,
    operator_number,
    ordered_axes_argument,
)
from pullback.functions.creation import arange
from pullback.functions.flip_roll_resize import roll
from pullback.functions.where_take import where
from pullback.graph.argument_checks import real, shown_argument
from pullback.graph.dtypes import float64, int64
from pullback.lazy.operators import NUMBERS, as_tensor
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Axis, DTypeLike


def fftfreq(
    n: int, d: float | Tensor = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the frequency of each coefficient of `fft`, for samples that are `d` apart.

    >>> pb.fft.fftfreq(4, d=0.5).tolist()
    [0.0, 0.5, -1.0, -0.5]
    """
    count = fft_length("fft.fftfreq", n)
    k = arange(count, device=device)
    places = where(
        k > literal_argument((count - 1) // 2, int64), k - literal_argument(count, int64), k
    )
    return _frequencies("fft.fftfreq", places, count, d, dtype)


def rfftfreq(
    n: int, d: float | Tensor = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the frequency of each coefficient of `rfft`, for `n` samples that are `d` apart.

    >>> pb.fft.rfftfreq(4, d=0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    count = fft_length("fft.rfftfreq", n)
    places = arange(count // 2 + 1, device=device)
    return _frequencies("fft.rfftfreq", places, count, d, dtype)


def _frequencies(
    op: str, places: Tensor, n: int, d: float | Tensor, dtype: DTypeLike | None
) -> Tensor:
    wanted = dtype_argument(op, dtype, current().default_dtype)
    if not wanted.is_float:
        raise DTypeError(f"dtype must be a float, got {wanted}", op=op)
    spacing = operator_number(real(op, d, "d"))
    if type(spacing) not in NUMBERS:
        return (places.astype(wanted) / (spacing * n)).astype(wanted)
    if spacing == 0:
        raise ArgumentError(f"d must not be 0, got {shown_argument(d)}", op=op)
    # as NumPy does: in f64, multiplied by the spacing of the frequencies
    return (places.astype(float64) * literal_argument(1.0 / (n * spacing), float64)).astype(wanted)


def fftshift(x: ArrayLike, axes: Axis = None) -> Tensor:
    """Move the coefficient of frequency 0 to the middle of each axis, by default of all.

    >>> pb.fft.fftshift(pb.fft.fftfreq(4, d=0.25)).tolist()
    [-2.0, -1.0, 0.0, 1.0]
    """
    return _shifted_frequencies("fft.fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Tensor:
    """Move the coefficient in the middle of each axis to the front; the inverse of `fftshift`.

    >>> pb.fft.ifftshift([-2.0, -1.0, 0.0, 1.0]).tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    return _shifted_frequencies("fft.ifftshift", x, axes, -1)


def _shifted_frequencies(op: str, x: ArrayLike, axes: Axis, sign: int) -> Tensor:
    a = as_tensor(x)
    places = tuple(range(a.ndim)) if axes is None else ordered_axes_argument(op, axes, a.ndim)
    return roll(a, [sign * (a.shape[i] // 2) for i in places], places)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]
