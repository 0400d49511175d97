"""Activation functions with the arguments of PyTorch; the others are those of `pb` itself."""

from __future__ import annotations

from typing import Literal

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    log_softmax,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softmax,
    softmin,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
)
from pullback.functions.activations import log_sigmoid
from pullback.functions.arguments import axis_argument
from pullback.functions.composed import composed
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import (
    Layout,
    functional_choice_argument,
    functional_float_argument,
)
from pullback.nn.functional.image_layouts import channel_axis_of_layout
from pullback.nn.keys import next_key
from pullback.random.continuous import gumbel, uniform
from pullback.typing import ArrayLike

logsigmoid = log_sigmoid


@composed
def gelu(x: ArrayLike, approximate: Literal["none", "tanh"] | bool = "none") -> Tensor:
    """Return x times the normal distribution function of x; "tanh" approximates it by tanh.

    >>> pb.nn.functional.gelu([0.0, 1.0], "tanh").tolist()
    [0.0, 0.841...]
    """
    if isinstance(approximate, bool):
        return pf.gelu(x, approximate)
    return pf.gelu(
        x, functional_choice_argument(approximate, ("none", "tanh"), "approximate") == "tanh"
    )


@composed
def softplus(x: ArrayLike, beta: float = 1.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta, without overflow.

    >>> pb.nn.functional.softplus([-1000.0, 1000.0], 2.0).tolist()
    [0.0, 1000.0]
    """
    a = functional_float_argument(x)
    return pf.softplus(a) if beta == 1 else pf.softplus(a * beta) / beta


@composed
def prelu(x: ArrayLike, weight: ArrayLike, *, layout: Layout = "NHWC") -> Tensor:
    """Return x where it is positive, `weight * x` elsewhere.

    `weight` is one number, or a vector with a number for each channel.

    >>> pb.nn.functional.prelu([[-2.0, -2.0]], [0.5, 0.25]).tolist()
    [[-1.0, -0.5]]
    """
    a, w = functional_float_argument(x), functional_float_argument(weight)
    return pf.prelu(a, w, 1 if w.size == 1 else channel_axis_of_layout(a, layout))


@composed
def rrelu(
    x: ArrayLike, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *,
    key: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return x where it is positive, elsewhere x times a random slope from `lower` to `upper`.

    Without `training` the slope is the mean of both. The key may come from `pb.nn.rng`.

    >>> pb.nn.functional.rrelu([-2.0, 2.0], 0.25, 0.75).tolist()
    [-1.0, 2.0]
    """
    if lower > upper:
        raise ArgumentError(f"lower must not exceed upper, got {lower} and {upper}")
    a = functional_float_argument(x)
    if not training or lower == upper:
        return pf.leaky_relu(a, (lower + upper) / 2)
    used = next_key("rrelu") if key is None else key
    slope = uniform(used, a.shape, a.dtype, minval=lower, maxval=upper)
    return pf.where(a > 0, a, a * slope)


@composed
def gumbel_softmax(
    logits: ArrayLike, tau: float = 1.0, hard: bool = False, axis: int = -1, *,
    key: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return a sample of the Gumbel-softmax distribution: softmax((logits + noise) / tau).

    With `hard` it is the one-hot vector of the largest element, whose gradient is that of the soft
    sample. The key may come from `pb.nn.rng`.

    >>> sample = pb.nn.functional.gumbel_softmax(pb.zeros(3), hard=True, key=pb.random.key(0))
    >>> sample.sum().item()
    1.0
    """
    a = functional_float_argument(logits)
    place = axis_argument("gumbel_softmax", axis, a.ndim)
    used = next_key("gumbel_softmax") if key is None else key
    soft = pf.softmax((a + gumbel(used, a.shape, a.dtype)) / tau, place)
    if not hard:
        return soft
    best = pf.one_hot(pf.argmax(soft, place), a.shape[place], a.dtype, place)
    return best + (soft - soft.detach())


__all__ = [
    "celu", "elu", "gelu", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6",
    "rrelu", "selu", "sigmoid", "silu", "softmax", "softmin", "softplus", "softshrink", "softsign",
    "tanh", "tanhshrink", "threshold",
]  # fmt: skip
