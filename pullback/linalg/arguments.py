"""Argument handling that the functions of linear algebra share."""

from __future__ import annotations

from pullback.errors import ArgumentError, PullbackError
from pullback.functions.arguments import float_arguments, record_as
from pullback.functions.complex_parts import conj
from pullback.functions.shape import matrix_transpose
from pullback.graph.node import Node
from pullback.lazy.operators import as_tensor, renamed_for_operator
from pullback.lazy.record import record_several
from pullback.lazy.tensor import Tensor
from pullback.ops.linalg.triangles_hermitian import Hermitian
from pullback.ops.op import Op
from pullback.typing import ArrayLike

_TRANSPOSES = {0: "N", 1: "T", 2: "C", "N": "N", "T": "T", "C": "C"}


def trans_argument(name: str, trans: object) -> str:
    """Return "N", "T" or "C" for 0, 1 or 2, or for the letter itself."""
    found = _TRANSPOSES.get(trans) if type(trans) in (int, str) else None  # type: ignore
    if found is None:
        what = f'trans must be 0, 1, 2, "N", "T" or "C", got {trans!r}'
        raise ArgumentError(what, op=name)
    return found


def float_linalg_arguments(*xs: ArrayLike) -> list[Node]:
    """Return operands of one dtype; integers and bools become the default float dtype."""
    return float_arguments(*[as_tensor(x) for x in xs])


def linalg_results(name: str, op: Op, *nodes: Node) -> tuple[Tensor, ...]:
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
