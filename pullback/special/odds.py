"""Logistic functions, odds and entropies."""

from __future__ import annotations

import math

from pullback.functions.activations import log_sigmoid
from pullback.functions.arguments import Tensor, apply, float_node, literal_argument
from pullback.functions.function_factory import float_unary
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import wrap
from pullback.ops.elementwise import entropy as ops
from pullback.ops.elementwise.exponential import Logistic
from pullback.ops.elementwise.select import Where
from pullback.ops.elementwise.spherical import ExpRel
from pullback.special.operands import special
from pullback.typing import ArrayLike

expit = float_unary("expit", Logistic, "1 / (1 + exp(-x)), the logistic function.", "0.0 -> 0.5")
logit = float_unary(
    "logit", ops.Logit, "log(x / (1 - x)), the inverse of `expit`; NaN outside [0, 1].",
    "[0.5, 1.0] -> [0.0, inf]",
)  # fmt: skip


def log_expit(x: ArrayLike) -> Tensor:
    """Return the logarithm of the logistic function, without overflow.

    >>> pb.special.log_expit(-1000.0).item()
    -1000.0
    """
    return log_sigmoid(x)


def exprel(x: ArrayLike) -> Tensor:
    """Return (exp(x) - 1) / x, 1 at 0.

    >>> pb.special.exprel(0.0).item()
    1.0
    """
    return special("exprel", ExpRel(0), x)


def xlogy(x: ArrayLike, y: ArrayLike) -> Tensor:
    """Return x * log(y), 0 where x is 0 and y is not NaN.

    There the derivative with respect to y is 0, and with respect to x it is log(y).

    >>> pb.special.xlogy([0.0, 2.0], [0.0, 1.0]).tolist()
    [0.0, 0.0]
    """
    return special("xlogy", ops.XLogY(), x, y)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Tensor:
    """Return x * log(1 + y), 0 where x is 0 and y is not NaN.

    >>> pb.special.xlog1py([0.0, 2.0], [-1.0, 0.0]).tolist()
    [0.0, 0.0]
    """
    return special("xlog1py", ops.XLog1pY(), x, y)


def entr(x: ArrayLike) -> Tensor:
    """Return -x * log(x), 0 at 0 and -inf below. The derivative at 0 is infinite.

    >>> pb.special.entr([0.0, 1.0, -1.0]).tolist()
    [0.0, 0.0, -inf]
    """
    a = wrap(float_node(x))
    inside = special("entr", ops.XLogY(), a, a)
    zero = literal_argument(0, a.dtype)
    nothing = literal_argument(-math.inf, a.dtype)
    return apply(Where, (a < zero)._node, nothing._node, node_of(zero - inside))


def rel_entr(x: ArrayLike, y: ArrayLike) -> Tensor:
    """Return x * log(x / y) for positive x and y, 0 for x = 0 and y >= 0, and inf elsewhere.

    >>> pb.special.rel_entr([1.0, 0.0, 1.0], [1.0, 2.0, 0.0]).tolist()
    [0.0, 0.0, inf]
    """
    return special("rel_entr", ops.RelEntr(), x, y)


def kl_div(x: ArrayLike, y: ArrayLike) -> Tensor:
    """Return x * log(x / y) - x + y for positive x and y, y for x = 0, and inf elsewhere.

    It is never negative and keeps its digits where x is near y.

    >>> pb.special.kl_div([1.0, 0.0, 1.0], [1.0, 2.0, 0.0]).tolist()
    [0.0, 2.0, inf]
    """
    return special("kl_div", ops.KlDiv(), x, y)


__all__ = [
    "entr", "expit", "exprel", "kl_div", "log_expit", "logit", "rel_entr", "xlog1py", "xlogy",
]  # fmt: skip
