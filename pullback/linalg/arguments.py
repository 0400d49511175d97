"""Argument handling that the functions of linear algebra share."""

from __future__ import annotations

import math

from pullback.errors import ArgumentError, PullbackError, ShapeError
from pullback.functions.arguments import float_arguments, record_as
from pullback.functions.complex_parts import conj
from pullback.functions.shape import matrix_transpose, spread_to_shape
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor, renamed_for_operator
from pullback.lazy.record import record_several
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.helpers import broadcast_shapes
from pullback.ops.linalg.triangles_hermitian import Hermitian
from pullback.ops.op import Op
from pullback.ops.shape.movement import Reshape, Transpose
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, Squeeze
from pullback.typing import ArrayLike

_TRANSPOSES = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def trans_argument(name: str, trans: object) -> str:
    """Return "N", "T" or "C" for 0, 1 or 2, or for the letter itself."""
    found = _TRANSPOSES.get(trans) if type(trans) in (int, str) else None  # type: ignore
    if found is None:
        what = f'trans must be 0, 1, 2, "N", "T" or "C", got {trans!r}'
        raise ArgumentError(what, op=name)
    return found


def _apply_solver(name: str, op: Op, a: Node, b: Node) -> Tensor:
    """Apply a solver: `b` is a vector, or a stack of matrices that broadcasts with `a`."""
    if b.type.rank == 1:
        column = record_as(name, ExpandDims((1,)), b)
        found = _apply_solver(name, op, a, column._node)
        return record_as(name, Squeeze((found.ndim - 1,)), found._node)
    if a.type.rank < 2 or b.type.rank < 2 or a.type.shape[:-1] == b.type.shape[:-1]:
        return record_as(name, op, a, b)
    if a.type.shape[-1] != b.type.shape[-2]:
        what = f"needs right-hand sides with as many rows as the matrix, got {a.type} and {b.type}"
        raise ShapeError(what, op=name, code="E3003")
    if a.type.rank == 2:
        return _apply_solver_to_columns(name, op, a, b)
    try:
        batch = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    except ShapeError:
        what = f"leading dimensions must broadcast, got {a.type} and {b.type}"
        raise ShapeError(what, op=name, code="E3001") from None
    pair = [spread_to_shape(wrap(x), (*batch, *x.type.shape[-2:]))._node for x in (a, b)]
    return record_as(name, op, *pair)


def _apply_solver_to_columns(name: str, op: Op, a: Node, b: Node) -> Tensor:
    """Solve for a stack of right-hand sides as columns of one system, which is factorized once."""
    rank = b.type.rank
    to_columns = (rank - 2, *range(rank - 2), rank - 1)
    columns = record_as(name, Transpose(to_columns), b)
    n, *rest = columns.shape
    flat = record_as(name, Reshape((n, math.prod(rest))), columns._node)
    found = record_as(name, op, a, flat._node)
    back = (*range(1, rank - 1), 0, rank - 1)
    apart = record_as(name, Reshape(columns.shape), found._node)
    return record_as(name, Transpose(back), apart._node)


def float_linalg_arguments(*xs: ArrayLike) -> list[Node]:
    """Return operands of one dtype; integers and bools become the default float dtype."""
    return float_arguments(*[as_tensor(x) for x in xs])


def recorded_results(name: str, op: Op, *nodes: Node) -> tuple[Tensor, ...]:
    """Record an op with several results; errors show the name of the public function."""
    try:
        return record_several(op, nodes)
    except PullbackError as error:
        raise renamed_for_operator(error, name, op.title) from None


def matrix_adjoint(x: Tensor) -> Tensor:
    """Return the conjugate transpose of matrices."""
    swapped = matrix_transpose(x)
    return conj(swapped) if x.dtype.is_complex else swapped


def hermitian_argument(name: str, x: Node, upper: bool) -> Node:
    """Return Hermitian matrices whose lower triangle is that of x, or what its upper one states."""
    found = record_as(name, Hermitian(), x)
    return (matrix_adjoint(found) if upper else found)._node
