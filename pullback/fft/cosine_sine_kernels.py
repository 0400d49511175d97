"""Cosine and sine transforms of the last axis, without a scale."""

from __future__ import annotations

import math

from pullback.fft.complex_transforms import fft
from pullback.fft.real_transforms import irfft, rfft
from pullback.functions.arguments import literal_argument
from pullback.functions.barriers import optimization_barrier
from pullback.functions.complex_parts import complex as complex_of
from pullback.functions.complex_parts import imag, real
from pullback.functions.creation import zeros_like
from pullback.functions.flip_roll_resize import flip
from pullback.functions.joining import concat
from pullback.functions.stacking import stack
from pullback.functions.trigonometry import cos, sin
from pullback.functions.where_take import where
from pullback.graph.dtypes import DType, int64
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor
from pullback.ops.shape.iota import Iota

ROOT = math.sqrt(2)


def cosine_kernel_1(x: Tensor, orthogonal: bool) -> Tensor:
    """x[0] + (-1)^k x[n-1] + 2 sum x[j] cos(pi j k / (n-1)): the spectrum of an even signal."""
    ends = ROOT if orthogonal else 1.0
    a = _cosine_kernel_ends(x, ends, ends)
    spectrum = real(rfft(concat([a, flip(a[..., 1:-1], axis=-1)], axis=-1)))
    return _cosine_kernel_ends(spectrum, 1 / ends, 1 / ends)


def cosine_kernel_2(x: Tensor, orthogonal: bool) -> Tensor:
    """2 sum x[j] cos(pi (2j+1) k / (2n)).

    With the even elements followed by the odd ones, reversed, it is a Fourier transform of the
    same length, up to a rotation. Coefficient n - k of it is the conjugate of coefficient k, so
    that one rotated half has both: its real and its imaginary parts.
    """
    n = x.shape[-1]
    spectrum = rfft(concat([x[..., ::2], flip(x[..., 1::2], axis=-1)], axis=-1))
    half = (spectrum + spectrum) * _cosine_kernel_rotation(n // 2 + 1, x.dtype, -math.pi / (2 * n))
    upper = flip(imag(half[..., 1 : (n + 1) // 2]), axis=-1)
    result = concat([real(half), -upper], axis=-1)
    return _cosine_kernel_ends(result, 1 / ROOT, 1.0) if orthogonal else result


def cosine_kernel_3(x: Tensor, orthogonal: bool) -> Tensor:
    """x[0] + 2 sum x[j] cos(pi j (2k+1) / (2n)): `cosine_kernel_2` backwards, times 2n."""
    n = x.shape[-1]
    a = _cosine_kernel_ends(x, ROOT, 1.0) if orthogonal else x
    lower = a[..., : n // 2 + 1]
    mirrored = concat([zeros_like(a[..., :1]), flip(a[..., (n + 1) // 2 :], axis=-1)], axis=-1)
    half = complex_of(lower, -mirrored[..., : n // 2 + 1])
    signal = irfft(
        half * _cosine_kernel_rotation(n // 2 + 1, x.dtype, math.pi / (2 * n)), n, norm="forward"
    )
    even, odd = signal[..., : (n + 1) // 2], flip(signal[..., (n + 1) // 2 :], axis=-1)
    pairs = stack([even[..., : n // 2], odd], axis=-1).reshape((*x.shape[:-1], n - n % 2))
    return concat([pairs, even[..., n // 2 :]], axis=-1) if n % 2 else pairs


def cosine_kernel_4(x: Tensor, orthogonal: bool) -> Tensor:
    """2 sum x[j] cos(pi (2j+1) (2k+1) / (4n)), by a Fourier transform of length 2n."""
    n = x.shape[-1]
    turned = x.astype(_cosine_kernel_rotation(1, x.dtype, 0.0).dtype) * _cosine_kernel_rotation(
        n, x.dtype, -math.pi / (2 * n)
    )
    spectrum = fft(turned + turned, 2 * n)[..., :n]
    return real(
        spectrum * _cosine_kernel_rotation(n, x.dtype, -math.pi / (2 * n), -math.pi / (4 * n))
    )


def sine_kernel_1(x: Tensor, orthogonal: bool) -> Tensor:
    """2 sum x[j] sin(pi (j+1) (k+1) / (n+1)): the spectrum of an odd signal."""
    zero = zeros_like(x[..., :1])
    spectrum = rfft(concat([zero, x, zero, -flip(x, axis=-1)], axis=-1))
    return -imag(spectrum[..., 1:-1])


def sine_kernel_2(x: Tensor, orthogonal: bool) -> Tensor:
    """2 sum x[j] sin(pi (2j+1) (k+1) / (2n))."""
    return flip(cosine_kernel_2(_sine_kernel_signs(x), orthogonal), axis=-1)


def sine_kernel_3(x: Tensor, orthogonal: bool) -> Tensor:
    """(-1)^k x[n-1] + 2 sum x[j] sin(pi (j+1) (2k+1) / (2n))."""
    return _sine_kernel_signs(cosine_kernel_3(flip(x, axis=-1), orthogonal))


def sine_kernel_4(x: Tensor, orthogonal: bool) -> Tensor:
    """2 sum x[j] sin(pi (2j+1) (2k+1) / (4n))."""
    return _sine_kernel_signs(cosine_kernel_4(flip(x, axis=-1), orthogonal))


COSINE = {1: cosine_kernel_1, 2: cosine_kernel_2, 3: cosine_kernel_3, 4: cosine_kernel_4}
SINE = {1: sine_kernel_1, 2: sine_kernel_2, 3: sine_kernel_3, 4: sine_kernel_4}


def _cosine_kernel_positions(n: int) -> Tensor:
    return record(Iota((n,), 0, int64), ())


def _cosine_kernel_rotation(n: int, dtype: DType, step: float, start: float = 0.0) -> Tensor:
    """The numbers exp(i (start + k step)) for k from 0 to n - 1."""
    angles = _cosine_kernel_positions(n).astype(dtype) * literal_argument(
        step, dtype
    ) + literal_argument(start, dtype)
    # once for all examples: fused with a product, it would be computed for each of them
    return optimization_barrier(complex_of(cos(angles), sin(angles)))


def _cosine_kernel_ends(x: Tensor, first: float, last: float) -> Tensor:
    """Scale the first and the last element."""
    k = _cosine_kernel_positions(x.shape[-1])
    for place, scale in ((0, first), (x.shape[-1] - 1, last)):
        if scale != 1.0:
            x = where(k == literal_argument(place, int64), x * literal_argument(scale, x.dtype), x)
    return x


def _sine_kernel_signs(x: Tensor) -> Tensor:
    """Negate every second element, beginning with the one at 1."""
    return where(
        _cosine_kernel_positions(x.shape[-1]) % literal_argument(2, int64)
        == literal_argument(0, int64),
        x,
        -x,
    )
