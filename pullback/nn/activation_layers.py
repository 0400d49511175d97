"""Activation functions as layers."""

from __future__ import annotations

from collections.abc import Callable

from pullback import functions as pf
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.function_layers import FunctionLayer, function_layer
from pullback.nn.functional.arguments import Layout
from pullback.nn.initial import initial_parameter
from pullback.nn.layer_arguments import layer_layout_argument, positive_layer_argument
from pullback.nn.module import Module
from pullback.typing import ArrayLike, DTypeLike

_INPLACE = frozenset((
    "CELU", "ELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "Mish", "RReLU", "ReLU",
    "ReLU6", "SELU", "SiLU", "Threshold",
))  # fmt: skip


def _activation_layer(
    name: str, function: Callable[..., Tensor], settings: str, result: str
) -> type[FunctionLayer]:
    call = f"pb.nn.{name}({settings}).eval()([-1.0, 2.0]).tolist()"
    return function_layer(name, function, call, result, inplace=name in _INPLACE)


CELU = _activation_layer("CELU", F.celu, "alpha=2.0", "[-0.7869..., 2.0]")
ELU = _activation_layer("ELU", F.elu, "alpha=0.5", "[-0.3160..., 2.0]")
GELU = _activation_layer("GELU", F.gelu, '"tanh"', "[-0.1588..., 1.9545...]")
GLU = _activation_layer("GLU", F.glu, "", "[-0.8807...]")
Hardshrink = _activation_layer("Hardshrink", F.hardshrink, "", "[-1.0, 2.0]")
Hardsigmoid = _activation_layer("Hardsigmoid", F.hardsigmoid, "", "[0.3333..., 0.8333...]")
Hardswish = _activation_layer("Hardswish", F.hardswish, "", "[-0.3333..., 1.6666...]")
Hardtanh = _activation_layer("Hardtanh", F.hardtanh, "-0.5, 0.5", "[-0.5, 0.5]")
LeakyReLU = _activation_layer("LeakyReLU", F.leaky_relu, "0.5", "[-0.5, 2.0]")
LogSigmoid = _activation_layer("LogSigmoid", F.logsigmoid, "", "[-1.3132..., -0.1269...]")
LogSoftmax = _activation_layer("LogSoftmax", F.log_softmax, "axis=-1", "[-3.0485..., -0.0485...]")
Mish = _activation_layer("Mish", F.mish, "", "[-0.3034..., 1.9439...]")
RReLU = _activation_layer("RReLU", F.rrelu, "0.25, 0.75", "[-0.5, 2.0]")
ReLU = _activation_layer("ReLU", F.relu, "", "[0.0, 2.0]")
ReLU6 = _activation_layer("ReLU6", F.relu6, "", "[0.0, 2.0]")
SELU = _activation_layer("SELU", F.selu, "", "[-1.1113..., 2.1014...]")
SiLU = _activation_layer("SiLU", F.silu, "", "[-0.2689..., 1.7615...]")
Sigmoid = _activation_layer("Sigmoid", F.sigmoid, "", "[0.2689..., 0.8807...]")
Softmax = _activation_layer("Softmax", F.softmax, "axis=-1", "[0.0474..., 0.9525...]")
Softmin = _activation_layer("Softmin", F.softmin, "axis=-1", "[0.9525..., 0.0474...]")
Softplus = _activation_layer("Softplus", F.softplus, "", "[0.3132..., 2.1269...]")
Softshrink = _activation_layer("Softshrink", F.softshrink, "", "[-0.5, 1.5]")
Softsign = _activation_layer("Softsign", F.softsign, "", "[-0.5, 0.6666...]")
Tanh = _activation_layer("Tanh", F.tanh, "", "[-0.7615..., 0.9640...]")
Tanhshrink = _activation_layer("Tanhshrink", F.tanhshrink, "", "[-0.2384..., 1.0359...]")
Threshold = _activation_layer("Threshold", F.threshold, "0.5, -7.0", "[-7.0, 2.0]")


@boundary_methods
class PReLU(Module):
    """x where it is positive, `weight * x` elsewhere: a leaky ReLU whose slope is trained.

    With `num_parameters` of the channels, each channel of [N, ..., C] (`layout="NHWC"`) or of
    [N, C, ...] (`layout="NCHW"`) has a slope of its own.

    >>> pb.nn.PReLU(init=0.5)(pb.tensor([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    weight: Tensor

    @with_argument_checks
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, *, layout: Layout = "NHWC",
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.layout = layer_layout_argument("PReLU", layout)
        size = positive_layer_argument("PReLU", num_parameters, "num_parameters")
        self.weight = initial_parameter(pf.full, (size,), float(init), dtype)

    def forward(self, x: ArrayLike) -> Tensor:
        return F.prelu(x, self.weight, layout=self.layout)


__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip
