"""The gradient of GELU as one op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.graph.dtypes import float32
from pullback.ops.elementwise.activations import KERNEL_SIZE, GeluSlope
from pullback.ops.elementwise.base import check_elementwise_kind
from pullback.ops.elementwise.functions import guarded
from pullback.ops.elementwise.guarded import MulNoNan
from pullback.ops.fused.spelling import Operands, Spelling, plain_type, spelling
from pullback.ops.prelude import Composite, Node, Type, same_dtype
from pullback.ops.samples import real
from pullback.ops.traits import HasKernel


class GeluGradient(Composite, HasKernel):
    """The cotangent of x in Gelu(x), from that of its result."""

    def infer(self, g: Type, x: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, g, x), "f")
        return x

    def kernel(self, b: Any, out: Type, g: Any, x: Any) -> Any:
        large = g.shape == x.shape and out.dtype is float32 and out.size >= KERNEL_SIZE
        return b.kernel("gelu_gradient", g, x, out=out) if large else None

    def expand(self, g: Node, x: Node) -> Node:
        return guarded(g, GeluSlope()(x))

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), real(3, 4, salt=1))


def _operands(node: Node) -> Iterator[Operands]:
    if isinstance(node.inputs[1].op, GeluSlope) and node.inputs[0].type.shape == node.type.shape:
        yield plain_type(node), plain_type(node)


spelling(
    Spelling(
        name="GELU gradient",
        last=MulNoNan,
        formula=lambda g, x: guarded(g, GeluSlope()(x)),
        operands=_operands,
        fused=lambda g, x: GeluGradient()(g, x),
    )
)
