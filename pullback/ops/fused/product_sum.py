"""A product of matrices and what is added to it, as one op."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pullback.errors import ShapeError
from pullback.ops.elementwise.arithmetic import Add
from pullback.ops.fused.spelling import Operands, Spelling, spelling, spelling_operand_type
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.product_kernel import product_call
from pullback.ops.prelude import Composite, Node, Type, same_dtype
from pullback.ops.samples import real
from pullback.ops.traits import HasKernel


class ProductSum(Composite, HasKernel):
    """x @ y plus one or two addends that broadcast to it: a bias, a residual."""

    def infer(self, x: Type, y: Type, *addends: Type) -> Type:
        product = MatMul().infer(x, y)
        same_dtype(self.title, product, *addends)
        for c in addends:
            given = zip(reversed(c.shape), reversed(product.shape), strict=False)
            if c.rank > product.rank or any(n not in (1, m) for n, m in given):
                raise ShapeError(f"addends must broadcast to {product}, got {c}")
        return product

    def expand(self, x: Node, y: Node, *addends: Node) -> Node:
        total = MatMul()(x, y)
        for c in addends:
            total = Add()(total, c)
        return total

    def kernel(self, b: Any, out: Type, x: Any, y: Any, *addends: Any) -> Any:
        rank, batch = len(x.shape), tuple(range(len(y.shape) - 2))
        if batch and x.shape[:-2] != y.shape[:-2]:
            return None
        contract = (rank - 1,), (len(batch),)
        return product_call(b, out, x, y, contract, (batch, batch), addends)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), real(4, 2, salt=1), real(2, salt=2))
        yield cls(), (real(2, 3, 4), real(4, 2, salt=1), real(2, salt=2), real(2, 3, 2, salt=3))
        yield cls(), (real(2, 3, 4), real(2, 4, 5, salt=1), real(3, 1, salt=2))


def _product_sum_operands(node: Node, op: type, count: int) -> Iterator[Operands]:
    """The types of a sum's operands, if one of its terms has the op, applied to so many."""
    for term, other in (node.inputs, node.inputs[::-1]):
        whole = term.type.shape == node.type.shape and node.type.dtype.is_float
        if isinstance(term.op, op) and len(term.inputs) == count and whole:
            yield *[spelling_operand_type(x) for x in term.inputs], spelling_operand_type(other)


# After all other formulas, which may contain such sums
for _op, _count in ((MatMul, 2), (ProductSum, 3)):
    spelling(
        Spelling(
            name=f"product and {_count - 1} addends",
            last=Add,
            formula=lambda *xs: ProductSum().expand(*xs),
            operands=partial(_product_sum_operands, op=_op, count=_count),
            fused=lambda *xs: ProductSum()(*xs),
            stage=2 + _count,
        )
    )
