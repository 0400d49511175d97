"""Normalisation of activations by their statistics.

Statistics of 16-bit floats are computed in f32. Results have the dtype of x.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    axis_slice_argument,
    checked_integer_argument,
    shape_argument,
)
from pullback.functions.composed import composed
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    Layout,
    functional_float_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.image_layouts import channel_axis_of_layout
from pullback.typing import ArrayLike, Shape


class BatchNormResult(NamedTuple):
    """What `batch_norm_train` returns."""

    output: Tensor
    running_mean: Tensor
    running_var: Tensor


@composed
def batch_norm(
    x: ArrayLike, running_mean: ArrayLike | None = None, running_var: ArrayLike | None = None,
    weight: ArrayLike | None = None, bias: ArrayLike | None = None, training: bool = False,
    *, eps: float = 1e-5, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Normalise each channel of [N, ..., C], then scale it by `weight` and add `bias`.

    The mean and variance are `running_mean` and `running_var`, or with `training=True` those of the
    batch. Tensors are not written to: `batch_norm_train` returns the new running statistics.

    >>> x = pb.tensor([[1.0, 4.0], [3.0, 8.0]])
    >>> pb.nn.functional.batch_norm(x, training=True, eps=0.0).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    a = functional_float_argument(x)
    axis = channel_axis_of_layout(a, layout)
    if training:
        center, spread = _batch_norm_statistics(a, axis)
    elif running_mean is None or running_var is None:
        hint = "Pass running_mean and running_var, or training=True for those of the batch."
        raise ArgumentError("there are no running statistics", hint=hint)
    else:
        center, spread = (
            _norm_per_channel(v, a, axis, what)
            for v, what in ((running_mean, "running_mean"), (running_var, "running_var"))
        )
    return _norm_standardised(a, center, spread, eps, weight, bias, axis)


@composed
def batch_norm_train(
    x: ArrayLike, running_mean: ArrayLike, running_var: ArrayLike, weight: ArrayLike | None = None,
    bias: ArrayLike | None = None, momentum: float = 0.1, eps: float = 1e-5, *,
    layout: Layout = "NHWC",
) -> BatchNormResult:  # fmt: skip
    """Return `batch_norm` with the statistics of the batch, and the new running statistics.

    They are `(1 - momentum) * old + momentum * batch`, where the variance of the batch is the
    unbiased one. No gradient flows through them.

    >>> x = pb.tensor([[1.0], [3.0]])
    >>> found = pb.nn.functional.batch_norm_train(x, [0.0], [1.0], momentum=0.5)
    >>> found.running_mean.tolist(), found.running_var.tolist()
    ([1.0], [1.5])
    """
    a = functional_float_argument(x)
    axis = channel_axis_of_layout(a, layout)
    center, spread = _batch_norm_statistics(a, axis)
    output = _norm_standardised(a, center, spread, eps, weight, bias, axis)
    count = a.size // a.shape[axis] if a.shape[axis] else 0
    if count < 2:
        raise ShapeError(f"needs more than one element for each channel, got {a._node.type}")
    unbiased = spread.detach() * (count / (count - 1))
    new = []
    for old, batch in ((running_mean, center.detach()), (running_var, unbiased)):
        kept = functional_float_argument(old)
        if kept.shape != (a.shape[axis],) or kept.dtype.is_complex:
            what = f"running statistics must be real and [{a.shape[axis]}]"
            raise ShapeError(f"{what}, got {kept._node.type}")
        moved = pf.reshape(batch, (-1,)).astype(kept.dtype)
        new.append(kept.detach() * (1 - momentum) + moved * momentum)
    return BatchNormResult(output, *new)


@composed
def layer_norm(
    x: ArrayLike, normalized_shape: Shape, weight: ArrayLike | None = None,
    bias: ArrayLike | None = None, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalise over the last dimensions, whose sizes are `normalized_shape`; scale and shift.

    `weight` and `bias` have that shape.

    >>> pb.nn.functional.layer_norm([1.0, 3.0], 2, eps=0.0).tolist()
    [-1.0, 1.0]
    """
    a = functional_float_argument(x)
    axes = _functional_norm_axes(a, normalized_shape)
    wide = widened_functional_argument(a)
    center = pf.mean(wide, axes, keepdims=True)
    spread = pf.var(wide, axes, keepdims=True, mean=center)
    y = (wide - center) * pf.rsqrt(spread + eps)
    _check_norm_affine(y.shape[axes[0] :], weight=weight, bias=bias)
    return narrowed_to_functional_argument(_norm_scaled_and_shifted(y, weight, bias), a.dtype)


