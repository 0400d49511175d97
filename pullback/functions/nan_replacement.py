"""Numbers in place of NaN and infinities."""

from __future__ import annotations

from pullback.functions.arguments import Tensor, as_tensor, fresh_argument
from pullback.functions.comparisons import isinf, isnan, signbit
from pullback.functions.complex_parts import complex, imag, real
from pullback.functions.composed import composed
from pullback.functions.data_types import astype, finfo
from pullback.functions.where_take import where
from pullback.typing import ArrayLike


@composed
def nan_to_num(
    x: ArrayLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN by 0 or `nan`, and infinities by the largest finite numbers, `posinf` or
    `neginf`. What is replaced gets no gradient.

    >>> pb.nan_to_num([1.0, pb.nan, -pb.inf], neginf=-9.0).tolist()
    [1.0, 0.0, -9.0]
    """
    x = as_tensor(x)
    if not x.dtype.is_inexact:
        return fresh_argument(x)
    if x.dtype.is_complex:
        parts = [nan_to_num(part, nan, posinf, neginf) for part in (real(x), imag(x))]
        return complex(*parts)
    limits = finfo(x.dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    finite = where(
        isinf(x), where(signbit(x), _nan_replacement(low, x), _nan_replacement(high, x)), x
    )
    return where(isnan(x), _nan_replacement(nan, x), finite)


def _nan_replacement(value: ArrayLike, x: Tensor) -> Tensor:
    """A number or tensor in the dtype of `x`."""
    return astype(value, x.dtype)


__all__ = ["nan_to_num"]
