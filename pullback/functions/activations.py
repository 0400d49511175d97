"""Activation functions."""

from __future__ import annotations

from pullback.errors import ShapeError
from pullback.functions.arguments import (
    apply,
    axes_argument,
    axis_argument,
    float_arguments,
    float_node,
    literal_argument,
)
from pullback.functions.arithmetic import abs as absolute
from pullback.functions.arithmetic import clip
from pullback.functions.composed import composed
from pullback.functions.exponentials import exp, log, logistic
from pullback.functions.function_factory import UnaryFunction, float_unary, unary_function
from pullback.functions.shape import reshaped_to
from pullback.functions.splitting import split
from pullback.functions.trigonometry import tanh
from pullback.functions.where_take import where
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.operators import node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.elementwise.activations import Gelu, GeluTanh, Silu
from pullback.ops.elementwise.exponential import Expm1, LogAddExp, Logistic
from pullback.ops.elementwise.relu import Relu
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.elementwise.select import Where
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import LogSoftmax, Softmax
from pullback.ops.shape.squeeze_flip_axes import Squeeze
from pullback.ops.wrap.identity import StopGradient
from pullback.typing import ArrayLike, Axis

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805

relu: UnaryFunction = unary_function(
    "relu", Relu, "max(x, 0); its gradient at 0 is 0.", "[-1.0, 2.0] -> [0.0, 2.0]"
)
sigmoid: UnaryFunction = float_unary(
    "sigmoid", Logistic, "1 / (1 + exp(-x)), without overflow.", "0.0 -> 0.5"
)


@with_argument_checks
def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive, `negative_slope * x` elsewhere.

    >>> pb.leaky_relu([-2.0, 2.0], 0.5).tolist()
    [-1.0, 2.0]
    """
    x = wrap(float_node(x))
    return apply(Where, (x > 0)._node, node_of(x), (x * negative_slope)._node)


@with_argument_checks
def elu(x: ArrayLike, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    >>> pb.elu([0.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    x = wrap(float_node(x))
    below = apply(Expm1, node_of(x)) * alpha  # it may overflow where it is not taken
    return apply(Where, (x > 0)._node, node_of(x), below._node)


def log_sigmoid(x: ArrayLike) -> Tensor:
    """Return the logarithm of the sigmoid, without overflow.

    >>> pb.log_sigmoid(-1000.0).item()
    -1000.0
    """
    return -softplus(-wrap(float_node(x)))


def softplus(x: ArrayLike) -> Tensor:
    """Return log(1 + exp(x)), without overflow.

    >>> pb.softplus(1000.0).item()
    1000.0
    """
    a = float_node(x)
    return apply(LogAddExp, a, literal_argument(0, a.type.dtype)._node)


def silu(x: ArrayLike) -> Tensor:
    """Return x * sigmoid(x), also called swish.

    >>> pb.silu(0.0).item()
    0.0
    """
    a = float_node(x)
    if a.type.dtype.is_complex:
        return wrap(a) * logistic(wrap(a))
    return apply(Silu, a)


@with_argument_checks
def gelu(x: ArrayLike, approximate: bool = False) -> Tensor:
    """Return x times the normal distribution function of x; `approximate` uses tanh.

    >>> round(pb.gelu(1.0).item(), 4)
    0.8413
    """
    return apply(GeluTanh if approximate else Gelu, float_node(x))


def glu(x: ArrayLike, axis: int = -1) -> Tensor:
    """Return the first half along an axis times the sigmoid of the second half.

    >>> pb.glu([2.0, 0.0]).tolist()
    [1.0]
    """
    first, second = split(wrap(float_node(x)), 2, axis)
    return first * logistic(second)


@with_argument_checks
def logsumexp(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over axes, without overflow.

    >>> pb.logsumexp([1000.0, -1000.0]).item()
    1000.0
    """
    x = wrap(float_node(x))
    axes = axes_argument("logsumexp", axis, x.ndim)
    top = _largest_activation(x, axes)
    result = log(record(Sum(axes, True), (exp(x - top)._node,))) + top
    return result if keepdims else record(Squeeze(axes), (result._node,))


