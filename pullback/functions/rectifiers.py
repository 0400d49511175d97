"""Activation functions made of straight pieces, and smooth ones that resemble them."""

from __future__ import annotations

from pullback.errors import ShapeError
from pullback.functions.activations import elu, softmax, softplus
from pullback.functions.arguments import Tensor, axis_of, float_arguments, float_node
from pullback.functions.arithmetic import abs as absolute
from pullback.functions.composed import composed
from pullback.functions.shape import shaped
from pullback.functions.trigonometry import tanh
from pullback.functions.where_take import clip, where
from pullback.lazy.tensor import wrap
from pullback.typing import ArrayLike, Axis

SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


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
        w = shaped(w, (w.size, *(1,) * (x.ndim - axis % x.ndim - 1)))
    else:
        w = shaped(w, ())
        if axis != 1:
            axis_of("prelu", axis, x.ndim)
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
    "celu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "mish", "prelu", "relu6", "selu",
    "softmin", "softshrink", "softsign", "tanhshrink", "threshold",
]  # fmt: skip
