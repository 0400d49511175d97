"""Discrete cosine and sine transforms, types 1 to 4, by Fourier transforms of the same length."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import SupportsIndex

from pullback.errors import ArgumentError, ShapeError
from pullback.fft.cosine_sine_kernels import COSINE, SINE
from pullback.fft.lengths import fft_length, fft_lengths_and_axes, resized_to_fft_length
from pullback.fft.norms import fft_norm, opposite_fft_norm
from pullback.fft.operands import fft_operand
from pullback.functions.arguments import axis_argument, literal_argument
from pullback.functions.complex_parts import complex as complex_of
from pullback.functions.complex_parts import imag, real
from pullback.functions.shape import moveaxis
from pullback.graph.argument_checks import checked_flag_argument, shown_argument
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Shape

INVERSE_TYPE = {1: 1, 2: 3, 3: 2, 4: 4}
Family = Mapping[int, Callable[[Tensor, bool], Tensor]]


def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1,
    norm: str | None = "backward", orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the discrete cosine transform along an axis, of SciPy's types 1 to 4.

    The axis is cut, or extended by zeros, to `n` elements. With `norm="ortho"` the transform is
    orthogonal (`orthogonalize` says whether its first and last coefficients are scaled for that).

    >>> pb.fft.dct([1.0, 2.0, 4.0], norm="ortho").numpy().round(3).tolist()
    [4.04..., -2.12..., 0.40...]
    """
    return _cosine_sine_transform("fft.dct", COSINE, x, type, n, axis, norm, orthogonalize, False)


def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1,
    norm: str | None = "backward", orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `dct` along an axis.

    >>> pb.fft.idct(pb.fft.dct([1.0, 2.0, 3.0])).numpy().round(4).tolist()
    [1.0, 2.0, 3.0]
    """
    return _cosine_sine_transform("fft.idct", COSINE, x, type, n, axis, norm, orthogonalize, True)


def dst(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1,
    norm: str | None = "backward", orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the discrete sine transform along an axis, of SciPy's types 1 to 4.

    >>> pb.fft.dst([1.0, 2.0, 4.0]).numpy().round(3).tolist()
    [9.0, -5.19..., 6.0]
    """
    return _cosine_sine_transform("fft.dst", SINE, x, type, n, axis, norm, orthogonalize, False)


def idst(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1,
    norm: str | None = "backward", orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `dst` along an axis.

    >>> pb.fft.idst(pb.fft.dst([1.0, 2.0, 1.0])).numpy().round(4).tolist()
    [1.0, 2.0, 1.0]
    """
    return _cosine_sine_transform("fft.idst", SINE, x, type, n, axis, norm, orthogonalize, True)


def dctn(
    x: ArrayLike, type: int = 2, s: Shape | None = None,
    axes: Sequence[SupportsIndex] | None = None, norm: str | None = "backward",
    orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the discrete cosine transform over several axes, by default over all.

    >>> pb.fft.dctn([[1.0, 2.0], [3.0, 4.0]]).numpy().round(3)[0, 0].item()
    40.0
    """
    return _cosine_sine_transform_over(
        "fft.dctn", COSINE, x, type, s, axes, norm, orthogonalize, False
    )


def idctn(
    x: ArrayLike, type: int = 2, s: Shape | None = None,
    axes: Sequence[SupportsIndex] | None = None, norm: str | None = "backward",
    orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `dctn`.

    >>> pb.fft.idctn(pb.fft.dctn([[1.0, 2.0], [3.0, 4.0]])).numpy().round(4).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _cosine_sine_transform_over(
        "fft.idctn", COSINE, x, type, s, axes, norm, orthogonalize, True
    )


def dstn(
    x: ArrayLike, type: int = 2, s: Shape | None = None,
    axes: Sequence[SupportsIndex] | None = None, norm: str | None = "backward",
    orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the discrete sine transform over several axes, by default over all.

    >>> pb.fft.dstn([[1.0, 2.0], [2.0, 1.0]]).numpy().round(3)[0, 0].item()
    12.0
    """
    return _cosine_sine_transform_over(
        "fft.dstn", SINE, x, type, s, axes, norm, orthogonalize, False
    )


def idstn(
    x: ArrayLike, type: int = 2, s: Shape | None = None,
    axes: Sequence[SupportsIndex] | None = None, norm: str | None = "backward",
    orthogonalize: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the inverse of `dstn`.

    >>> pb.fft.idstn(pb.fft.dstn([[1.0, 2.0], [3.0, 4.0]])).numpy().round(4).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return _cosine_sine_transform_over(
        "fft.idstn", SINE, x, type, s, axes, norm, orthogonalize, True
    )


def _cosine_sine_transform(
    op: str, family: Family, x: ArrayLike, type: int, n: int | None, axis: int, norm: str | None,
    orthogonalize: bool | None, inverse: bool,
) -> Tensor:  # fmt: skip
    a = fft_operand(x)
    place = axis_argument(op, axis, a.ndim)
    sizes = None if n is None else (fft_length(op, n),)
    return _cosine_sine_transform_over(
        op, family, a, type, sizes, (place,), norm, orthogonalize, inverse
    )


def _cosine_sine_transform_over(
    op: str, family: Family, x: ArrayLike, type: int, s: Shape | None,
    axes: Sequence[SupportsIndex] | None, norm: str | None, orthogonalize: bool | None,
    inverse: bool,
) -> Tensor:  # fmt: skip
    a, kind = fft_operand(x), fft_norm(op, norm)
    if not isinstance(type, int) or type not in INVERSE_TYPE:
        raise ArgumentError(f"type must be 1, 2, 3 or 4, got {shown_argument(type)}", op=op)
    orthogonal = kind == "ortho"
    if orthogonalize is not None:
        orthogonal = checked_flag_argument(op, orthogonalize, "orthogonalize")
    if inverse:
        type, kind = INVERSE_TYPE[type], opposite_fft_norm(kind)
    sizes, places = fft_lengths_and_axes(op, a, s, axes)
    for n, axis in zip(sizes, places, strict=True):
        if type == 1 and family is COSINE and n < 2:
            raise ShapeError("type 1 needs at least 2 elements along each axis, got 1", op=op)
        a = _cosine_sine_axis(
            family, resized_to_fft_length(a, axis, n), type, axis, kind, orthogonal
        )
    return a


def _cosine_sine_axis(
    family: Family, x: Tensor, type: int, axis: int, norm: str, orthogonal: bool
) -> Tensor:
    if x.dtype.is_complex:
        parts = (
            _cosine_sine_axis(family, p, type, axis, norm, orthogonal) for p in (real(x), imag(x))
        )
        return complex_of(*parts)
    result = family[type](moveaxis(x, axis, -1), orthogonal)
    # the transform and its inverse, both without a scale, multiply by this number
    size = 2 * (x.shape[axis] + (0 if type != 1 else -1 if family is COSINE else 1))
    if norm != "backward":
        scale = 1 / size if norm == "forward" else 1 / math.sqrt(size)
        result = result * literal_argument(scale, x.dtype)
    return moveaxis(result, -1, axis)


__all__ = ["dct", "dctn", "dst", "dstn", "idct", "idctn", "idst", "idstn"]
