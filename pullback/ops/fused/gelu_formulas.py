"""GELU as users write it, by a hyperbolic tangent or the error function, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import float32
from pullback.ops.elementwise.activations import KERNEL_SIZE
from pullback.ops.elementwise.arithmetic import Add, Mul
from pullback.ops.elementwise.division import Div, Reciprocal
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.error_functions import SLOPE, Erf
from pullback.ops.elementwise.normal_functions import ExpMinusSquare
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.trigonometric import Tanh
from pullback.ops.fused.spelling import Operands, Spelling, spelling, spelling_operand_type
from pullback.ops.prelude import Composite, Node, Type, same_dtype
from pullback.ops.samples import real
from pullback.ops.traits import HasKernel

_SAMPLES = 0.5, 1.0, 0.8, 0.04  # numbers of formulas


class GeluFormula(Composite, HasKernel, abstract=True):
    """An op on tensors of one shape, the last of them x, and numbers of half * x * (one + f(x)).

    The numbers are operands: in code that is not compiled they are inputs of the program.
    """

    kernel_name: ClassVar[str]
    tensors: ClassVar[int]
    numbers: ClassVar[int]

    def infer(self, *types: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, *types), "f")
        xs, numbers = types[: self.tensors], types[self.tensors :]
        if any(x.shape != xs[0].shape for x in xs) or any(n.rank for n in numbers):
            raise ShapeError(f"needs operands of one shape and numbers, got {types}")
        return xs[0]

    def kernel(self, b: Any, out: Type, *xs: Any) -> Any:
        if out.dtype is not float32 or out.size < KERNEL_SIZE:
            return None
        return b.kernel(self.kernel_name, *xs, out=out, dims=len(out.shape), flags=0)

    @classmethod
    def samples(cls) -> Any:
        tensors = [real(3, 4, salt=i) for i in range(cls.tensors)]
        yield cls(), (*tensors, *[np.array(n) for n in _SAMPLES[: cls.numbers]])


class TanhGelu(GeluFormula):
    """half * x * (one + tanh(c * (x + a * x**3)))"""

    kernel_name, tensors, numbers = "tanh_gelu", 1, 4

    def expand(self, x: Node, half: Node, one: Node, c: Node, a: Node) -> Node:
        return half * x * (one + Tanh()(c * (x + a * IntegerPow(3)(x))))


class TanhGeluGradient(GeluFormula):
    """The cotangent of x in TanhGelu, from that of its result, x and the numbers."""

    kernel_name, tensors, numbers = "tanh_gelu_gradient", 2, 4

    def expand(self, g: Node, x: Node, half: Node, one: Node, c: Node, a: Node) -> Node:
        t = Tanh()(c * (x + a * IntegerPow(3)(x)))
        steep = g * (half * x) * (1 - t * t) * c
        return g * (one + t) * half + steep + steep * a * (3 * (x * x))


class ErfGelu(GeluFormula):
    """half * x * (one + erf(c * x))"""

    kernel_name, tensors, numbers = "erf_gelu", 1, 3

    def expand(self, x: Node, half: Node, one: Node, c: Node) -> Node:
        return half * x * (one + Erf()(c * x))


class ErfGeluGradient(GeluFormula):
    """The cotangent of x in ErfGelu, from that of its result, x and the numbers."""

    kernel_name, tensors, numbers = "erf_gelu_gradient", 2, 3

    def expand(self, g: Node, x: Node, half: Node, one: Node, c: Node) -> Node:
        u = c * x
        steep = g * (half * x) * (ExpMinusSquare()(u) * SLOPE) * c
        return g * (one + Erf()(u)) * half + steep


class GeluProduct(NamedTuple):
    """A way to write half * x * w, where w is 1 + f(x)."""

    formula: Callable[[Node, Node, Node], Node]
    divides: bool = False  # by 1 / half
    last: type = Mul


PRODUCTS = (
    GeluProduct(lambda half, x, w: half * x * w),
    GeluProduct(lambda half, x, w: half * (x * w)),
    GeluProduct(lambda half, x, w: x * (half * w)),
    GeluProduct(lambda two, x, w: x / two * w, divides=True),
    GeluProduct(lambda two, x, w: x * (w / two), divides=True),
    GeluProduct(lambda two, x, w: x * w / two, divides=True, last=Div),
)
# a * x**3, as it is written
CUBES: tuple[Callable[[Node, Node], Node], ...] = (
    lambda a, x: a * IntegerPow(3)(x),
    lambda a, x: a * (x * x * x),
    lambda a, x: a * x * x * x,
)


def _tanh_gelu_formula(
    cube: Callable[[Node, Node], Node], product: GeluProduct,
    x: Node, half: Node, one: Node, c: Node, a: Node,
) -> Node:  # fmt: skip
    return product.formula(half, x, one + Tanh()(c * (x + cube(a, x))))


def _erf_gelu_formula(
    divides: bool, product: GeluProduct, x: Node, half: Node, one: Node, c: Node
) -> Node:
    return product.formula(half, x, one + Erf()(x / c if divides else x * c))


def _gelu_numbers(divided: Sequence[bool], numbers: Sequence[Node]) -> list[Node]:
    """The numbers of the fused op: where the formula divides by one, its reciprocal."""
    pairs = zip(numbers, divided, strict=True)
    return [Reciprocal()(n) if divides else n for n, divides in pairs]


def _gelu_spelling(
    name: str, formula: Callable[..., Node], divided: tuple[bool, ...], last: type,
    op: GeluFormula, gradient: GeluFormula,
) -> Spelling:  # fmt: skip
    def pull(g: Node, y: Node, x: Node, *numbers: Node) -> Sequence[Node | None]:
        return [gradient(g, x, *_gelu_numbers(divided, numbers)), *[None] * len(numbers)]

    return Spelling(
        name=name, last=last, formula=formula, operands=lambda node: (), pull=pull,
        fused=lambda x, *numbers: op(x, *_gelu_numbers(divided, numbers)),
    )  # fmt: skip


TANH_SPELLINGS = [
    _gelu_spelling(
        "GELU by tanh", partial(_tanh_gelu_formula, cube, product),
        (product.divides, False, False, False), product.last, TanhGelu(), TanhGeluGradient(),
    )
    for cube in CUBES for product in PRODUCTS
]  # fmt: skip
ERF_SPELLINGS = [
    _gelu_spelling(
        "GELU by erf", partial(_erf_gelu_formula, divides, product),
        (product.divides, False, divides), product.last, ErfGelu(), ErfGeluGradient(),
    )
    for divides in (False, True) for product in PRODUCTS
]  # fmt: skip


def _gelu_found(node: Node) -> Iterator[tuple[Spelling, Operands]]:
    """The spellings that may end in a node: if 1 + f(x) is a factor of it, or of a factor."""
    inner = [y for x in node.inputs if isinstance(x.op, (Mul, Div)) for y in x.inputs]
    sums = [x for x in (*node.inputs, *inner) if isinstance(x.op, Add)]
    kinds = {type(y.op) for x in sums for y in x.inputs}
    x = spelling_operand_type(node)
    for kind, count, spellings in ((Tanh, 4, TANH_SPELLINGS), (Erf, 3, ERF_SPELLINGS)):
        if kind in kinds:
            types = (x, *[Type((), x.dtype)] * count)
            yield from [(s, types) for s in spellings if s.last is type(node.op)]


for _last in (Mul, Div):
    spelling(
        Spelling(
            name="GELU",
            last=_last,
            formula=lambda *xs: xs[0],
            operands=_gelu_found,
            fused=lambda *xs: None,
        )
    )
