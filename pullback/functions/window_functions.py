"""Window functions of signal processing: weights that fall from the middle to both ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pullback.functions.arguments import Tensor
from pullback.functions.composed import composed
from pullback.functions.creation import created_from_formula
from pullback.lazy.settings import current


@composed
def bartlett(M: int) -> Tensor:
    """Return the triangular window of `M` points.

    >>> pb.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window("bartlett", np.bartlett, M)


@composed
def blackman(M: int) -> Tensor:
    """Return the Blackman window of `M` points, a sum of three cosines.

    >>> pb.blackman(5)[2].item()
    1.0
    """
    return _window("blackman", np.blackman, M)


@composed
def hamming(M: int) -> Tensor:
    """Return the Hamming window of `M` points, a raised cosine that is 0.08 at the ends.

    >>> pb.hamming(3).tolist()
    [0.07999..., 1.0, 0.07999...]
    """
    return _window("hamming", np.hamming, M)


@composed
def hanning(M: int) -> Tensor:
    """Return the Hann window of `M` points, a raised cosine that is 0 at the ends.

    >>> pb.hanning(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return _window("hanning", np.hanning, M)


@composed
def kaiser(M: int, beta: float) -> Tensor:
    """Return the Kaiser window of `M` points; the larger `beta`, the narrower it is.

    >>> pb.kaiser(3, 0.0).tolist()
    [1.0, 1.0, 1.0]
    """
    return _window("kaiser", lambda n: np.kaiser(n, float(beta)), M)


def _window(op: str, formula: Callable[[int], np.ndarray], count: int) -> Tensor:
    """A window in the default dtype, computed in f64."""
    dtype, size = current().default_dtype, max(count, 0)
    return created_from_formula(op, (size,), dtype, lambda: formula(size))


__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]
