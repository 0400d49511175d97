"""Short-time Fourier transforms agree with a loop over the pieces, and invert each other."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
# n_fft, hop, window length, center, normalized, onesided, the signal's shape
CASES = [
    (16, None, None, True, False, None, (50,)),
    (16, 5, 12, True, True, True, (3, 50)),
    (15, 4, None, False, False, False, (2, 1, 60)),
    (36, 1, None, True, False, None, (45,)),
    (8, 12, None, False, False, None, (40,)),
    (16, 4, 10, True, False, False, (33,)),
]


def pieces_by_loop(x, n_fft, hop, weights, center, normalized, half):
    if center:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2,) * 2], mode="reflect")
    left = (n_fft - len(weights)) // 2
    weights = np.pad(weights, (left, n_fft - len(weights) - left))
    starts = range(0, x.shape[-1] - n_fft + 1, hop)
    pieces = np.stack([x[..., s : s + n_fft] * weights for s in starts], axis=-1)
    transform = np.fft.rfft if half else np.fft.fft
    return transform(pieces, axis=-2, norm="ortho" if normalized else "backward")


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_spectra_and_signals(engine):
    signals = [RNG.standard_normal(case[-1]) for case in CASES]
    windows = [np.hanning((case[2] or case[0]) + 2)[1:-1] for case in CASES]

    def program(signals):
        made = []
        for x, w, (n, hop, size, center, normalized, half, _) in zip(
            signals, windows, CASES, strict=True
        ):
            options = {"center": center, "normalized": normalized, "onesided": half}
            spectra = pb.fft.stft(x, n, hop, size, w, **options)
            length = x.shape[-1] if center else None
            back = pb.fft.istft(spectra, n, hop, size, w, **options, length=length)
            made.append((spectra, back))
        return made

    with pb.config(engine=engine):
        found = pb.compile(program)([pb.tensor(x) for x in signals])
    for x, w, case, (spectra, back) in zip(signals, windows, CASES, found, strict=True):
        n, hop, _, center, normalized, half, _ = case
        hop = hop or n // 4
        want = pieces_by_loop(x, n, hop, w, center, normalized, half is not False)
        np.testing.assert_allclose(spectra.numpy(), want, atol=1e-12)
        if hop < n:  # every sample is in some window
            stop = back.shape[-1]
            np.testing.assert_allclose(back.numpy().real, x[..., :stop], atol=1e-9)


def test_derivatives_and_batches():
    x = pb.tensor(RNG.standard_normal((2, 12)))
    with pb.config(engine="reference"):
        power = lambda x: pb.abs(pb.fft.stft(x, 4, 3, window=[0.2, 1.0, 0.7, 0.1])) ** 2  # noqa: E731
        pb.check_grads(power, (x[0],), order=2)
        pb.check_grads(lambda x: pb.fft.istft(pb.fft.stft(x, 4), 4), (x[0],), order=2)
        assert pb.all(pb.vmap(power)(x) == power(x))
        assert pb.fft.istft(pb.fft.stft(pb.ones(6), 4), 4, length=20).shape == (20,)


def test_arguments_that_do_not_fit():
    x = pb.ones(8)
    with told(ShapeError, ValueError, "stft", "a piece has 9 samples"):
        pb.fft.stft(x, 9, center=False)
    with told(ArgumentError, ValueError, "stft", "hop_length"):
        pb.fft.stft(x, 4, hop_length=0)
    with told(ShapeError, ValueError, "stft", "window must be a vector of 4"):
        pb.fft.stft(x, 4, window=pb.ones(5))
    with told(ArgumentError, ValueError, "stft", "onesided must be False"):
        pb.fft.stft(x + 0j, 4, onesided=True)
    with told(ShapeError, ValueError, "istft", "needs 3 frequencies"):
        pb.fft.istft(pb.ones((4, 2)), 4, onesided=True)
