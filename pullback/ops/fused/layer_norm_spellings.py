"""Ways to write layer norm and RMS norm: of the variance, of the root, of scale and shift.

First norms are found without scale and shift, in all ways to write them; then what is multiplied
and added to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Add, Mul, Square, Sub
from pullback.ops.elementwise.division import Div
from pullback.ops.elementwise.power import IntegerPow
from pullback.ops.elementwise.roots import Rsqrt, Sqrt
from pullback.ops.fused.layer_norm import LayerNormalization, norm_gradients
from pullback.ops.fused.spelling import Operands, Spelling, spelling, spelling_operand_type
from pullback.ops.prelude import Node, constant_node, result_nodes
from pullback.ops.reduce.reductions import Mean, Sum
from pullback.ops.sources import Result

SQUARES: dict[type, Callable[[Node], Node]] = {
    Square: Square(),
    IntegerPow: IntegerPow(2),
    Mul: lambda d: d * d,
}
DIMS = (1, 2, 3)  # how many axes a norm may be along
# How often x - mean is written, and the mean. Equal nodes are merged, but not what reverse mode
# made of them before.
SHARING = ("difference", "mean", "nothing")


class CoreNormSpelling(NamedTuple):
    """One way to write the norm of rows along the last `dims` axes."""

    dims: int
    center: bool
    square: type  # a key of SQUARES
    counted: bool  # whether the sum of squares is divided by an operand, and not a mean
    inverse: bool  # whether rows are multiplied by Rsqrt, and not divided by Sqrt
    scale_first: bool  # whether a scale is multiplied before the root

    def formula(self, shared: str, x: Node, epsilon: Node, *others: Node) -> Node:
        axes = tuple(range(x.type.rank - self.dims, x.type.rank))
        d = again = x
        if self.center:
            mean = Mean(axes, True)(x)
            d = again = x - mean
            if shared != "difference":
                again = x - (mean if shared == "mean" else Mean(axes, True)(x))
        squares = SQUARES[self.square](d)
        mean = Sum(axes, True)(squares) / others[0] if self.counted else Mean(axes, True)(squares)
        root = (Rsqrt() if self.inverse else Sqrt())(mean + epsilon)
        if self.scale_first:
            again = again * others[-1]
        return again * root if self.inverse else again / root

    def operands(self, node: Node) -> Operands:
        x, number = spelling_operand_type(node), Type((), node.type.dtype)
        row = x.with_shape(x.shape[x.rank - self.dims :])
        return (x, number, *[number] * self.counted, *[row] * self.scale_first)

    def fused(self, x: Node, epsilon: Node, *others: Node) -> Node:
        size = math.prod(x.type.shape[x.type.rank - self.dims :])
        count = others[0] if self.counted else constant_node(size, x.type.dtype)
        y = result_nodes(LayerNormalization(self.dims, self.center)(x, epsilon, count))[0]
        return y * others[-1] if self.scale_first else y

    def pull(self, g: Node, y: Node, x: Node, epsilon: Node, *others: Node) -> Sequence:
        """The cotangents of x and the scale; those of epsilon and count are not computed."""
        numbers = [None] * (1 + self.counted)
        if not self.scale_first:
            return [*norm_gradients(y.inputs[0], g), *numbers]
        norm, scale = y.inputs
        rows = tuple(range(x.type.rank - self.dims))
        (dx,) = norm_gradients(norm.inputs[0], g * scale)
        return [dx, *numbers, Sum(rows, False)(g * norm)]


def found_norm_core(node: Node) -> CoreNormSpelling | None:
    """Return how the norm is written that a node seems to be the result of."""
    if not node.type.dtype.is_float or not node.type.rank:
        return None
    inverse = isinstance(node.op, Mul)
    i = next((i for i in (1, 0) if isinstance(node.inputs[i].op, Rsqrt if inverse else Sqrt)), None)
    if i is None or not isinstance(node.inputs[i].inputs[0].op, Add):
        return None
    rows = node.inputs[1 - i]
    for mean in node.inputs[i].inputs[0].inputs:
        counted = isinstance(mean.op, Div)
        total = mean.inputs[0] if counted else mean
        if not isinstance(total.op, Sum if counted else Mean):
            continue
        axes, squared = total.op.axes, total.inputs[0]
        last = axes == tuple(range(node.type.rank - len(axes), node.type.rank))
        if last and type(squared.op) in SQUARES:
            d = squared.inputs[0]
            center = isinstance(d.op, Sub)
            return CoreNormSpelling(
                len(axes), center, type(squared.op), counted, inverse, rows is not d
            )
    return None


class AffineNormSpelling(NamedTuple):
    """A norm that was recognised without scale and shift, and what comes after it."""

    norm: LayerNormalization
    inverse: bool  # as in Core: the rule for a product with a quotient guards against 0 * inf

    def formula(self, x: Node, epsilon: Node, count: Node, *affine: Node) -> Node:
        core = CoreNormSpelling(self.norm.dims, self.norm.center, Square, True, self.inverse, False)
        y = core.formula(SHARING[0], x, epsilon, count)
        if self.norm.scaled:
            y = y * affine[0]
        return y + affine[-1] if self.norm.shifted else y

    def operands(self, node: Node) -> Operands:
        x, number = spelling_operand_type(node), Type((), node.type.dtype)
        row = x.with_shape(x.shape[x.rank - self.norm.dims :])
        return (x, number, number, *[row] * (self.norm.scaled + self.norm.shifted))

    def fused(self, *operands: Node) -> Node:
        return result_nodes(self.norm(*operands))[0]

    def pull(self, g: Node, y: Node, *operands: Node) -> Sequence:
        dx, *affine = norm_gradients(y.inputs[0], g)
        return [dx, None, None, *affine]


def _norm_spelling_operands(node: Node, ops: tuple[type, ...]) -> Iterator[Node]:
    """Yield the operands of operands, where these apply `ops`."""
    if not ops:
        yield node
    elif isinstance(node.op, ops[0]):
        for x in node.inputs:
            yield from _norm_spelling_operands(x, ops[1:])


def _core_norm_spellings(node: Node) -> Iterator[tuple[Spelling, Operands]]:
    """Yield the ways to write the norm that a node seems to be the result of."""
    core = found_norm_core(node)
    if core is not None and core.dims in DIMS:
        for shared in SHARING if core.center else SHARING[:1]:
            yield _core_norm_spelling(core, shared), core.operands(node)


@lru_cache(maxsize=256)
def _core_norm_spelling(core: CoreNormSpelling, shared: str) -> Spelling:
    return Spelling(
        name="layer norm" if core.center else "RMS norm",
        last=Mul if core.inverse else Div,
        formula=partial(core.formula, shared),
        operands=lambda node: (),
        fused=core.fused,
        pull=core.pull,
    )


def _affine_spellings(node: Node) -> Iterator[tuple[Spelling, Operands]]:
    """Yield what may be multiplied and added to a norm, if a node seems to be the result."""
    for scaled, shifted in ((True, True), (True, False), (False, True)):
        ops = (Add,) * shifted + (Mul,) * scaled
        norms = {
            x.inputs[0].op for x in _norm_spelling_operands(node, ops) if isinstance(x.op, Result)
        }
        for norm in norms:
            if isinstance(norm, LayerNormalization) and not norm.scaled and not norm.shifted:
                made = LayerNormalization(norm.dims, norm.center, scaled, shifted)
                for affine in (AffineNormSpelling(made, True), AffineNormSpelling(made, False)):
                    yield _affine_spelling(affine), affine.operands(node)


@lru_cache(maxsize=64)
def _affine_spelling(affine: AffineNormSpelling) -> Spelling:
    return Spelling(
        name="scale and shift of a norm",
        last=Add if affine.norm.shifted else Mul,
        formula=affine.formula,
        operands=lambda node: (),
        fused=affine.fused,
        pull=affine.pull,
        stage=1,
    )


for _last, _read, _stage in (
    (Mul, _core_norm_spellings, 0), (Div, _core_norm_spellings, 0),
    (Add, _affine_spellings, 1), (Mul, _affine_spellings, 1),
):  # fmt: skip
    spelling(
        Spelling(
            name="norm",
            last=_last,
            formula=lambda *xs: xs[0],  # never used: operands come with spellings of their own
            operands=_read,
            fused=lambda *xs: None,
            stage=_stage,
        )
    )