def _largest_activation(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element over axes, as a constant of derivatives; 0 where it is infinite."""
    if any(x.shape[i] == 0 for i in axes):
        return literal_argument(0, x.dtype)
    top = apply(StopGradient, record(Max(axes, True), (node_of(x),))._node)
    finite = apply(IsFinite, top._node)
    return apply(Where, finite._node, top._node, literal_argument(0, x.dtype)._node)


def softmax(x: ArrayLike, axis: Axis = -1) -> Tensor:
    """Return exp(x) divided by its sum over axes.

    >>> pb.softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    a = float_node(x)
    return record(Softmax(axes_argument("softmax", axis, a.type.rank)), (a,))


def log_softmax(x: ArrayLike, axis: Axis = -1) -> Tensor:
    """Return the logarithm of the softmax over axes, without overflow.

    >>> pb.log_softmax([1000.0, -1000.0]).tolist()
    [0.0, -2000.0]
    """
    a = float_node(x)
    return record(LogSoftmax(axes_argument("log_softmax", axis, a.type.rank)), (a,))


@composed
def hardtanh(x: ArrayLike, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return x limited to [min_val, max_val]; its gradient at the ends is 0.

    >>> pb.hardtanh([-3.0, 0.5, 3.0]).tolist()
    [-1.0, 0.5, 1.0]
    """
    x = wrap(float_node(x))
    return where((x <= min_val) | (x >= max_val), clip(x, min_val, max_val).detach(), x)


@composed
def relu6(x: ArrayLike) -> Tensor:
    """Return min(max(x, 0), 6); its gradient at 0 and 6 is 0.

    >>> pb.relu6([-1.0, 2.0, 8.0]).tolist()
    [0.0, 2.0, 6.0]
    """
    return hardtanh(x, 0.0, 6.0)


@composed
def hardsigmoid(x: ArrayLike) -> Tensor:
    """Return relu6(x + 3) / 6, a sigmoid made of straight pieces.

    >>> pb.hardsigmoid([-3.0, 0.0, 3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return relu6(wrap(float_node(x)) + 3) / 6


@composed
def hardswish(x: ArrayLike) -> Tensor:
    """Return x * hardsigmoid(x).

    >>> pb.hardswish([-3.0, 0.0, 3.0]).tolist()
    [-0.0, 0.0, 3.0]
    """
    x = wrap(float_node(x))
    return x * hardsigmoid(x)


@composed
def hardshrink(x: ArrayLike, lambd: float = 0.5) -> Tensor:
    """Return x where abs(x) > lambd, 0 elsewhere.

    >>> pb.hardshrink([-1.0, 0.25, 2.0]).tolist()
    [-1.0, 0.0, 2.0]
    """
    x = wrap(float_node(x))
    return where((x >= -lambd) & (x <= lambd), 0, x)


@composed
def softshrink(x: ArrayLike, lambd: float = 0.5) -> Tensor:
    """Return x moved towards 0 by `lambd`, 0 where that would change its sign.

    >>> pb.softshrink([-1.0, 0.25, 2.0]).tolist()
    [-0.5, 0.0, 1.5]
    """
    x = wrap(float_node(x))
    outside = where(x > 0, x - lambd, x + lambd)
    return where((x >= -lambd) & (x <= lambd), 0, outside)


@composed
def tanhshrink(x: ArrayLike) -> Tensor:
    """Return x - tanh(x).

    >>> pb.tanhshrink(0.0).item()
    0.0
    """
    x = wrap(float_node(x))
    return x - tanh(x)


@composed
def threshold(x: ArrayLike, threshold: float, value: float) -> Tensor:
    """Return x where it is greater than `threshold`, `value` elsewhere.

    >>> pb.threshold([0.5, 2.0], 1.0, -7.0).tolist()
    [-7.0, 2.0]
    """
    x = wrap(float_node(x))
    return where(x > threshold, x, value)


@composed
def celu(x: ArrayLike, alpha: float = 1.0) -> Tensor:
    """Return x where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere.

    >>> pb.celu([0.0, 2.0], 2.0).tolist()
    [0.0, 2.0]
    """
    x = wrap(float_node(x))
    return where(x > 0, x, elu(x / alpha) * alpha)


@composed
def selu(x: ArrayLike) -> Tensor:
    """Return the scaled elu whose outputs keep mean 0 and variance 1 (Klambauer et al., 2017).

    >>> pb.selu(1.0).item()
    1.0507...
    """
    return elu(x, SELU_ALPHA) * SELU_SCALE


@composed
def prelu(x: ArrayLike, weight: ArrayLike, axis: int = 1) -> Tensor:
    """Return x where it is positive, `weight * x` elsewhere.

    `weight` is one number, or a vector with a number for each place along `axis`.

    >>> pb.prelu([[-2.0, -2.0]], [0.5, 0.25]).tolist()
    [[-1.0, -0.5]]
    """
    x, w = map(wrap, float_arguments(x, weight))
    if w.size != 1:
        if w.ndim != 1 or x.ndim <= axis or x.shape[axis] != w.size:
            message = f"weight must be one number, or one number per index along axis {axis}"
            raise ShapeError(f"{message}, got {x._node.type} and {w._node.type}")
        w = reshaped_to(w, (w.size, *(1,) * (x.ndim - axis % x.ndim - 1)))
    else:
        w = reshaped_to(w, ())
        if axis != 1:
            axis_argument("prelu", axis, x.ndim)
    return where(x > 0, x, w * x)


@composed
def mish(x: ArrayLike) -> Tensor:
    """Return x * tanh(softplus(x)).

    >>> pb.mish(0.0).item()
    0.0
    """
    x = wrap(float_node(x))
    return x * tanh(softplus(x))


@composed
def softsign(x: ArrayLike) -> Tensor:
    """Return x / (1 + abs(x)).

    >>> pb.softsign([-1.0, 3.0]).tolist()
    [-0.5, 0.75]
    """
    x = wrap(float_node(x))
    return x / (absolute(x) + 1)


@composed
def softmin(x: ArrayLike, axis: Axis = -1) -> Tensor:
    """Return exp(-x) divided by its sum over axes.

    >>> pb.softmin([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    return softmax(-wrap(float_node(x)), axis)


__all__ = [
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "mish", "prelu", "relu", "relu6",
    "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign",
    "tanhshrink", "threshold",
]  # fmt: skip
