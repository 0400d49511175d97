"""Losses of classifiers: logits or probabilities against class indices or probabilities.

Classes are along `axis`, the last one by default. Losses of 16-bit floats are computed in f32 and
returned in the dtype of the first argument.
"""

from __future__ import annotations

from typing import Literal

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import axis_argument, literal_argument
from pullback.functions.composed import composed
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    Reduction,
    functional_choice_argument,
    functional_float_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.loss_arguments import (
    loss_class_indices,
    loss_operands,
    real_loss_argument,
    reduced_loss,
    weighted_loss,
)
from pullback.special.odds import xlogy
from pullback.typing import ArrayLike


@composed
def cross_entropy(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, ignore_index: int = -100,
    reduction: Reduction = "mean", label_smoothing: float = 0.0, *, axis: int = -1,
) -> Tensor:  # fmt: skip
    """Return the cross entropy of logits with targets: class indices or probabilities.

    Logits are [..., C], or have their classes along another `axis`. Integer targets have the shape
    of the logits without that axis; floats of the same shape as the logits are probabilities.

    - `weight` [C] scales the loss of each class; the mean over integer targets is then weighted
    - integer targets equal to `ignore_index` do not count; other indices out of range are errors
    - `label_smoothing` mixes the targets with the uniform distribution

    >>> pb.nn.functional.cross_entropy([[0.0, 0.0], [9.0, -9.0]], [1, -100]).item()
    0.6931...
    """
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(f"label_smoothing must be from 0 to 1, got {label_smoothing}")
    a = functional_float_argument(x)
    axis = _class_axis(a, axis)
    log_p = pf.log_softmax(widened_functional_argument(a), axis)
    labels = as_tensor(target)
    if labels.dtype.is_inexact and labels.shape == a.shape:
        loss = _class_probability_loss(log_p, labels, weight, label_smoothing, axis, reduction)
    else:
        loss = _class_index_loss(
            log_p, target, weight, ignore_index, reduction, label_smoothing, axis
        )
    return narrowed_to_functional_argument(loss, a.dtype)


@composed
def nll_loss(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, ignore_index: int = -100,
    reduction: Reduction = "mean", *, axis: int = -1,
) -> Tensor:  # fmt: skip
    """Return the negative log likelihood of class indices, from log-probabilities along `axis`.

    The options are those of `cross_entropy`.

    >>> pb.nn.functional.nll_loss([[-0.5, -1.0], [-2.0, -0.25]], [0, 1]).item()
    0.375
    """
    a = functional_float_argument(x)
    axis = _class_axis(a, axis)
    loss = _class_index_loss(
        widened_functional_argument(a), target, weight, ignore_index, reduction, 0.0, axis
    )
    return narrowed_to_functional_argument(loss, a.dtype)


def _class_axis(x: Tensor, axis: int) -> int:
    if not x.ndim:
        raise ShapeError(f"needs classes along an axis, got {x._node.type}")
    return axis_argument("", axis, x.ndim)


def _class_index_loss(
    log_p: Tensor, target: ArrayLike, weight: ArrayLike | None, ignore_index: int, reduction: str,
    smoothing: float, axis: int,
) -> Tensor:  # fmt: skip
    count = log_p.shape[axis]
    labels = as_tensor(target)
    if labels.shape != (*log_p.shape[:axis], *log_p.shape[axis + 1 :]):
        given = f"got {labels._node.type} for {log_p._node.type}"
        hint = "Say axis=1 if classes are dimension 1, as in PyTorch."
        what = f"class indices must have the shape of the logits without axis {axis}"
        raise ShapeError(f"{what}, {given}", hint=hint)
    index, skipped = loss_class_indices(target, count, "a class index", ignore_index)
    scale = _class_weights(weight, count, log_p)
    loss = -pf.squeeze(pf.take_along_axis(log_p, pf.expand_dims(index, axis), axis), axis)
    share = None if scale is None else pf.take(scale, index)
    if share is not None:
        loss = loss * share
    if smoothing:
        others = log_p if scale is None else log_p * _class_weights_along(scale, log_p, axis)
        loss = loss * (1 - smoothing) - pf.sum(others, axis) * (smoothing / count)
    if skipped is not None:
        zero = literal_argument(0, loss.dtype)
        loss = pf.where(skipped, zero, loss)
        share = (~skipped).astype(loss.dtype) if share is None else pf.where(skipped, zero, share)
    if reduction == "mean" and share is not None:
        return pf.sum(loss) / pf.sum(share)
    return reduced_loss(loss, reduction)