def _check_norm_affine(shape: tuple[int, ...], **given: ArrayLike | None) -> None:
    """Raise unless a weight and a bias have the normalised shape."""
    for what, value in given.items():
        if value is not None and as_tensor(value).shape != shape:
            found = as_tensor(value)._node.type
            raise ShapeError(f"{what} must have shape {list(shape)}, got {found}")


@composed
def rms_norm(
    x: ArrayLike, normalized_shape: Shape, weight: ArrayLike | None = None,
    eps: float | None = None,
) -> Tensor:  # fmt: skip
    """Divide by the root of the mean square over the last dimensions; scale by `weight`.

    `eps` is added to the mean square; by default it is the distance from 1 to the next float.

    >>> pb.nn.functional.rms_norm([1.0, 7.0], 2).tolist()
    [0.2000..., 1.3999...]
    """
    a = functional_float_argument(x)
    axes = _functional_norm_axes(a, normalized_shape)
    wide = widened_functional_argument(a)
    tiny = float(pf.finfo(a.dtype).eps) if eps is None else eps
    y = wide * pf.rsqrt(pf.mean(pf.square(wide), axes, keepdims=True) + tiny)
    _check_norm_affine(y.shape[axes[0] :], weight=weight)
    return narrowed_to_functional_argument(_norm_scaled_and_shifted(y, weight, None), a.dtype)


@composed
def group_norm(
    x: ArrayLike, num_groups: int, weight: ArrayLike | None = None,
    bias: ArrayLike | None = None, eps: float = 1e-5, *, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Normalise groups of neighbouring channels of each example; scale and shift each channel.

    >>> pb.nn.functional.group_norm([[1.0, 3.0, 8.0, 4.0]], 2, eps=0.0).tolist()
    [[-1.0, 1.0, 1.0, -1.0]]
    """
    a = functional_float_argument(x)
    axis = channel_axis_of_layout(a, layout)
    count = checked_integer_argument("", num_groups, "num_groups")
    channels = a.shape[axis]
    if count < 1 or channels % count:
        raise ArgumentError(f"num_groups must divide the {channels} channels, got {count}")
    grouped = (*a.shape[:axis], count, channels // count, *a.shape[axis + 1 :])
    wide = pf.reshape(widened_functional_argument(a), grouped)
    axes = tuple(i for i in range(1, wide.ndim) if i != axis)
    center = pf.mean(wide, axes, keepdims=True)
    spread = pf.var(wide, axes, keepdims=True, mean=center)
    y = pf.reshape((wide - center) * pf.rsqrt(spread + eps), a.shape)
    return narrowed_to_functional_argument(_norm_scaled_channels(y, weight, bias, axis), a.dtype)


@composed
def instance_norm(
    x: ArrayLike, running_mean: ArrayLike | None = None, running_var: ArrayLike | None = None,
    weight: ArrayLike | None = None, bias: ArrayLike | None = None, use_input_stats: bool = True,
    *, eps: float = 1e-5, layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Normalise each channel of each example over its spatial dimensions; scale and shift it.

    With `use_input_stats=False`, the statistics are `running_mean` and `running_var`.

    >>> pb.nn.functional.instance_norm([[[1.0], [3.0]]], eps=0.0).tolist()
    [[[-1.0], [1.0]]]
    """
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps, layout=layout)
    a = functional_float_argument(x)
    axis = channel_axis_of_layout(a, layout)
    axes = tuple(i for i in range(1, a.ndim) if i != axis)
    if math.prod(a.shape[i] for i in axes) < 2:
        raise ShapeError(f"needs more than one spatial element, got {a._node.type}")
    center, spread = _norm_mean_and_variance(a, axes)
    return _norm_standardised(a, center, spread, eps, weight, bias, axis)


