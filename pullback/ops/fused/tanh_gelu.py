"""The approximation of GELU by a hyperbolic tangent, as users write it, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import float32
from pullback.ops.elementwise.activations import KERNEL_SIZE
from pullback.ops.elementwise.arithmetic import Add, Mul
from pullback.ops.elementwise.base import check_elementwise_kind
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.trigonometric import Tanh
from pullback.ops.fused.spelling import Operands, Spelling, plain_type, spelling
from pullback.ops.prelude import Composite, Node, Type, same_dtype
from pullback.ops.samples import real
from pullback.ops.traits import HasKernel


class TanhGeluOp(Composite, HasKernel, abstract=True):
    """An op on x and the four numbers of half * x * (one + tanh(c * (x + a * x**3)))."""

    kernel_name: ClassVar[str]

    def infer(self, *types: Type) -> Type:
        *xs, _, _, _, _ = types
        check_elementwise_kind(same_dtype(self.title, *types), "f")
        if any(x.shape != xs[0].shape for x in xs) or any(n.rank for n in types[-4:]):
            raise ShapeError(f"needs operands of one shape and four numbers, got {types}")
        return xs[0]

    def kernel(self, b: Any, out: Type, *xs: Any) -> Any:
        if out.dtype is not float32 or out.size < KERNEL_SIZE:
            return None
        return b.kernel(self.kernel_name, *xs, out=out, dims=len(out.shape), flags=0)


class TanhGelu(TanhGeluOp):
    """half * x * (one + tanh(c * (x + a * x**3)))"""

    kernel_name = "tanh_gelu"

    def expand(self, x: Node, half: Node, one: Node, c: Node, a: Node) -> Node:
        return half * x * (one + Tanh()(c * (x + a * IntegerPow(3)(x))))

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), *[np.array(n) for n in (0.5, 1.0, 0.8, 0.04)])


class TanhGeluGradient(TanhGeluOp):
    """The cotangent of x in TanhGelu, from that of its result, x and the numbers."""

    kernel_name = "tanh_gelu_gradient"

    def expand(self, g: Node, x: Node, half: Node, one: Node, c: Node, a: Node) -> Node:
        t = Tanh()(c * (x + a * IntegerPow(3)(x)))
        steep = g * (half * x) * (1 - t * t) * c
        return g * (one + t) * half + steep + steep * a * (3 * (x * x))

    @classmethod
    def samples(cls) -> Any:
        numbers = [np.array(n) for n in (0.5, 1.0, 0.8, 0.04)]
        yield cls(), (real(3, 4), real(3, 4, salt=1), *numbers)


# a * x**3, as it is written
CUBES: tuple[Callable[[Node, Node], Node], ...] = (
    lambda a, x: a * IntegerPow(3)(x),
    lambda a, x: a * (x * x * x),
    lambda a, x: a * x * x * x,
)
# half * x * w, in the orders that products are written in
PRODUCTS: tuple[Callable[[Node, Node, Node], Node], ...] = (
    lambda half, x, w: half * x * w,
    lambda half, x, w: half * (x * w),
    lambda half, x, w: x * (half * w),
)


def _formula(
    cube: Callable[[Node, Node], Node], product: Callable[[Node, Node, Node], Node],
    x: Node, half: Node, one: Node, c: Node, a: Node,
) -> Node:  # fmt: skip
    return product(half, x, one + Tanh()(c * (x + cube(a, x))))


def _operands(node: Node) -> Iterator[Operands]:
    """The types of x and the numbers, if 1 + tanh(...) is a factor of the product."""
    factors = [y for x in node.inputs for y in (x, *(x.inputs if isinstance(x.op, Mul) else ()))]
    sums = [x for x in factors if isinstance(x.op, Add)]
    if any(isinstance(y.op, Tanh) for x in sums for y in x.inputs):
        x = plain_type(node)
        yield (x, *[Type((), x.dtype)] * 4)


def _pull(g: Node, y: Node, x: Node, *numbers: Node) -> Sequence[Node | None]:
    return [TanhGeluGradient()(g, x, *numbers), *[None] * len(numbers)]


for _cube in CUBES:
    for _product in PRODUCTS:
        spelling(
            Spelling(
                name="GELU by tanh",
                last=Mul,
                formula=partial(_formula, _cube, _product),
                operands=_operands,
                fused=lambda *xs: TanhGelu()(*xs),
                pull=_pull,
            )
        )
