"""The gradients of activation functions, each as one op."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from pullback.ops.elementwise.activations import (
    GeluSlope,
    GeluTanhSlope,
    SiluSlope,
    activation_kernel,
)
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import guarded
from pullback.ops.elementwise.guarded import MulNoNan
from pullback.ops.elementwise.special_base import SharedFormula
from pullback.ops.fused.spelling import Operands, Spelling, spelling, spelling_operand_type
from pullback.ops.prelude import Composite, Node, Type, same_dtype
from pullback.ops.samples import real
from pullback.ops.traits import HasKernel


class ActivationGradient(Composite, HasKernel, abstract=True):
    """The cotangent of an activation function's operand x, from that of its result."""

    slope: ClassVar[SharedFormula]  # the derivative, of x
    kernel_name: ClassVar[str]

    def infer(self, g: Type, x: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, g, x), "f")
        return x

    def kernel(self, b: Any, out: Type, g: Any, x: Any) -> Any:
        return activation_kernel(b, self.kernel_name, out, g, x)

    def expand(self, g: Node, x: Node) -> Node:
        return guarded(g, self.slope(x))

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), real(3, 4, salt=1))


class GeluGradient(ActivationGradient):
    """The cotangent of x in Gelu(x), from that of its result."""

    slope = GeluSlope()
    kernel_name = "gelu_gradient"


class GeluTanhGradient(ActivationGradient):
    """The cotangent of x in GeluTanh(x), from that of its result."""

    slope = GeluTanhSlope()
    kernel_name = "gelu_tanh_gradient"


class SiluGradient(ActivationGradient):
    """The cotangent of x in Silu(x), from that of its result."""

    slope = SiluSlope()
    kernel_name = "silu_gradient"


def _activation_gradient_operands(node: Node, op: ActivationGradient) -> Iterator[Operands]:
    g, slope = node.inputs
    if slope.op is op.slope and g.type.shape == node.type.shape:
        yield spelling_operand_type(node), spelling_operand_type(node)


for _op in (GeluGradient(), GeluTanhGradient(), SiluGradient()):
    spelling(
        Spelling(
            name=f"{_op.title}",
            last=MulNoNan,
            formula=_op.expand,
            operands=partial(_activation_gradient_operands, op=_op),
            fused=_op,
        )
    )
