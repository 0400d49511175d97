"""Weighted means."""

from __future__ import annotations

from pullback.errors import ShapeError
from pullback.functions import reductions
from pullback.functions.arguments import (
    Tensor,
    as_tensor,
    axes_argument,
    float_arguments,
    float_node,
    ordered_axes_argument,
)
from pullback.functions.composed import composed
from pullback.functions.shape import permute_dims, reshaped_to, spread_to_shape
from pullback.functions.statistics import mean
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, Axis


@composed
def average(
    x: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False,
    *, keepdims: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Return the weighted mean over axes; with `returned`, also the sum of the weights.

    Weights have the shape of `x`, or the sizes of the given axes.

    >>> pb.average([1.0, 2.0, 3.0], weights=[3, 2, 1]).item()
    1.6666...
    """
    if weights is None:
        a = wrap(float_node(x))
        result = mean(a, axis=axis, keepdims=keepdims)
        count = a.size / max(result.size, 1) if a.size else 0.0
        return (
            (result, spread_to_shape(as_tensor(count).astype(result.dtype), result.shape))
            if returned
            else result
        )
    a, w = map(wrap, float_arguments(x, weights))
    axes = axes_argument("average", axis, a.ndim)
    w = weights_along("average", w, a.shape, axis)
    total = reductions.sum(spread_to_shape(w, a.shape), axis=axes, keepdims=keepdims)
    result = reductions.sum(a * w, axis=axes, keepdims=keepdims) / total
    return (result, total) if returned else result


def weights_along(op: str, w: Tensor, shape: tuple[int, ...], axis: Axis) -> Tensor:
    """Weights of `shape`, or of its sizes along axes in their order, in a shape that broadcasts."""
    if w.shape == shape:
        return w
    if axis is None:
        message = f"weights must have the shape {list(shape)}, got {list(w.shape)}; or give an axis"
        raise ShapeError(message, op=op)
    axes = ordered_axes_argument(op, axis, len(shape))
    if w.shape != tuple(shape[i] for i in axes):
        sizes = [shape[i] for i in axes]
        message = f"weights must have the shape {list(shape)} or {sizes}, got {list(w.shape)}"
        raise ShapeError(message, op=op)
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    return reshaped_to(
        permute_dims(w, order), tuple(n if i in axes else 1 for i, n in enumerate(shape))
    )


__all__ = ["average"]
