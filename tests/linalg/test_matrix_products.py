"""Products and powers of matrices, equations between tensors, structured matrices."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from against_numpy import check_calls, same_name
from helpers import told

import pullback as pb
from pullback.errors import ArgumentError, AxisError, ShapeError

RNG = np.random.default_rng(0)
A, B, S = (RNG.standard_normal(shape) for shape in ((3, 4), (2, 3, 4), (2, 3, 3)))
V, Z = RNG.standard_normal(3), RNG.standard_normal((3, 3)) + 1j
I = RNG.integers(-3, 4, (3, 3))  # noqa: E741
T = RNG.standard_normal((2, 3, 6))

numpys, scipys = (partial(same_name, pb.linalg, space) for space in (np.linalg, scipy.linalg))
CALLS = [
    numpys("vecdot", B, B[:1]), numpys("matmul", B, A.T), numpys("outer", V, V),
    numpys("matrix_transpose", B),
    numpys("tensordot", B, A, axes=2), numpys("diagonal", B), numpys("diagonal", B, offset=1),
    numpys("trace", B), numpys("trace", I, offset=-1), numpys("trace", B, dtype=np.float32),
    numpys("cross", A.T, V), numpys("cross", B, B, axis=1), numpys("cross", I, I, axis=0),
    *[numpys("matrix_power", x, n) for x in (S, Z) for n in (0, 1, 2, 5, -1, -3)],
    numpys("matrix_power", I, 3), numpys("matrix_power", I, 0),
    numpys("multi_dot", [A, A.T, V]), numpys("multi_dot", [V, A, A.T]),
    numpys("multi_dot", [A, A.T, A, A.T, V[:, None]]), numpys("multi_dot", [V, I, V]),
    numpys("tensorsolve", T, A[:2, :3]), numpys("tensorinv", T),
    numpys("tensorsolve", T.transpose(0, 2, 1), A[:2, :3], axes=(1,)),
    numpys("tensorinv", T.reshape(6, 3, 2), ind=1),
    scipys("block_diag", A, I, V), scipys("block_diag", Z, 2.0), scipys("block_diag", A[:0], I),
    scipys("toeplitz", V), scipys("toeplitz", Z[0]), scipys("toeplitz", V, A[0]),
    scipys("toeplitz", I[0], I[1]), scipys("hankel", V), scipys("hankel", V, A[0]),
    scipys("hankel", I[0], I[1, :2]), scipys("circulant", V), scipys("circulant", Z[0]),
    scipys("circulant", I[0]), scipys("toeplitz", V[:1]), scipys("circulant", V[:1]),
]  # fmt: skip


def test_values_agree_with_numpy_and_scipy() -> None:
    check_calls(CALLS, compiled=3)


def test_stacks_of_structured_matrices() -> None:
    made = pb.linalg.toeplitz(S[0], S[1])
    np.testing.assert_array_equal(made.numpy(), [scipy.linalg.toeplitz(*r) for r in zip(*S)])
    made = pb.linalg.block_diag(S, A)
    np.testing.assert_array_equal(made.numpy(), [scipy.linalg.block_diag(s, A) for s in S])


def test_derivatives() -> None:
    f = pb.linalg
    cases: list[tuple[Any, tuple]] = [
        (lambda x: f.matrix_power(x, 5), (S,)), (lambda x: f.matrix_power(x, -2), (S,)),
        (lambda x, y: f.multi_dot([x, y, x]), (A, A.T)), (f.tensorsolve, (T, A[:2, :3])),
        (f.tensorinv, (T,)), (f.block_diag, (A, V)), (f.toeplitz, (V, A[0])), (f.toeplitz, (Z[0],)),
        (f.hankel, (V, A[0])), (f.circulant, (V,)), (f.cross, (V, S)), (f.trace, (B,)),
    ]  # fmt: skip
    with pb.config(engine="reference"):
        for g, args in cases:
            pb.check_grads(g, args, 2)


def test_errors() -> None:
    f = pb.linalg
    with told(ShapeError, ValueError, "linalg.matrix_power", "square"):
        f.matrix_power(A, 2)
    with told(ArgumentError, TypeError, "linalg.matrix_power", "integer"):
        f.matrix_power(S, 0.5)
    with told(ShapeError, ValueError, "linalg.multi_dot", "two matrices or more"):
        f.multi_dot([A])
    with told(ShapeError, ValueError, "linalg.multi_dot", "inner dimensions"):
        f.multi_dot([A, A])
    with told(ShapeError, ValueError, "linalg.multi_dot", "arrays[1]"):
        f.multi_dot([A, V, A])
    with told(ShapeError, ValueError, "linalg.cross", "3 elements"):
        f.cross(A, A)
    with told(AxisError, IndexError, "linalg.cross", "axis 3"):
        f.cross(S, S, axis=3)
    with told(ShapeError, ValueError, "linalg.tensorsolve", "as many elements"):
        f.tensorsolve(T, V)
    with told(ShapeError, ValueError, "linalg.tensorinv", "as many elements"):
        f.tensorinv(T, ind=1)
    with told(ShapeError, ValueError, "linalg.tensorinv", "at least 1"):
        f.tensorinv(T, ind=0)
    with told(ShapeError, ValueError, "linalg.toeplitz", "c must be a vector"):
        f.toeplitz(2.0)
