"""The vector part of L-BFGS: directions from past changes, one program for any number of them."""

from __future__ import annotations

import operator
from functools import cache, reduce
from typing import Any

from pullback.api.loops import scan
from pullback.compiled.compile import compile
from pullback.functions.arithmetic import maximum
from pullback.functions.joining import concat
from pullback.functions.where_take import where
from pullback.lazy.tensor import Tensor

Vectors = list[Tensor]  # a vector, as the list of its parts
_LEAST_CURVATURE = 1e-10  # of a change that is kept


def curvature_dot(a: Vectors, b: Vectors) -> Tensor:
    """Return the real inner product."""
    return _curvature_total([
        (x.conj() * y).real.sum() if x.dtype.is_complex else (x * y).sum()
        for x, y in zip(a, b, strict=True)
    ])  # fmt: skip


def _curvature_total(parts: Vectors, combine: Any = operator.add) -> Tensor:
    """Return the sum of scalars, in the widest of their dtypes."""
    widest = max((x.dtype for x in parts), key=lambda dtype: dtype.bits)
    return reduce(combine, [x.astype(widest) for x in parts])


def curvature_slope(gradient: Vectors, direction: Vectors) -> tuple[Tensor, Tensor]:
    """Return the slope along a direction, and the largest element of the gradient."""
    return curvature_dot(gradient, direction), _largest_curvature(gradient)


def _largest_curvature(x: Vectors) -> Tensor:
    return _curvature_total([part.abs().max(initial=0.0) for part in x], maximum)


def _plus_curvature(a: Vectors, b: Vectors, t: Tensor) -> Vectors:
    return [x + y * t.astype(y.dtype.real) for x, y in zip(a, b, strict=True)]


def _two_loop_curvature(
    gradient: Vectors, steps: Vectors, turns: Vectors, weights: Tensor, scale: Tensor
) -> tuple[Vectors, Tensor, Tensor, Tensor]:
    def backward(q: Vectors, row: Any) -> tuple[Vectors, Tensor]:
        s, y, weight = row
        a = curvature_dot(s, q).astype(weight.dtype) * weight
        return _plus_curvature(q, y, -a), a

    def forward(r: Vectors, row: Any) -> tuple[Vectors, None]:
        s, y, weight, a = row
        return _plus_curvature(r, s, a - curvature_dot(y, r).astype(weight.dtype) * weight), None

    rows = (steps, turns, weights)
    q, factors = scan(backward, gradient, rows, reverse=True)
    r = [x * scale.astype(x.dtype.real) for x in q]
    r, _ = scan(forward, r, (*rows, factors))
    direction = [-x for x in r]
    total = _curvature_total([g.abs().sum() for g in gradient])
    return direction, curvature_dot(gradient, direction), total, _largest_curvature(direction)


def _pushed_curvature(
    moved: Vectors, turned: Vectors, steps: Vectors, turns: Vectors, weights: Tensor, scale: Tensor
) -> tuple[Vectors, Vectors, Tensor, Tensor]:
    product = curvature_dot(moved, turned).astype(weights.dtype)
    square = curvature_dot(turned, turned).astype(weights.dtype)
    keep = product > _LEAST_CURVATURE
    safe = where(keep, product, 1.0)

    def push(rows: Tensor, row: Tensor) -> Tensor:
        return where(keep, concat([rows[1:], row.reshape((1, *row.shape))]), rows)

    return (
        [push(a, b) for a, b in zip(steps, moved, strict=True)],
        [push(a, b) for a, b in zip(turns, turned, strict=True)],
        push(weights, 1.0 / safe),
        where(keep, safe / where(keep, square, 1.0), scale),
    )


@cache
def _compiled_curvature() -> tuple[Any, Any]:
    return compile(_two_loop_curvature), compile(_pushed_curvature)


def curvature_direction(*state: Any) -> tuple[Vectors, Tensor, Tensor, Tensor]:
    """Return the direction of the next step, its slope, and the sizes of gradient and direction."""
    return _compiled_curvature()[0](*state)


def pushed_curvature_pair(*state: Any) -> tuple[Vectors, Vectors, Tensor, Tensor]:
    """Return past changes with one more, if it has positive curvature."""
    return _compiled_curvature()[1](*state)
