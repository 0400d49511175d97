"""Losses that are 0 once scores or distances are apart by a margin."""

from __future__ import annotations

from pullback import functions as pf
from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions import cosine_similarity, normalize, pairwise_distance
from pullback.functions.arguments import float_arguments, literal_argument
from pullback.functions.composed import composed
from pullback.graph.dtypes import int64
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.arguments import (
    Reduction,
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
from pullback.typing import ArrayLike


@composed
def cosine_embedding_loss(
    x1: ArrayLike, x2: ArrayLike, target: ArrayLike, margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return 1 - cos for pairs of vectors [..., d] with target 1, max(0, cos - margin) with -1.

    >>> pb.nn.functional.cosine_embedding_loss([[1.0, 0.0]], [[0.0, 2.0]], [1]).item()
    1.0
    """
    a, b = loss_operands(x1, x2)
    cos = cosine_similarity(widened_functional_argument(a), widened_functional_argument(b))
    t = _margin_signs(target, cos)
    zero = literal_argument(0, cos.dtype)
    loss = pf.where(t == 1, 1 - cos, pf.where(t == -1, pf.relu(cos - margin), zero))
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


@composed
def triplet_margin_loss(
    anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, margin: float = 1.0,
    p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return max(0, d(anchor, positive) - d(anchor, negative) + margin) for vectors [..., d].

    The distance is `pb.pairwise_distance`. With `swap`, the distance of the negative is that to
    the anchor or the positive, whichever is less.

    >>> pb.nn.functional.triplet_margin_loss([[0.0]], [[3.0]], [[1.0]], eps=0.0).item()
    3.0
    """
    points = loss_operands(anchor, positive, negative)
    a, near, far = map(widened_functional_argument, points)
    if margin <= 0:
        raise ArgumentError(f"margin must be positive, got {margin}")
    good, bad = pairwise_distance(a, near, p, eps), pairwise_distance(a, far, p, eps)
    if swap:
        bad = pf.minimum(bad, pairwise_distance(near, far, p, eps))
    return narrowed_to_functional_argument(
        reduced_loss(pf.relu(good - bad + margin), reduction), points[0].dtype
    )


@composed
def margin_ranking_loss(
    x1: ArrayLike, x2: ArrayLike, target: ArrayLike, margin: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return max(0, -target * (x1 - x2) + margin): target 1 if x1 should be greater, -1 if less.

    >>> pb.nn.functional.margin_ranking_loss([1.0, 1.0], [3.0, 3.0], [1, -1]).item()
    1.0
    """
    a, b = loss_operands(x1, x2)
    t = _margin_signs(target, a)
    loss = pf.relu(margin - t * (widened_functional_argument(a) - widened_functional_argument(b)))
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


@composed
def hinge_embedding_loss(
    x: ArrayLike, target: ArrayLike, margin: float = 1.0, reduction: Reduction = "mean"
) -> Tensor:
    """Return x where the target is 1, max(0, margin - x) where it is -1.

    >>> pb.nn.functional.hinge_embedding_loss([0.25, 0.25], [1, -1], reduction="none").tolist()
    [0.25, 0.75]
    """
    a = functional_float_argument(x)
    t = _margin_signs(target, a)
    zero = literal_argument(0, a.dtype)
    loss = pf.where(t == 1, a, pf.where(t == -1, pf.relu(margin - a), zero))
    return narrowed_to_functional_argument(
        reduced_loss(widened_functional_argument(loss), reduction), a.dtype
    )


@composed
def soft_margin_loss(x: ArrayLike, target: ArrayLike, reduction: Reduction = "mean") -> Tensor:
    """Return log(1 + exp(-target * x)) for targets 1 and -1.

    >>> pb.nn.functional.soft_margin_loss([0.0, 500.0], [1, -1], reduction="none").tolist()
    [0.693..., 500.0]
    """
    a = functional_float_argument(x)
    t = _margin_signs(target, a)
    return narrowed_to_functional_argument(
        reduced_loss(pf.softplus(-t * widened_functional_argument(a)), reduction), a.dtype
    )


def _margin_signs(target: ArrayLike, like: Tensor) -> Tensor:
    """Targets 1 and -1 as floats."""
    t = as_tensor(target)
    if t.shape != like.shape:
        raise ShapeError(f"target must have shape {list(like.shape)}, got {t._node.type}")
    return widened_functional_argument(t.astype(like.dtype))


@composed
def multi_margin_loss(
    x: ArrayLike, target: ArrayLike, p: int = 1, margin: float = 1.0,
    weight: ArrayLike | None = None, reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return the mean over classes of max(0, margin - x[target] + x[i])**p, without i = target.

    Scores are [..., C], targets class indices [...], and `weight` [C] scales each target's loss.

    >>> pb.nn.functional.multi_margin_loss([[1.0, 0.5, 3.0]], [2]).item()
    0.0
    """
    a = functional_float_argument(x)
    if p not in (1, 2):
        raise ArgumentError(f"p must be 1 or 2, got {p}")
    index = _margin_targets(a, target, a.shape[:-1])
    z, count = widened_functional_argument(a), a.shape[-1]
    own = pf.take_along_axis(z, pf.expand_dims(index, -1), -1)
    gaps = pf.relu(margin - own + z)
    gaps = gaps if p == 1 else pf.square(gaps)
    if weight is not None:
        scale = real_loss_argument(weight, z, "weight")
        if scale.shape != (count,):
            raise ShapeError(f"weight must be [{count}], got {scale._node.type}")
        gaps = gaps * pf.expand_dims(pf.take(scale, index), -1)
    others = pf.arange(count) != pf.expand_dims(index, -1)
    loss = pf.sum(pf.where(others, gaps, literal_argument(0, z.dtype)), -1) / count
    return narrowed_to_functional_argument(reduced_loss(loss, reduction), a.dtype)


@composed
def multilabel_margin_loss(
    x: ArrayLike, target: ArrayLike, reduction: Reduction = "mean"
) -> Tensor:
    """Return the sum over targets j and other classes i of max(0, 1 - x[j] + x[i]), over C.

    Scores and targets are [..., C]; the targets are class indices up to the first -1.

    >>> pb.nn.functional.multilabel_margin_loss([[0.0, 2.0]], [[1, -1]]).item()
    0.0
    """
    a, t = functional_float_argument(x), as_tensor(target)
    if t.shape != a.shape or not a.ndim:
        given = f"got {a._node.type} and {t._node.type}"
        raise ShapeError(f"scores and targets must both be [..., C], {given}")
    if not t.dtype.is_integer:
        raise DTypeError(f"a class index must be an integer, got {t._node.type}")
    count, z = a.shape[-1], widened_functional_argument(a)
    listed = pf.cumulative_prod((t >= 0).astype(int64), axis=-1) == 1
    index, _ = loss_class_indices(pf.where(listed, t, 0), count)
    is_class = pf.expand_dims(index, -1) == pf.arange(count)
    wanted = pf.any(is_class & pf.expand_dims(listed, -1), axis=-2)
    own = pf.expand_dims(pf.take_along_axis(z, index, -1), -1)
    counted = pf.expand_dims(listed, -1) & ~pf.expand_dims(wanted, -2)
    gaps = pf.where(counted, pf.relu(1 - own + pf.expand_dims(z, -2)), literal_argument(0, z.dtype))
    return narrowed_to_functional_argument(
        reduced_loss(pf.sum(gaps, (-2, -1)) / count, reduction), a.dtype
    )


@composed
def multilabel_soft_margin_loss(
    x: ArrayLike, target: ArrayLike, weight: ArrayLike | None = None,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return the mean over the last axis of the cross entropy of logits with targets 0 and 1.

    >>> pb.nn.functional.multilabel_soft_margin_loss([[0.0, 0.0]], [[1, 0]]).item()
    0.6931...
    """
    a, t = loss_operands(x, wrap(float_arguments(target, functional_float_argument(x))[0]))
    z, y = widened_functional_argument(a), widened_functional_argument(t)
    loss = weighted_loss(pf.softplus(z) - y * z, weight)
    return narrowed_to_functional_argument(reduced_loss(pf.mean(loss, -1), reduction), a.dtype)


def _margin_targets(x: Tensor, target: ArrayLike, shape: tuple[int, ...]) -> Tensor:
    if not x.ndim or as_tensor(target).shape != shape:
        given = f"got {x._node.type} and {as_tensor(target)._node.type}"
        raise ShapeError(f"needs scores [..., C] and class indices [...], {given}")
    return loss_class_indices(target, x.shape[-1])[0]


__all__ = [
    "cosine_embedding_loss", "cosine_similarity", "hinge_embedding_loss", "margin_ranking_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "normalize",
    "pairwise_distance", "soft_margin_loss", "triplet_margin_loss",
]  # fmt: skip
