"""The frequencies of Fourier coefficients, and their order."""

from __future__ import annotations

import numpy as np

from pullback.fft.arguments import length_of
from pullback.functions.arguments import dtype_or, number, ordered_axes
from pullback.functions.creation import from_array
from pullback.functions.joining import roll
from pullback.functions.sharding import to_device
from pullback.graph.arguments import real
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
    count = length_of("fft.fftfreq", n)
    places = np.concatenate([np.arange((count + 1) // 2), np.arange(-(count // 2), 0)])
    return _frequencies("fft.fftfreq", places, count, d, dtype, device)


def rfftfreq(
    n: int, d: float | Tensor = 1.0, dtype: DTypeLike | None = None, device: str | None = None
) -> Tensor:
    """Return the frequency of each coefficient of `rfft`, for `n` samples that are `d` apart.

    >>> pb.fft.rfftfreq(4, d=0.5).tolist()
    [0.0, 0.5, 1.0]
    """
    count = length_of("fft.rfftfreq", n)
    return _frequencies("fft.rfftfreq", np.arange(count // 2 + 1), count, d, dtype, device)


def _frequencies(
    op: str, places: np.ndarray, n: int, d: float | Tensor, dtype: DTypeLike | None,
    device: str | None,
) -> Tensor:  # fmt: skip
    wanted = dtype_or(op, dtype, current().default_dtype)
    spacing = number(real(op, d, "d"))
    if type(spacing) in NUMBERS:
        with np.errstate(all="ignore"):
            made = from_array((places * (1.0 / np.float64(n * spacing))).astype(wanted.numpy))
    else:
        made = (from_array(places.astype(wanted.numpy)) / (spacing * n)).astype(wanted)
    return made if device is None else to_device(made, device)


def fftshift(x: ArrayLike, axes: Axis = None) -> Tensor:
    """Move the coefficient of frequency 0 to the middle of each axis, by default of all.

    >>> pb.fft.fftshift(pb.fft.fftfreq(4, d=0.25)).tolist()
    [-2.0, -1.0, 0.0, 1.0]
    """
    return _shifted("fft.fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Tensor:
    """Move the coefficient in the middle of each axis to the front; the inverse of `fftshift`.

    >>> pb.fft.ifftshift([-2.0, -1.0, 0.0, 1.0]).tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    return _shifted("fft.ifftshift", x, axes, -1)


def _shifted(op: str, x: ArrayLike, axes: Axis, sign: int) -> Tensor:
    a = as_tensor(x)
    places = tuple(range(a.ndim)) if axes is None else ordered_axes(op, axes, a.ndim)
    return roll(a, [sign * (a.shape[i] // 2) for i in places], places)


__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]
