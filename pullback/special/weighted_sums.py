"""Sums of exponentials, with weights, and what is normalized by them."""

from __future__ import annotations

import math

from pullback.functions import activations
from pullback.functions.arguments import (
    Tensor,
    apply,
    axes_argument,
    float_arguments,
    literal_argument,
)
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.guarded import MulNoNan
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.elementwise.select import Where
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.shape.movement import Broadcast
from pullback.ops.shape.squeeze_flip_axes import Squeeze
from pullback.ops.wrap.identity import StopGradient
from pullback.typing import ArrayLike, Axis


@with_argument_checks
def logsumexp(
    a: ArrayLike, axis: Axis = None, b: ArrayLike | None = None, keepdims: bool = False,
    return_sign: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Return log(sum(b * exp(a))) over axes, without overflow.

    The weights `b` broadcast with `a`; where a weight is 0, the exponent does not matter. If the
    sum is negative the result is NaN, or with `return_sign` the logarithm of its absolute value,
    followed by the sign.

    >>> round(pb.special.logsumexp([1000.0, 1000.0], b=[1.0, 2.0]).item(), 3)
    1001.099
    >>> [t.item() for t in pb.special.logsumexp([0.0, 0.0], b=[1.0, -2.0], return_sign=True)]
    [0.0, -1.0]
    """
    if b is None and not return_sign:
        return activations.logsumexp(a, axis, keepdims)
    x, weights = map(wrap, float_arguments(a, 1.0 if b is None else b))
    product = x + weights * literal_argument(0, x.dtype)  # of the shape that both broadcast to
    x, weights = (_weighted_sum_broadcast(v, product.shape) for v in (x, weights))
    axes = axes_argument("special.logsumexp", axis, x.ndim)
    top = _weighted_shift(x, weights, axes)
    terms = apply(MulNoNan, node_of(weights), apply(Exp, node_of(x - top))._node)
    total = record(Sum(axes, True), (terms._node,))
    if return_sign:
        results = [apply(Log, node_of(abs(total))) + top, apply("Sign", total._node)]
    else:
        results = [apply(Log, total._node) + top]
    if not keepdims:
        results = [record(Squeeze(axes), (r._node,)) for r in results]
    return (results[0], results[1]) if return_sign else results[0]


def _weighted_sum_broadcast(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else record(Broadcast(shape), (node_of(x),))


def _weighted_shift(x: Tensor, weights: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element with a weight, as a constant of derivatives; 0 where it is infinite."""
    zero = literal_argument(0, x.dtype)
    if any(x.shape[i] == 0 for i in axes):
        return zero
    counted = apply(
        Where, (weights == zero)._node, literal_argument(-math.inf, x.dtype)._node, node_of(x)
    )
    top = apply(StopGradient, record(Max(axes, True), (counted._node,))._node)
    return apply(Where, apply(IsFinite, top._node)._node, top._node, zero._node)


def softmax(x: ArrayLike, axis: Axis = None) -> Tensor:
    """Return exp(x) divided by its sum over axes, by default over all.

    >>> pb.special.softmax([[0.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    return activations.softmax(x, axis)


def log_softmax(x: ArrayLike, axis: Axis = None) -> Tensor:
    """Return the logarithm of the softmax over axes, by default over all.

    >>> pb.special.log_softmax([1000.0, -1000.0]).tolist()
    [0.0, -2000.0]
    """
    return activations.log_softmax(x, axis)


__all__ = ["log_softmax", "logsumexp", "softmax"]
