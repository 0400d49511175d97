"""Losses of regressions: numbers against numbers of the same shape."""

from __future__ import annotations

import math

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.composed import composed
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    Reduction,
    functional_choice_argument,
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.loss_arguments import (
    loss_operands,
    real_loss_argument,
    reduced_loss,
    weighted_loss,
)
from pullback.typing import ArrayLike


@composed
def mse_loss(
    x: ArrayLike, target: ArrayLike, reduction: Reduction = "mean", weight: ArrayLike | None = None
) -> Tensor:
    """Return the squared differences; "mean" with `weight` is their weighted mean.

    >>> pb.nn.functional.mse_loss([1.0, 2.0], [1.0, 5.0]).item()
    4.5
    """
    a, t = loss_operands(x, target)
    return _difference_loss(
        a,
        pf.square(widened_functional_argument(a) - widened_functional_argument(t)),
        reduction,
        weight,
    )


@composed
def l1_loss(
    x: ArrayLike, target: ArrayLike, reduction: Reduction = "mean", weight: ArrayLike | None = None
) -> Tensor:
    """Return the absolute differences; "mean" with `weight` is their weighted mean.

    >>> pb.nn.functional.l1_loss([1.0, 2.0], [1.0, 5.0]).item()
    1.5
    """
    a, t = loss_operands(x, target)
    return _difference_loss(
        a,
        pf.abs(widened_functional_argument(a) - widened_functional_argument(t)),
        reduction,
        weight,
    )


@composed
def smooth_l1_loss(
    x: ArrayLike, target: ArrayLike, reduction: Reduction = "mean", beta: float = 1.0
) -> Tensor:
    """Return d**2 / (2 * beta) for differences d below `beta`, |d| - beta / 2 for others.

    >>> pb.nn.functional.smooth_l1_loss([0.5, 3.0], [0.0, 0.0], "none").tolist()
    [0.125, 2.5]
    """
    a, t = loss_operands(x, target)
    if beta < 0:
        raise ArgumentError(f"beta must not be negative, got {beta}")
    if beta == 0:
        return l1_loss(a, t, reduction)
    return _difference_loss(
        a,
        _huber_regression(widened_functional_argument(a) - widened_functional_argument(t), beta)
        / beta,
        reduction,
        None,
    )


@composed
def huber_loss(
    x: ArrayLike, target: ArrayLike, reduction: Reduction = "mean", delta: float = 1.0,
    weight: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return d**2 / 2 for differences d up to `delta`, delta * (|d| - delta / 2) for others.

    >>> pb.nn.functional.huber_loss([0.5, 3.0], [0.0, 0.0], "none", 2.0).tolist()
    [0.125, 4.0]
    """
    a, t = loss_operands(x, target)
    if delta <= 0:
        raise ArgumentError(f"delta must be positive, got {delta}")
    return _difference_loss(
        a,
        _huber_regression(widened_functional_argument(a) - widened_functional_argument(t), delta),
        reduction,
        weight,
    )


def _huber_regression(d: Tensor, delta: float) -> Tensor:
    size = pf.abs(d)
    return pf.where(size < delta, pf.square(d) / 2, (size - delta / 2) * delta)


def _difference_loss(x: Tensor, loss: Tensor, reduction: str, weight: ArrayLike | None) -> Tensor:
    functional_choice_argument(reduction, ("none", "mean", "sum"), "reduction")
    result = reduced_loss(weighted_loss(loss, weight), reduction)
    if weight is not None and reduction == "mean":
        share = pf.broadcast_to(real_loss_argument(weight, loss, "weight"), loss.shape)
        result = result / pf.mean(share)
    return narrowed_to_functional_argument(result, x.dtype)


@composed
def poisson_nll_loss(
    x: ArrayLike, target: ArrayLike, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return the negative log likelihood of counts under Poisson distributions with rate exp(x).

    With `log_input=False` the rate is x. `full` adds Stirling's approximation of the term that
    depends on the target alone, where that is greater than 1.

    >>> pb.nn.functional.poisson_nll_loss([0.0, 0.0], [0.0, 2.0], reduction="none").tolist()
    [1.0, 1.0]
    """
    a, t = loss_operands(x, target)
    z, y = widened_functional_argument(a), widened_functional_argument(t)
    loss = pf.exp(z) - y * z if log_input else z - y * pf.log(z + eps)
    if full:
        large = pf.where(y > 1, y, 1)
        more = large * pf.log(large) - large + pf.log(large * (2 * math.pi)) / 2
        loss = loss + pf.where(y > 1, more, 0)
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


@composed
def gaussian_nll_loss(
    x: ArrayLike, target: ArrayLike, var: ArrayLike, full: bool = False, eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return the negative log likelihood of targets under normal distributions with mean x.

    The variance `var` broadcasts with x, or lacks its last axis. It counts as at least `eps`, and
    its gradient is as if it did not. `full` adds the constant log(2 pi) / 2.

    >>> pb.nn.functional.gaussian_nll_loss([1.0], [3.0], [1.0]).item()
    2.0
    """
    a, t = loss_operands(x, target)
    v = widened_functional_argument(real_loss_argument(var, a, "var"))
    if v.shape != a.shape and v.shape == a.shape[:-1]:
        v = pf.expand_dims(v, -1)
    if v.ndim > a.ndim or any(m not in (1, n) for m, n in zip(v.shape[::-1], a.shape[::-1])):
        raise ShapeError(f"var must broadcast with {a._node.type}, got {v._node.type}")
    if eps <= 0:
        raise ArgumentError(f"eps must be positive, got {eps}")
    v = v + (pf.clip(v, eps, None) - v).detach()
    loss = (
        pf.log(v) + pf.square(widened_functional_argument(a) - widened_functional_argument(t)) / v
    ) / 2
    if full:
        loss = loss + math.log(2 * math.pi) / 2
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


__all__ = [
    "gaussian_nll_loss", "huber_loss", "l1_loss", "mse_loss", "poisson_nll_loss", "smooth_l1_loss",
]  # fmt: skip
