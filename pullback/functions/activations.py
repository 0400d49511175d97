"""Functions that neural networks are made of."""

from __future__ import annotations

import math
from typing import Any

from pullback.functions.arguments import (
    Tensor,
    apply,
    as_tensor,
    axes_of,
    axis_of,
    float_node,
    integer,
    literal,
    node,
    node_of,
    placed,
)
from pullback.functions.exponentials import erf, exp, log, logistic
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.table import TABLE
from pullback.lazy.record import record
from pullback.lazy.settings import current
from pullback.lazy.tensor import wrap


def relu(x: Any) -> Tensor:
    """Elements that are positive, 0 in place of the others; its gradient at 0 is 0.

    >>> import pullback as pb
    >>> pb.relu([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    return apply("Relu", node(x))


def leaky_relu(x: Any, negative_slope: float = 0.01) -> Tensor:
    """Positive elements as they are, the others times `negative_slope`.

    >>> import pullback as pb
    >>> pb.leaky_relu([-2.0, 2.0], 0.5).tolist()
    [-1.0, 2.0]
    """
    x = wrap(float_node(x))
    return apply("Where", (x > 0)._node, node_of(x), (x * negative_slope)._node)


def elu(x: Any, alpha: float = 1.0) -> Tensor:
    """Positive elements as they are, `alpha` * (exp(x) - 1) in place of the others.

    >>> import pullback as pb
    >>> pb.elu([0.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    x = wrap(float_node(x))
    zero = literal(0, x.dtype)
    below = apply("Expm1", apply("Minimum", node_of(x), zero._node)._node) * alpha
    return apply("Where", (x > 0)._node, node_of(x), below._node)


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(-x)), without overflow.

    >>> import pullback as pb
    >>> pb.sigmoid(0.0).item()
    0.5
    """
    return logistic(x)


def log_sigmoid(x: Any) -> Tensor:
    """The logarithm of the sigmoid, without overflow.

    >>> import pullback as pb
    >>> pb.log_sigmoid(-1000.0).item()
    -1000.0
    """
    return -softplus(-wrap(float_node(x)))


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), without overflow.

    >>> import pullback as pb
    >>> pb.softplus(1000.0).item()
    1000.0
    """
    x = float_node(x)
    return apply("LogAddExp", x, literal(0, x.type.dtype)._node)


def silu(x: Any) -> Tensor:
    """x * sigmoid(x), also called swish.

    >>> import pullback as pb
    >>> pb.silu(0.0).item()
    0.0
    """
    x = wrap(float_node(x))
    return x * logistic(x)


def gelu(x: Any, approximate: bool = False) -> Tensor:
    """x times the probability that a standard normal variable is below x; `approximate` uses
    tanh.

    >>> import pullback as pb
    >>> round(pb.gelu(1.0).item(), 4)
    0.8413
    """
    x = wrap(float_node(x))

    def c(value: float) -> Tensor:
        return literal(value, x.dtype)

    if approximate:
        cubic = x * (c(1.0) + c(0.044715) * x * x)
        return c(0.5) * x * (c(1.0) + apply("Tanh", (c(math.sqrt(2 / math.pi)) * cubic)._node))
    return c(0.5) * x * (c(1.0) + erf(x * c(math.sqrt(0.5))))


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over axes, without overflow.

    >>> import pullback as pb
    >>> pb.logsumexp([1000.0, -1000.0]).item()
    1000.0
    """
    x = wrap(float_node(x))
    axes = axes_of("logsumexp", axis, x.ndim)
    top = _shift(x, axes)
    total = record(TABLE["Sum"](axes, True), (exp(x - top)._node,))
    made = log(total) + top
    return made if keepdims else record(TABLE["Squeeze"](axes), (made._node,))


def softmax(x: Any, axis: Any = -1) -> Tensor:
    """exp(x) over the sum of exp(x) along axes.

    >>> import pullback as pb
    >>> pb.softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    x = float_node(x)
    return record(TABLE["Softmax"](axes_of("softmax", axis, x.type.rank)), (x,))


def log_softmax(x: Any, axis: Any = -1) -> Tensor:
    """The logarithm of the softmax along axes, without overflow.

    >>> import pullback as pb
    >>> pb.log_softmax([1000.0, -1000.0]).tolist()
    [0.0, -2000.0]
    """
    x = float_node(x)
    return record(TABLE["LogSoftmax"](axes_of("log_softmax", axis, x.type.rank)), (x,))


def _shift(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element over axes, as a constant of derivatives; 0 where it is infinite."""
    if any(x.shape[i] == 0 for i in axes):
        return literal(0, x.dtype)
    top = apply("StopGradient", record(TABLE["Max"](axes, True), (node_of(x),))._node)
    finite = apply("IsFinite", top._node)
    return apply("Where", finite._node, top._node, literal(0, x.dtype)._node)


def one_hot(x: Any, num_classes: int, dtype: Any = None, axis: int = -1) -> Tensor:
    """A new axis that is 1 at the index given and 0 elsewhere; everywhere, if it is out of range.

    >>> import pullback as pb
    >>> pb.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    x = as_tensor(x)
    wanted = current().default_dtype if dtype is None else placed("one_hot", dtype_of, dtype)
    count = integer("one_hot", num_classes, "num_classes")
    place = axis_of("one_hot", axis, x.ndim + 1)
    shape = (*(1,) * place, count, *(1,) * (x.ndim - place))
    classes = record(TABLE["Iota"](shape, place, x.dtype), ())
    column = record(TABLE["ExpandDims"]((place,)), (node_of(x),))
    return apply("Equal", column._node, classes._node).astype(wanted)


def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second.

    >>> import pullback as pb
    >>> pb.glu([2.0, 0.0]).tolist()
    [1.0]
    """
    from pullback.functions.joining import split

    first, second = split(wrap(float_node(x)), 2, axis)
    return first * logistic(second)


__all__ = [
    "elu", "gelu", "glu", "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "one_hot",
    "relu", "sigmoid", "silu", "softmax", "softplus",
]  # fmt: skip
