"""Sums of products as products of a sum: factors that are the same for all terms come after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Mul, Neg, Square
from pullback.ops.elementwise.division import Div
from pullback.ops.elementwise.guarded import DivNoNan, MulNoNan
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.prelude import TABLE
from pullback.ops.reduce.reductions import Mean, Sum
from pullback.ops.shape.movement import Broadcast

_DEEPEST = 16  # products within products that are looked into
_PRODUCTS, _QUOTIENTS = (Mul, MulNoNan), (Div, DivNoNan)
FactorStep = Callable[[Node], Node]


class SumFactors(NamedTuple):
    """A sum or mean of products: `varying` factors are summed, then the `steps` are applied."""

    axes: tuple[int, ...]
    varying: tuple[Node, ...]
    steps: tuple[FactorStep, ...]
    keepdims: bool

    def value(self, total: Node | None = None) -> Node:
        """The result from the sum of the varying factors, whose reduced axes are kept."""
        y = sum_of_product(self.varying, self.axes) if total is None else total
        for step in self.steps:
            y = step(y)
        return y if self.keepdims else TABLE["Squeeze"](self.axes)(y)


def sum_of_product(varying: tuple[Node, ...], axes: tuple[int, ...]) -> Node:
    """The sum of a product of one or two values; reduced axes are kept."""
    first, *others = varying
    return Sum(axes, True)(Mul()(first, others[0]) if others else first)


def sum_factors(node: Node) -> SumFactors | None:
    """The factors of a sum or mean of floats; None for other nodes, and for long products."""
    op = node.op
    if not isinstance(op, (Sum, Mean)) or not op.axes:
        return None
    x = node.inputs[0].type
    if not x.dtype.is_float or x.dtype.bits < 32:
        return None
    varying, steps = _product_factors(node.inputs[0], x, op.axes, _DEEPEST)
    if len(varying) not in (1, 2) or any(v.type.shape != x.shape for v in varying):
        return None
    if isinstance(op, Mean):
        count = float(op.count(x.shape))
        steps = (*steps, lambda y: y / count)
    ordered = tuple(sorted(varying, key=lambda v: v.number))
    return SumFactors(op.axes, ordered, tuple(steps), op.keepdims)


def _product_factors(
    node: Node, x: Type, axes: tuple[int, ...], depth: int
) -> tuple[tuple[Node, ...], tuple[FactorStep, ...]]:
    """The factors of a node that vary along the axes of the sum, and what else happens to them."""
    op, leaf = node.op, ((node,), ())
    if not depth:
        return leaf
    if isinstance(op, Neg):
        varying, steps = _product_factors(node.inputs[0], x, axes, depth - 1)
        return varying, (*steps, op)
    if isinstance(op, Square) or op == IntegerPow(2):
        return node.inputs * 2, ()
    if not isinstance(op, _PRODUCTS + _QUOTIENTS):
        return leaf
    fixed = [_fixed_along_axes(v, x, axes) for v in node.inputs]
    for i, step in ((0, _factor_after(op, fixed[1])), (1, _factor_before(op, fixed[0]))):
        if step is not None and (i == 0 or isinstance(op, _PRODUCTS)):
            varying, steps = _product_factors(node.inputs[i], x, axes, depth - 1)
            return varying, (*steps, step)
    if not isinstance(op, Mul):
        return leaf
    a, b = (_product_factors(v, x, axes, depth - 1) for v in node.inputs)
    return a[0] + b[0], a[1] + b[1]


def _factor_after(op: Callable[[Node, Node], Node], v: Node | None) -> FactorStep | None:
    return None if v is None else lambda y: op(y, v)


def _factor_before(op: Callable[[Node, Node], Node], v: Node | None) -> FactorStep | None:
    return None if v is None else lambda y: op(v, y)


def _fixed_along_axes(v: Node, x: Type, axes: tuple[int, ...]) -> Node | None:
    """The value before it is repeated along the axes of a sum; None if it varies along them."""
    while isinstance(v.op, Broadcast):
        v = v.inputs[0]
    missing = len(x.shape) - v.type.rank
    repeated = all(i < missing or v.type.shape[i - missing] == 1 for i in axes)
    return v if repeated and v.type.dtype is x.dtype else None
