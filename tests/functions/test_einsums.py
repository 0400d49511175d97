"""Einstein summation: forms of its subscripts, and orders of products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import told
from numpy_tables import check_rows, check_second_order

import pullback as pb
from pullback.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(11)
A, B, C = (RNG.normal(size=s) for s in ((3, 4), (4, 5), (5, 2)))
D = RNG.normal(size=(2, 3, 4))
CALLS = [
    ("ij,jk,kl->il", A, B, C), ("ij,jk,kl", A, B, C), ("...j,jk,kl->...l", D, B, C),
    ("...ij,jk->...k", D, B), ("i...->...", A), ("ij,jk,kl,i->", A, B, C, A[:, 0]),
    (A, [0, 1], B, [1, 2], C, [2, 3], [0, 3]), (A, [1, 0], B, [0, 27], C, [27, 3]),
    (D, [..., 1], B, [1, 2], [..., 2]), (A, [0, 1]), (A @ A.T, [3, 3], [3]),
    ("ab,bc,ab,cd->ad", A, B, A, C), ("ij,ij,kj->k", A, A[:1], A), ("i,j,k", A[0], B[0], C[0]),
]  # fmt: skip


def test_every_form_agrees_with_numpy():
    orders = (True, False, "greedy", "optimal", "dp", ("greedy", 8))
    rows = []
    for i, c in enumerate(CALLS):
        for order in orders if i < 3 else orders[i % 6 :][:1]:
            call = lambda c=c, o=order: pb.einsum(*c, optimize=o)  # noqa: E731
            rows.append((f"{c[0]} {order}", call, np.einsum(*c)))
    rows.append(("integers", lambda: pb.einsum("i,i,i->", *[np.arange(4)] * 3), np.array(36)))
    check_rows(rows)


def test_a_path_is_followed_and_is_part_of_the_program():
    path, report = pb.einsum_path("ij,jk,kl->il", A, B, C)
    assert path == ["einsum_path", (1, 2), (0, 1)]
    assert "Optimized FLOP count" in report
    other = ["einsum_path", (0, 1), (0, 1)]
    for steps in (path, other, [(0, 1, 2)], [(0, 2)]):
        got = pb.einsum("ij,jk,kl->il", A, B, C, optimize=steps)
        np.testing.assert_allclose(got.numpy(), A @ B @ C)

    def products(steps):
        f = pb.trace(lambda a, b, c: pb.einsum("ij,jk,kl->il", a, b, c, optimize=steps), A, B, C)
        return str(f).split("path: ", 1)[1].split("}", 1)[0]

    assert [products(path), products(other)] == ["[[1, 2], [0, 1]]", "[[0, 1], [0, 1]]"]
    assert pb.einsum_path("ij,jk->ik", A, B)[0] == ["einsum_path", (0, 1)]
    assert pb.einsum_path(A, [0, 1], B, [1, 2])[0] == ["einsum_path", (0, 1)]


def test_a_long_chain_is_multiplied_from_its_small_end():
    sizes = [40, 40, 40, 40, 40, 1]
    xs = [RNG.normal(size=s) for s in itertools.pairwise(sizes)]
    path = pb.einsum_path("ab,bc,cd,de,ef->af", *xs)[0][1:]
    assert path[0] == (3, 4)  # a vector first: matrices with vectors all the way
    got = pb.einsum("ab,bc,cd,de,ef->af", *xs).numpy()
    np.testing.assert_allclose(got, np.linalg.multi_dot(xs))


def test_einsum_with_a_path_in_transforms():
    check_second_order([lambda a, b, c: pb.einsum("ij,jk,kl,ij->il", a, b, c, a)], A, B, C)
    f = lambda a, b: pb.einsum("ij,jk,kl->il", a, b, C)  # noqa: E731
    got = pb.vmap(f, in_axes=(0, None))(pb.tensor(D), pb.tensor(B)).numpy()
    np.testing.assert_allclose(got, D @ B @ C)
    np.testing.assert_allclose(pb.compile(f)(pb.tensor(A), pb.tensor(B)).numpy(), A @ B @ C)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.einsum("ij"), ArgumentError, "einsum: needs at least one operand"),
        (lambda: pb.einsum(A, 3), ArgumentError, "follow each operand as a list"),
        (lambda: pb.einsum(A, [0, 99]), ArgumentError, "a subscript must be at least 0 and less"),
        (lambda: pb.einsum(A, [0, 1], B, "jk"), ArgumentError, "must be a list of integers"),
        (lambda: pb.einsum(A, [0, 1.5]), ArgumentError, "a subscript must be an integer"),
        (lambda: pb.einsum("ij,jk", A, B, optimize="best"), ArgumentError, "optimize must be True"),
        (lambda: pb.einsum("ij,jk,kl", A, B, C, optimize=[(0, 3)]), ArgumentError, "a step of the"),
        (lambda: pb.einsum("ij,jk,kl", A, B, optimize="dp"), ArgumentError, "names 3 operands"),
        (lambda: pb.einsum("ij,jk,kl", A, B, A), ShapeError, "einsum: 'ij,jk,kl': index 'k'"),
        (lambda: pb.einsum_path("ij,jk,kl", A, B, A), ShapeError, "einsum_path: 'ij,jk,kl'"),
    ],
)
def test_wrong_einsum(call, error, words):
    with told(error, Exception, words):
        call()
