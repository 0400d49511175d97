"""Short-time Fourier transforms: the spectra of overlapping pieces of a signal."""

from __future__ import annotations

from typing import Literal

from pullback.errors import ArgumentError, ShapeError
from pullback.fft.complex_transforms import fft, ifft
from pullback.fft.real_transforms import irfft, rfft
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.composed import composed
from pullback.functions.creation import arange, ones, zeros
from pullback.functions.index_updates import index_add
from pullback.functions.joining import concat
from pullback.functions.padding import pad
from pullback.functions.shape import matrix_transpose, reshaped_to
from pullback.functions.where_take import take
from pullback.lazy.host_data import asarray
from pullback.typing import ArrayLike

PadMode = Literal["reflect", "constant", "edge"]
_FEW_BLOCKS = 32  # beyond that, samples are gathered one by one


@composed
def stft(
    x: ArrayLike, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: ArrayLike | None = None, center: bool = True, pad_mode: PadMode = "reflect",
    normalized: bool = False, onesided: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the spectra of pieces of `n_fft` samples of the last axis, `hop_length` apart: an axis
    of frequencies, then one of pieces.

    Arguments and defaults are those of PyTorch: a hop of `n_fft // 4`, a `window` of ones. If its
    length `win_length` is less than `n_fft`, it is centred in each piece. With `center`, the signal
    is extended by `n_fft // 2` samples on both sides, by `pad`. Spectra of real signals have the
    half that is not redundant, unless `onesided` is false. `normalized` divides by the square root
    of `n_fft`.

    >>> pb.fft.stft(pb.ones(8), 4, window=pb.hanning(4)).shape
    (3, 9)
    """
    signal = as_tensor(x)
    hop, weights = _short_time_hop(signal, n_fft, hop_length, win_length, window)
    if not signal.ndim:
        raise ShapeError(f"needs an axis of samples, got {signal._node.type}")
    if center:
        widths = [(0, 0)] * (signal.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        signal = pad(signal, widths, pad_mode)
    if signal.shape[-1] < n_fft:
        raise ShapeError(f"a piece has {n_fft} samples, but the signal {signal.shape[-1]}")
    pieces = _short_time_pieces(signal, n_fft, hop) * weights
    half = not pieces.dtype.is_complex if onesided is None else onesided
    if half and pieces.dtype.is_complex:
        raise ArgumentError("onesided must be False for complex signals or windows")
    norm: Literal["ortho", "backward"] = "ortho" if normalized else "backward"
    return matrix_transpose(rfft(pieces, norm=norm) if half else fft(pieces, norm=norm))


@composed
def istft(
    x: ArrayLike, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: ArrayLike | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the signal of the spectra that `stft` made with the same arguments; `length` is the
    number of its samples.

    Where no piece has a window other than 0, the result is not a number. Whether spectra are
    halves is seen from their size, unless `onesided` says so; those of whole spectra give
    complex signals.

    >>> x = pb.arange(8.0)
    >>> pb.fft.istft(pb.fft.stft(x, 4), 4, length=8).numpy().round(3).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    spectra = as_tensor(x)
    if spectra.ndim < 2:
        raise ShapeError(f"needs axes of frequencies and pieces, got {spectra._node.type}")
    hop, weights = _short_time_hop(spectra, n_fft, hop_length, win_length, window)
    half = spectra.shape[-2] == n_fft // 2 + 1 if onesided is None else onesided
    size = n_fft // 2 + 1 if half else n_fft
    if spectra.shape[-2] != size:
        raise ShapeError(f"needs {size} frequencies, got {spectra._node.type}")
    norm: Literal["ortho", "backward"] = "ortho" if normalized else "backward"
    spectra = matrix_transpose(spectra)
    pieces = irfft(spectra, n_fft, norm=norm) if half else ifft(spectra, n_fft, norm=norm)
    count = pieces.shape[-2]
    squares = reshaped_to(weights * weights, (1, n_fft)) * ones((count, 1), dtype=weights.dtype)
    signal = _short_time_overlapped(pieces * weights, hop) / _short_time_overlapped(squares, hop)
    start = n_fft // 2 if center else 0
    stop = signal.shape[-1] - start if length is None else start + length
    missing = max(0, stop - signal.shape[-1])
    made = signal[..., start:stop]
    return pad(made, [(0, 0)] * (made.ndim - 1) + [(0, missing)]) if missing else made


def _short_time_hop(
    x: Tensor, n_fft: int, hop: int | None, win_length: int | None, window: ArrayLike | None
) -> tuple[int, Tensor]:
    hop = max(n_fft // 4, 1) if hop is None else hop
    size = n_fft if win_length is None else win_length
    if n_fft < 1 or hop < 1 or not 0 < size <= n_fft:
        what = "n_fft and hop_length must be 1 or more, win_length from 1 to n_fft"
        raise ArgumentError(f"{what}, got {n_fft}, {hop} and {size}")
    real = x.dtype.real if x.dtype.is_complex else x.dtype
    kind = real if real.is_float else None
    plain = isinstance(window, (list, tuple))  # numbers without a dtype of their own
    given = ones(size, dtype=kind) if window is None else window
    weights = asarray(given, kind) if plain else as_tensor(given)
    if weights.shape != (size,):
        raise ShapeError(f"window must be a vector of {size} numbers, got {weights._node.type}")
    left = (n_fft - size) // 2
    return hop, pad(weights, (left, n_fft - size - left))


def _short_time_pieces(x: Tensor, size: int, hop: int) -> Tensor:
    """Return the pieces of the last axis as rows, made of blocks of `hop` samples."""
    count, blocks = 1 + (x.shape[-1] - size) // hop, -(-size // hop)
    if blocks > _FEW_BLOCKS:
        places = reshaped_to(arange(count) * hop, (count, 1)) + arange(size)
        return take(x, places, axis=-1)
    needed = (count + blocks - 1) * hop
    x = x[..., :needed]
    x = pad(x, [(0, 0)] * (x.ndim - 1) + [(0, needed - x.shape[-1])])
    rows = reshaped_to(x, (*x.shape[:-1], count + blocks - 1, hop))
    return concat([rows[..., i : i + count, :] for i in range(blocks)], axis=-1)[..., :size]


def _short_time_overlapped(x: Tensor, hop: int) -> Tensor:
    """Return the sum of rows, each `hop` samples after the one before."""
    *lead, count, size = x.shape
    total, blocks = (count - 1) * hop + size, -(-size // hop)
    if blocks > _FEW_BLOCKS:
        places = reshaped_to(arange(count) * hop, (count, 1)) + arange(size)
        start = zeros((*lead, total), dtype=x.dtype)
        return index_add(
            start, -1, reshaped_to(places, (count * size,)), reshaped_to(x, (*lead, count * size))
        )
    around = [(0, 0)] * len(lead)
    x = pad(x, [*around, (0, 0), (0, blocks * hop - size)])
    rows = [
        pad(x[..., i * hop : (i + 1) * hop], [*around, (i, blocks - 1 - i), (0, 0)])
        for i in range(blocks)
    ]
    made = sum(rows[1:], rows[0])
    return reshaped_to(made, (*lead, (count + blocks - 1) * hop))[..., :total]


__all__ = ["istft", "stft"]
