"""Functions of matrices, such as their exponential, and the equations of their derivatives."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pullback.errors import ArgumentError
from pullback.functions.arguments import float_node, record_as
from pullback.functions.composed import composed
from pullback.functions.shape import broadcast_shapes, spread_to_shape
from pullback.lazy.tensor import Tensor, wrap
from pullback.linalg.arguments import float_linalg_arguments, matrix_adjoint
from pullback.ops.linalg.matrix_exponential import MatrixExp
from pullback.ops.linalg.matrix_roots_logs import MatrixLog, MatrixSqrt
from pullback.ops.linalg.polar import UnitaryFactor
from pullback.ops.linalg.sylvester import Sylvester
from pullback.typing import ArrayLike


class PolarResult(NamedTuple):
    """The result of `polar`."""

    u: Tensor
    p: Tensor


def expm(x: ArrayLike) -> Tensor:
    """Return the exponential of square matrices: the sum of their powers x^k / k!.

    It solves linear differential equations: the derivative of expm(t a) @ y with respect to t is a
    times it.

    >>> pb.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return record_as("linalg.expm", MatrixExp(), float_node(x))


def sqrtm(x: ArrayLike) -> Tensor:
    """Return the principal square root of square matrices, whose square is x.

    The result has the dtype of x: a real matrix with a negative eigenvalue has no such real root
    and gives NaN, unless it is converted to complex. So does a singular matrix.

    >>> pb.linalg.sqrtm([[4.0, 0.0], [0.0, 9.0]]).numpy().round(5).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return record_as("linalg.sqrtm", MatrixSqrt(), float_node(x))


def logm(x: ArrayLike) -> Tensor:
    """Return the principal logarithm of square matrices, whose exponential is x.

    The result has the dtype of x: a real matrix with a negative eigenvalue has no such real
    logarithm and gives NaN, unless it is converted to complex. So does a singular matrix.

    >>> print(pb.linalg.logm([[2.0, 1.0], [1.0, 2.0]]).numpy().round(3))
    [[0.549 0.549]
     [0.549 0.549]]
    """
    return record_as("linalg.logm", MatrixLog(), float_node(x))


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Tensor:
    """Return the solution x of the Sylvester equation a @ x + x @ b = q.

    It is unique unless an eigenvalue of a is the negative of one of b. Dimensions before the last
    two are those of a stack; they broadcast.

    >>> pb.linalg.solve_sylvester([[2.0]], [[3.0]], [[10.0]]).tolist()
    [[2.0]]
    """
    nodes = float_linalg_arguments(a, b, q)
    if all(x.type.rank >= 2 for x in nodes):
        lead = broadcast_shapes(*[x.type.shape[:-2] for x in nodes])
        nodes = [spread_to_shape(wrap(x), (*lead, *x.type.shape[-2:]))._node for x in nodes]
    return record_as("linalg.solve_sylvester", Sylvester(), *nodes)


@composed
def polar(a: ArrayLike, side: Literal["right", "left"] = "right") -> PolarResult:
    """Return the polar decomposition: a matrix u with orthonormal columns or rows, and a positive
    semidefinite p for which a is u @ p, or p @ u if `side` is "left".

    >>> u, p = pb.linalg.polar([[0.0, -2.0], [3.0, 0.0]])
    >>> abs(u).round().tolist(), p.round().tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[3.0, 0.0], [0.0, 2.0]])
    """
    if side not in ("right", "left"):
        raise ArgumentError(f'side must be "right" or "left", got {side!r}', op="linalg.polar")
    x = wrap(float_node(a))
    if x.ndim < 2 or x.shape[-2] >= x.shape[-1]:
        u = record_as("linalg.polar", UnitaryFactor(), x._node)
    else:
        u = matrix_adjoint(record_as("linalg.polar", UnitaryFactor(), matrix_adjoint(x)._node))
    p = matrix_adjoint(u) @ x if side == "right" else x @ matrix_adjoint(u)
    return PolarResult(u, (p + matrix_adjoint(p)) * 0.5)


__all__ = ["PolarResult", "expm", "logm", "polar", "solve_sylvester", "sqrtm"]
