"""Transforms of arrays with Hermitian symmetry over several axes, as SciPy has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from pullback.errors import ArgumentError
from pullback.fft.half_spectra import irfftn, rfftn
from pullback.functions.arguments import Tensor, as_tensor
from pullback.functions.complex_parts import conj
from pullback.typing import ArrayLike, Shape

_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the real transform of an array with Hermitian symmetry; `s` are the result's lengths.

    The last axis holds only the first half, as that of `rfftn` does.

    >>> pb.fft.hfftn([[2.5, -0.5], [-1.0, 0.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return irfftn(conj(as_tensor(x)), s, axes, _opposite("fft.hfftn", norm))


def ihfftn(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] | None = None,
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfftn`.

    >>> pb.fft.ihfftn([[1.0, 2.0], [3.0, 4.0]]).real.tolist()
    [[2.5, -0.5], [-1.0, 0.0]]
    """
    return conj(rfftn(x, s, axes, _opposite("fft.ihfftn", norm)))


def hfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return `hfftn` over two axes, by default the last ones.

    >>> pb.fft.hfft2([[2.5, -0.5], [-1.0, 0.0]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return hfftn(x, s, axes, norm)


def ihfft2(
    x: ArrayLike, s: Shape | None = None, axes: Sequence[SupportsIndex] = (-2, -1),
    norm: str | None = "backward",
) -> Tensor:  # fmt: skip
    """Return the inverse of `hfft2`.

    >>> pb.fft.ihfft2([[1.0, 2.0], [3.0, 4.0]]).real.tolist()
    [[2.5, -0.5], [-1.0, 0.0]]
    """
    return ihfftn(x, s, axes, norm)


def _opposite(op: str, norm: str | None) -> str:
    """Return the mode that scales the transform in the other direction."""
    if norm not in _OPPOSITE:
        names = '"backward", "ortho" or "forward"'
        raise ArgumentError(f"norm must be {names}, got {norm!r}", op=op)
    return _OPPOSITE[norm]
