"""Activation functions and other functions for neural networks."""

from __future__ import annotations

import numpy as np

from pullback.errors import DTypeError, IndexOutOfRange
from pullback.functions import arguments
from pullback.functions.arguments import apply, axes_argument, axis_of, float_node, integer, literal
from pullback.functions.exponentials import exp, log, logistic
from pullback.functions.factory import UnaryFunction, float_unary, unary
from pullback.functions.joining import split
from pullback.graph.arguments import validated
from pullback.graph.dtypes import int64
from pullback.lazy.index_plan import known_index
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import at_one_line, record
from pullback.lazy.settings import current
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.elementwise.activations import Gelu, GeluTanh, Silu
from pullback.ops.elementwise.exponential import Expm1, LogAddExp, Logistic
from pullback.ops.elementwise.logic import Equal
from pullback.ops.elementwise.maximum import Relu
from pullback.ops.elementwise.rounding import IsFinite
from pullback.ops.elementwise.select import Where
from pullback.ops.index.checked_index import CheckedIndex
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import LogSoftmax, Softmax
from pullback.ops.shape.axes import ExpandDims, Squeeze
from pullback.ops.shape.iota import Iota
from pullback.ops.wrap.identity import StopGradient
from pullback.typing import ArrayLike, Axis, DTypeLike

relu: UnaryFunction = unary(
    "relu", Relu, "max(x, 0); its gradient at 0 is 0.", "[-1.0, 2.0] -> [0.0, 2.0]"
)
sigmoid: UnaryFunction = float_unary(
    "sigmoid", Logistic, "1 / (1 + exp(-x)), without overflow.", "0.0 -> 0.5"
)


@validated
def leaky_relu(x: ArrayLike, negative_slope: float = 0.01) -> Tensor:
    """Return x where it is positive, `negative_slope * x` elsewhere.

    >>> pb.leaky_relu([-2.0, 2.0], 0.5).tolist()
    [-1.0, 2.0]
    """
    x = wrap(float_node(x))
    return apply(Where, (x > 0)._node, node_of(x), (x * negative_slope)._node)


@validated
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
    return apply(LogAddExp, a, literal(0, a.type.dtype)._node)


def silu(x: ArrayLike) -> Tensor:
    """Return x * sigmoid(x), also called swish.

    >>> pb.silu(0.0).item()
    0.0
    """
    a = float_node(x)
    if a.type.dtype.is_complex:
        return wrap(a) * logistic(wrap(a))
    return apply(Silu, a)


@validated
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


@validated
def logsumexp(x: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return log(sum(exp(x))) over axes, without overflow.

    >>> pb.logsumexp([1000.0, -1000.0]).item()
    1000.0
    """
    x = wrap(float_node(x))
    axes = axes_argument("logsumexp", axis, x.ndim)
    top = _softmax_shift(x, axes)
    result = log(record(Sum(axes, True), (exp(x - top)._node,))) + top
    return result if keepdims else record(Squeeze(axes), (result._node,))


def _softmax_shift(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest element over axes, as a constant of derivatives; 0 where it is infinite."""
    if any(x.shape[i] == 0 for i in axes):
        return literal(0, x.dtype)
    top = apply(StopGradient, record(Max(axes, True), (node_of(x),))._node)
    finite = apply(IsFinite, top._node)
    return apply(Where, finite._node, top._node, literal(0, x.dtype)._node)


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


@validated
def one_hot(
    x: ArrayLike, num_classes: int, dtype: DTypeLike | None = None, axis: int = -1
) -> Tensor:
    """Return 1 at each index and 0 elsewhere, along a new axis of size `num_classes`.

    An index below 0 or not less than `num_classes` is an error: at once if the indices are known,
    otherwise when the result is read. (`x[..., None] == pb.arange(n)` gives zeros for it.)

    >>> pb.one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    given, x = x, as_tensor(x)
    wanted = arguments.dtype_or("one_hot", dtype, current().default_dtype)
    count = integer("one_hot", num_classes, "num_classes")
    axis = axis_of("one_hot", axis, x.ndim + 1)
    if not x.dtype.is_integer:
        raise DTypeError(f"indices must be integers, got {x._node.type}", op="one_hot")
    _check_known_classes(known_index(given), count)
    with at_one_line("one_hot"):
        index = record(CheckedIndex(count), (node_of(x),))
    index = index if x.dtype.bits >= 32 else index.astype(int64)
    shape = (*(1,) * axis, count, *(1,) * (x.ndim - axis))
    classes = record(Iota(shape, axis, index.dtype), ())
    column = record(ExpandDims((axis,)), (index._node,))
    return apply(Equal, column._node, classes._node).astype(wanted)


def _check_known_classes(values: np.ndarray | None, count: int) -> None:
    wrong = None if values is None else values[(values < 0) | (values >= count)]
    if wrong is not None and wrong.size:
        what = f"index {wrong[0]} is out of range for {count} classes"
        message = f"{what}: it must be at least 0 and less than {count}"
        raise IndexOutOfRange(message, op="one_hot", index=int(wrong[0]), extent=count)


__all__ = [
    "elu", "gelu", "glu", "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "one_hot",
    "relu", "sigmoid", "silu", "softmax", "softplus",
]  # fmt: skip