@composed
def local_response_norm(
    x: ArrayLike, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0, *,
    layout: Layout = "NHWC",
) -> Tensor:  # fmt: skip
    """Divide by `(k + alpha * m) ** beta`, where m is the mean square of `size` channels around.

    Channels that are missing at the ends count as zeros.

    >>> pb.nn.functional.local_response_norm([[2.0, 0.0]], 1, alpha=1.0, beta=1.0).tolist()
    [[0.4..., 0.0]]
    """
    a = functional_float_argument(x)
    axis = channel_axis_of_layout(a, layout)
    count = checked_integer_argument("", size, "size")
    if count < 1:
        raise ArgumentError(f"size must be at least 1, got {count}")
    squares = pf.pad(
        pf.square(widened_functional_argument(a)), {axis: (count // 2, (count - 1) // 2)}
    )
    n = a.shape[axis]
    total = squares[axis_slice_argument(axis, slice(0, n))]
    for i in range(1, count):
        total = total + squares[axis_slice_argument(axis, slice(i, i + n))]
    return narrowed_to_functional_argument(
        widened_functional_argument(a) / (total * (alpha / count) + k) ** beta, a.dtype
    )


def _batch_norm_statistics(a: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The mean and variance of each channel, with reduced axes kept."""
    return _norm_mean_and_variance(a, tuple(i for i in range(a.ndim) if i != axis))


def _norm_mean_and_variance(a: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    wide = widened_functional_argument(a)
    center = pf.mean(wide, axes, keepdims=True)
    return center, pf.var(wide, axes, keepdims=True, mean=center)


def _norm_standardised(
    a: Tensor, center: Tensor, spread: Tensor, eps: float, weight: ArrayLike | None,
    bias: ArrayLike | None, axis: int,
) -> Tensor:  # fmt: skip
    y = (widened_functional_argument(a) - center) * pf.rsqrt(spread + eps)
    return narrowed_to_functional_argument(_norm_scaled_channels(y, weight, bias, axis), a.dtype)


def _norm_scaled_channels(
    y: Tensor, weight: ArrayLike | None, bias: ArrayLike | None, axis: int
) -> Tensor:
    w = None if weight is None else _norm_per_channel(weight, y, axis, "weight")
    b = None if bias is None else _norm_per_channel(bias, y, axis, "bias")
    return _norm_scaled_and_shifted(y, w, b)


def _norm_scaled_and_shifted(y: Tensor, weight: ArrayLike | None, bias: ArrayLike | None) -> Tensor:
    if weight is not None:
        y = y * as_tensor(weight)
    return y if bias is None else y + as_tensor(bias)


def _norm_per_channel(v: ArrayLike, x: Tensor, axis: int, what: str) -> Tensor:
    """A vector with a number for each channel, in a shape that broadcasts with x."""
    found = functional_float_argument(v)
    if found.shape != (x.shape[axis],):
        raise ShapeError(f"{what} must be [{x.shape[axis]}], got {found._node.type}")
    return pf.reshape(found, (-1, *(1,) * (x.ndim - axis - 1)))


def _functional_norm_axes(x: Tensor, shape: Shape) -> tuple[int, ...]:
    sizes = shape_argument("", shape)
    if not sizes or x.shape[-len(sizes) :] != sizes:
        last = f"the last dimensions of {x._node.type}"
        raise ShapeError(f"normalized_shape must be {last}, got {list(sizes)}")
    return tuple(range(x.ndim - len(sizes), x.ndim))


__all__ = [
    "BatchNormResult", "batch_norm", "batch_norm_train", "group_norm", "instance_norm",
    "layer_norm", "local_response_norm", "rms_norm",
]  # fmt: skip
