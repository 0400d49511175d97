"""Covariances and correlation coefficients."""

from __future__ import annotations

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import reductions
from pullback.functions.arguments import Tensor, as_tensor, float_node, operator_operands
from pullback.functions.complex_parts import complex, conj, imag, real
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.diagonals import diagonal
from pullback.functions.joining import concat
from pullback.functions.products import matmul
from pullback.functions.shape import reshaped_to
from pullback.functions.statistics import mean
from pullback.functions.where_take import where
from pullback.graph.argument_checks import checked_integer_argument
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, DTypeLike


@composed
def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False,
    ddof: int | None = None, fweights: ArrayLike | None = None, aweights: ArrayLike | None = None,
    *, dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the covariance matrix of variables, which are rows (columns if not `rowvar`).

    The sums are divided by the number of observations less `ddof`: 1, or 0 with `bias`. Counts of
    observations are `fweights`, other weights `aweights`. `y` has more variables.

    >>> pb.cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if ddof is not None:
        checked_integer_argument("cov", ddof, "ddof")
    if y is not None:
        m, y = map(wrap, operator_operands(as_tensor(m), as_tensor(y)))
    x = _covariance_variables("cov", m, rowvar, dtype)
    if y is not None:
        x = concat([x, _covariance_variables("cov", y, rowvar, dtype)])
    w = _covariance_weights(x, fweights, aweights)
    less = (0 if bias else 1) if ddof is None else ddof
    if w is None:
        center, left = mean(x, axis=1, keepdims=True), as_tensor(x.shape[1] - less)
        weighted = x - center
    else:
        total = reductions.sum(w)
        center = reductions.sum(x * w, axis=1, keepdims=True) / total
        weighted = (x - center) * w
        spread_of = total if aweights is None else reductions.sum(w * astype(aweights, w.dtype))
        left = total - less * spread_of / total if less else total
    left = astype(left, x.dtype.real).clip(0)
    made = matmul(x - center, conj(weighted.mT)) / left
    return made[0, 0] if made.shape == (1, 1) else made


def _covariance_variables(op: str, m: ArrayLike, rowvar: bool, dtype: DTypeLike | None) -> Tensor:
    """Observations as floats, with a variable in each row."""
    x = wrap(float_node(m)) if dtype is None else astype(m, dtype)
    if x.ndim > 2:
        message = f"needs rank 2 or less, got {x._node.type}"
        raise ShapeError(message, op=op, code="E3002")
    if x.ndim < 2:
        return reshaped_to(x, (1, x.size))
    return x if rowvar or x.shape[0] == 1 else x.mT


def _covariance_weights(
    x: Tensor, fweights: ArrayLike | None, aweights: ArrayLike | None
) -> Tensor | None:
    w = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        found = as_tensor(given)
        if found.shape != x.shape[1:]:
            message = f"{name} must have the shape {list(x.shape[1:])}, got {list(found.shape)}"
            raise ShapeError(message, op="cov")
        if name == "fweights" and not found.dtype.is_integer:
            raise ArgumentError(f"fweights must be integers, got {found._node.type}", op="cov")
        found = astype(found, x.dtype.real)
        w = found if w is None else w * found
    return w


@composed
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True,
    *, dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the matrix of Pearson's correlation coefficients of variables, which are rows
    (columns if not `rowvar`); `y` has more variables.

    >>> pb.corrcoef([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    deviations = real(diagonal(c)).sqrt()
    c = c / deviations[:, None] / deviations[None, :]
    if not c.dtype.is_complex:
        return _correlation_within_one(c)
    return complex(_correlation_within_one(real(c)), _correlation_within_one(imag(c)))


def _correlation_within_one(c: Tensor) -> Tensor:
    """Coefficients without what rounding adds beyond 1; gradients are those before."""
    return where(c > 1, 1 + (c - c), where(c < -1, (c - c) - 1, c))


__all__ = ["corrcoef", "cov"]
