"""Square roots and logarithms of matrices, computed in f64 or complex128."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph.dtypes import complex128, float64, int32
from pullback.graph.graph import Graph
from pullback.ops.control.while_loop import While
from pullback.ops.elementwise.functions import (
    both,
    cast,
    equal,
    greater_equal,
    less,
    where,
)  # fmt: skip
from pullback.ops.elementwise.special_base import special_base_array
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.helpers import op_functions
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.eig import Eig
from pullback.ops.linalg.lu_solve_inverse import Inverse, Solve
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.matrix_rows_columns import scaled_columns, swap_rows_columns
from pullback.ops.linalg.sylvester import Sylvester
from pullback.ops.linalg.triangles_hermitian import eye_like
from pullback.ops.prelude import Axis, Composite, Node, Type, constant_node, result_nodes, zeros
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Any_, Sum
from pullback.ops.samples import complex_samples, diagonally_dominant, real
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.movement import Broadcast, Reshape
from pullback.ops.shape.slicing import Slice
from pullback.ops.sources import Input
from pullback.ops.wrap.identity import StopGradient

absolute, square_root = op_functions("Abs", "Sqrt")
ROUNDS = 100  # no matrix that has a root takes as many
CLOSE = 1e-8  # distance from the limit after which one more step is the last
NEAR = 0.25  # distance from the identity within which a logarithm is a short sum


class MatrixFunction(Composite, abstract=True):
    """A function of square matrices, whose derivatives are not those of its steps."""

    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x

    def expand(self, x: Node) -> Node:
        if 0 in x.type.shape:
            return x
        wide = complex128 if x.type.dtype.is_complex else float64
        return cast(self.formula(cast(x, wide)), x.type.dtype)

    def formula(self, x: Node) -> Node:
        """Return the value for matrices of 64-bit numbers that are not empty."""
        raise AssertionError(f"{self.name} states no formula")

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        for x in (real(2, 3, 3), complex_samples(2, 2), real(0, 0), real(0, 2, 2)):
            yield cls(), (diagonally_dominant(x),)


class MatrixSqrt(MatrixFunction):
    """The principal square root of square matrices: its eigenvalues have positive real parts.

    A singular matrix gives NaN, and so does a real one with a negative eigenvalue. A change of the
    root, s, solves the Sylvester equation s ds + ds s = dx.
    """

    title = "sqrtm"

    def formula(self, x: Node) -> Node:
        # The product form of the iteration by Denman and Beavers: m tends to 1, and y to the root.
        size = _matrix_root_column_norm(x)
        scaled = x / cast(where(both(less(0, size), less(size, np.inf)), size, 1), x.type.dtype)
        m, y = (Input(name, x.type.shape, x.type.dtype)() for name in "my")
        i = Input("i", (), int32)()
        far = greater_equal(_matrix_identity_distance(m), CLOSE)
        following = _matrix_root_step(m, y)
        body = [i + 1, *[where(far, new, old) for new, old in zip(following, (m, y), strict=True)]]
        goes_on = both(less(i, ROUNDS), Any_(tuple(range(far.type.rank)), False)(far))
        loop = While(Graph([i, m, y], [goes_on]), Graph([i, m, y], body), 3)
        _, m, y = result_nodes(loop(constant_node(0, int32), scaled, scaled))
        found = _matrix_root_step(m, y)[1] * cast(square_root(size), x.type.dtype)
        if not x.type.dtype.is_complex:
            return where(less(_matrix_identity_distance(m), CLOSE), found, np.nan)
        # It does not converge for negative eigenvalues, where the root is on the imaginary axis.
        return where(less(_matrix_identity_distance(m), CLOSE), found, _root_by_eigenvectors(x))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        back = adjoint(out)
        return [Sylvester()(back, back, g)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else Sylvester()(out, out, ts[0])


class MatrixLog(MatrixFunction):
    """The principal logarithm of square matrices: its eigenvalues are above -pi and below pi times
    the imaginary unit.

    A singular matrix gives NaN, and so does a real one with a negative eigenvalue. The derivative
    in a direction is a block of the logarithm of a matrix of twice the size, as for `MatrixExp`.
    """

    title = "logm"

    def formula(self, x: Node) -> Node:
        # Square roots bring x near to the identity; each halves the logarithm.
        i, y = Input("i", (), int32)(), Input("y", x.type.shape, x.type.dtype)()
        scale = Input("s", (*x.type.shape[:-2], 1, 1), float64)()
        far = greater_equal(_matrix_identity_distance(y), NEAR)
        body = [i + 1, where(far, MatrixSqrt()(y), y), where(far, scale * 2, scale)]
        goes_on = both(less(i, ROUNDS), Any_(tuple(range(far.type.rank)), False)(far))
        loop = While(Graph([i, y, scale], [goes_on]), Graph([i, y, scale], body), 3)
        ones = Broadcast(scale.type.shape)(constant_node(1, float64))
        _, y, scale = result_nodes(loop(constant_node(0, int32), x, ones))
        return _matrix_log_near_identity(y - eye_like(y.type)) * cast(scale, x.type.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [_matrix_log_direction(adjoint(xs[0]), g)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else _matrix_log_direction(xs[0], ts[0])


def _matrix_root_column_norm(x: Node) -> Node:
    """Return the largest sum of sizes in a column of each matrix, as a matrix of one element."""
    rank = x.type.rank
    return Max((rank - 1,), True)(Sum((rank - 2,), True)(absolute(x)))


def _matrix_identity_distance(x: Node) -> Node:
    """Return the norm of the difference from the identity."""
    return _matrix_root_column_norm(x - eye_like(x.type))


def _matrix_root_step(m: Node, y: Node) -> tuple[Node, Node]:
    inverse, one = Inverse()(m), eye_like(m.type)
    return one * 0.5 + (m + inverse) * 0.25, MatMul()(y, one + inverse) * 0.5


def _root_by_eigenvectors(x: Node) -> Node:
    values, vectors = result_nodes(Eig()(x))
    singular = Any_((values.type.rank - 1,), True)(equal(values, 0))
    roots = where(singular, np.nan, square_root(values + 0))
    return swap_rows_columns(Solve("T")(vectors, swap_rows_columns(scaled_columns(vectors, roots))))


def _matrix_log_near_identity(x: Node) -> Node:
    """Return log(1 + x): the integral of x / (1 + t x) over t from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    shape = (len(nodes), *(1,) * x.type.rank)
    t, w = (
        cast(Reshape(shape)(special_base_array(v)), x.type.dtype)
        for v in ((nodes + 1) / 2, weights / 2)
    )
    whole = (len(nodes), *x.type.shape)
    found = Solve()(eye_like(x.type) + t * x, Broadcast(whole)(x))
    return Sum((0,), False)(found * w)


def _matrix_log_direction(x: Node, direction: Node) -> Node:
    """Return the derivative of the logarithm at x in a direction, which is made small first: it
    must not decide how many roots are taken."""
    n, rank = x.type.shape[-1], x.type.rank
    if 0 in x.type.shape:
        return direction
    size = StopGradient()(_matrix_root_column_norm(direction))
    size = where(both(less(0, size), less(size, np.inf)), size, 1) * (4 / NEAR)
    size = cast(size, x.type.dtype)
    upper = Concat(rank - 1)(x, direction / size)
    whole = MatrixLog()(Concat(rank - 2)(upper, Concat(rank - 1)(zeros(x.type), x)))
    starts, stops = (*(0,) * (rank - 1), n), (*x.type.shape[:-2], n, 2 * n)
    return Slice(starts, stops, (1,) * rank)(whole) * size