def _class_probability_loss(
    log_p: Tensor, target: Tensor, weight: ArrayLike | None, smoothing: float, axis: int,
    reduction: str,
) -> Tensor:  # fmt: skip
    count = log_p.shape[axis]
    p = target.astype(log_p.dtype)
    if smoothing:
        p = p * (1 - smoothing) + smoothing / count
    scale = _class_weights(weight, count, log_p)
    products = p * log_p if scale is None else p * log_p * _class_weights_along(scale, log_p, axis)
    return reduced_loss(-pf.sum(products, axis), reduction)


def _class_weights(weight: ArrayLike | None, count: int, like: Tensor) -> Tensor | None:
    if weight is None:
        return None
    found = real_loss_argument(weight, like, "weight")
    if found.shape != (count,):
        raise ShapeError(f"weight must be [{count}], got {found._node.type}")
    return found


def _class_weights_along(v: Tensor, x: Tensor, axis: int) -> Tensor:
    """A vector in a shape that broadcasts along an axis of x."""
    return pf.reshape(v, (-1, *(1,) * (x.ndim - axis - 1)))


@composed
def binary_cross_entropy(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, reduction: Reduction = "mean"
) -> Tensor:
    """Return the cross entropy of probabilities with targets from 0 to 1.

    Logarithms count as at least -100. Logits go to `binary_cross_entropy_with_logits`.

    >>> pb.nn.functional.binary_cross_entropy([0.5, 1.0], [1.0, 1.0]).item()
    0.3465...
    """
    a, t = loss_operands(x, target)
    p, y = widened_functional_argument(a), widened_functional_argument(t)
    logs = (pf.clip(log, -100.0, None) for log in (pf.log(p), pf.log1p(-p)))
    of_one, of_zero = logs
    loss = weighted_loss(-(y * of_one + (1 - y) * of_zero), weight)
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


@composed
def binary_cross_entropy_with_logits(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None, reduction: Reduction = "mean",
    pos_weight: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return the cross entropy of the sigmoid of logits with targets from 0 to 1.

    `pos_weight` scales the loss of positive targets, `weight` that of all.

    >>> pb.nn.functional.binary_cross_entropy_with_logits([0.0, 200.0], [1.0, 1.0]).item()
    0.3465...
    """
    a, t = loss_operands(x, target)
    z, y = widened_functional_argument(a), widened_functional_argument(t)
    if pos_weight is None:
        loss = pf.softplus(z) - y * z
    else:
        positives = real_loss_argument(pos_weight, z, "pos_weight")
        loss = (1 - y) * pf.softplus(z) + positives * y * pf.softplus(-z)
    return narrowed_to_functional_argument(
        reduced_loss(weighted_loss(loss, weight), reduction), a.dtype
    )


@composed
def kl_div(
    x: ArrayLike, target: ArrayLike,
    reduction: Literal["none", "mean", "sum", "batchmean"] = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Return the Kullback-Leibler divergence `target * (log(target) - x)` of log-probabilities x.

    With `log_target` the targets are log-probabilities, too. "mean" divides by the number of
    elements; "batchmean" divides by the size of the first axis, which gives the divergence itself.

    >>> pb.nn.functional.kl_div(pb.log([[0.5, 0.5]]), [[1.0, 0.0]], "batchmean").item()
    0.6931...
    """
    a, t = loss_operands(x, target)
    log_q, p = widened_functional_argument(a), widened_functional_argument(t)
    loss = pf.exp(p) * (p - log_q) if log_target else xlogy(p, p) - p * log_q
    functional_choice_argument(reduction, ("none", "mean", "sum", "batchmean"), "reduction")
    if reduction == "batchmean":
        if not a.ndim:
            raise ShapeError(f'reduction="batchmean" needs a first axis, got {a._node.type}')
        return narrowed_to_functional_argument(pf.sum(loss) / a.shape[0], a.dtype)
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "kl_div",
    "nll_loss",
]  # fmt: skip
