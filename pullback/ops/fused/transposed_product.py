"""The transpose of a product of matrices as the product of their transposes.

Gradients of a layer `x @ weight.mT` are such transposes. Kernels read operands in any order, but
write results by rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial

from pullback.ops.fused.spelling import Operands, Spelling, spelling, spelling_operand_type
from pullback.ops.linalg.dot_general import DotGeneral
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.prelude import Node
from pullback.ops.shape.movement import Transpose


def _matrices_transposed(x: Node) -> Node:
    rank = x.type.rank
    return Transpose((*range(rank - 2), rank - 1, rank - 2))(x)


def _transposed_product_spellings(node: Node) -> Iterator[tuple[Spelling, Operands]]:
    """The spelling of a product whose transpose is `node`."""
    assert isinstance(node.op, Transpose)
    product, rank, perm = node.inputs[0], node.type.rank, node.op.perm
    if rank < 2 or perm != (*range(rank - 2), rank - 1, rank - 2) or not node.type.dtype.is_float:
        return
    if isinstance(product.op, (MatMul, DotGeneral)) and _is_matrix_product(product):
        x, y = product.inputs
        yield _transposed_spelling(product.op), (spelling_operand_type(x), spelling_operand_type(y))


def _is_matrix_product(product: Node) -> bool:
    """Whether rows are of the first operand and columns of the second, and nothing broadcasts."""
    x, y = product.inputs
    if isinstance(product.op, MatMul):
        return x.type.shape[:-2] == y.type.shape[:-2]
    op = product.op
    assert isinstance(op, DotGeneral)
    free = [len(op.free(i, z.type.rank)) for i, z in enumerate((x, y))]
    return free == [1, 1] and not op.batched[0]


@lru_cache(maxsize=64)
def _transposed_spelling(op: MatMul | DotGeneral) -> Spelling:
    return Spelling(
        name="transposed product", last=Transpose,
        formula=lambda x, y: _matrices_transposed(op(x, y)),
        operands=lambda node: (), fused=partial(_swapped_product, op), stage=2,
    )  # fmt: skip


def _swapped_product(op: MatMul | DotGeneral, x: Node, y: Node) -> Node:
    if isinstance(op, MatMul):
        return op(_matrices_transposed(y), _matrices_transposed(x))
    return DotGeneral(op.contract[::-1], ((), ()))(y, x)


spelling(
    Spelling(
        name="transposed product",
        last=Transpose,
        formula=lambda *xs: xs[0],
        operands=_transposed_product_spellings,
        fused=lambda *xs: None,
        stage=2,
    )
)
