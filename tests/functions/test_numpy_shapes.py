"""Stacking, splitting, rearranging, diagonals, index arrays and replacements, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import told
from numpy_cases import Case, case, check_cases, check_derivatives, check_transforms

import pullback as pb
from pullback.errors import ArgumentError, HostReadError, IndexOutOfRange, ShapeError

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 3, 4))
V, W = RNG.normal(size=4), RNG.normal(size=3)
I = RNG.integers(-3, 9, (3, 4))  # noqa: E741
Z = A + 1j * A[::-1]
EMPTY = np.zeros((0, 4))


def changed(name: str) -> Any:
    """NumPy's function that changes its first argument, as one that returns it."""

    def apply(x: np.ndarray, *args: Any, inplace: bool = False, **kwargs: Any) -> np.ndarray:
        x = np.array(x)
        getattr(np, name)(x, *args, **kwargs)
        return x

    return apply


def written(name: str, *args: Any, **kwargs: Any) -> Any:
    return case(name, *args, inplace=False, like=changed(name), **kwargs)


STACKING = [
    *[case(n, x) for n in ("atleast_1d", "atleast_2d", "atleast_3d")
      for x in (np.float64(2.5), V, A, B, EMPTY)],
    case("atleast_2d", V, A), case("atleast_3d", V, A),
    *[case(n, [V, W[:0], V]) for n in ("hstack",)],
    *[case(n, [V, V + 1]) for n in ("vstack", "hstack", "dstack", "column_stack")],
    *[case(n, [A, I]) for n in ("vstack", "hstack", "dstack", "column_stack")],
    *[case(n, [B, B]) for n in ("vstack", "hstack", "dstack", "column_stack")],
    *[case(n, [np.float64(1), np.float64(2)])
      for n in ("vstack", "hstack", "dstack", "column_stack")],
    case("vstack", [A, EMPTY]), case("hstack", [I, Z]), case("vstack", (V, A)),
    case("column_stack", [W, A]), case("vstack", B), case("row_stack", [V, V], like=np.vstack),
    case("vstack", [I, I], dtype="float32"),
    case("append", A, I), case("append", A, A[:1], axis=0), case("append", V, 3.0),
    case("block", [A, A]), case("block", [[A, A], [I, I]]), case("block", [[B]]), case("block", V),
    case("block", [[np.eye(2), np.zeros((2, 1))], [np.ones((1, 3))]]), case("block", [1.5, V]),
    case("array_split", V, 3), case("array_split", A, 2, axis=1), case("array_split", V, 9),
    case("array_split", V, [1, 3]), case("array_split", V, np.array([2, 9])),
    case("hsplit", A, 2), case("hsplit", V, [1]), case("vsplit", A, 3), case("vsplit", B, [1]),
    case("dsplit", B, 2), case("hsplit", EMPTY, [2]),
]  # fmt: skip

REARRANGING = [
    case("flipud", A), case("fliplr", A), case("fliplr", B), case("flipud", V),
    *[case("rollaxis", B, a, s) for a in (0, 1, -1) for s in (0, 1, 2, 3, -1, -3)],
    case("resize", A, (2, 3)), case("resize", V, (3, 5)), case("resize", I, 3),
    case("resize", EMPTY, (2, 2)), case("resize", V, (0, 2)), case("resize", V, ()),
    case("trim_zeros", np.array([0, 0, 1, 0, 2, 0])), case("trim_zeros", np.array([0.0, 0.0])),
    case("trim_zeros", np.array([0, 1, 0, 2, 0]), "f"), case("trim_zeros", I[0] * 0, "b"),
    case("trim_zeros", np.pad(A, 2)), case("trim_zeros", np.pad(A, 2), axis=0),
    case("delete", V, 1), case("delete", V, -1), case("delete", A, [0, 2], axis=0),
    case("delete", A, slice(1, 3), axis=1), case("delete", A, 5), case("delete", V, []),
    case("delete", A, np.array([True, False, True]), axis=0), case("delete", I, [1, 1], axis=1),
    case("insert", V, 1, 9.0), case("insert", V, -1, [1.0, 2.0]), case("insert", A, 1, W, axis=1),
    case("insert", A, 1, V, axis=0), case("insert", A, [1], W[:, None], axis=1),
    case("insert", A, [0, 2], 7.5, axis=1), case("insert", A, [3, 0], A[:2], axis=0),
    case("insert", V, slice(0, 2), [5, 6]), case("insert", A, 12, 1.0), case("insert", I, 0, 2.7),
    case("insert", V, [2, 2, 0], [1.0, 2.0, 3.0]), case("insert", B, 1, 0.0, axis=2),
    case("compress", [True, False, True], A, axis=0), case("compress", [0, 1, 1], A),
    case("compress", [False] * 4, A, axis=1), case("extract", A > 0, A), case("extract", [1, 0], V),
]  # fmt: skip

MATRICES = [
    *[case("diag", V, k) for k in (-2, 0, 1)], *[case("diag", A, k) for k in (-1, 0, 2, 9)],
    case("diag", I[0]), case("diag", V[:0]), case("diag", Z[0], 1), case("diag", V > 0),
    case("diagflat", A), case("diagflat", V, -1), case("diagflat", 3.0),
    written("fill_diagonal", A, 7.0),
    written("fill_diagonal", I, [1, 2]),
    written("fill_diagonal", np.zeros((7, 2)), 1.0, wrap=True),
    written("fill_diagonal", np.zeros((7, 2)), 1.0),
    written("fill_diagonal", np.zeros((3, 3, 3)), V),
    case("tri", 3), case("tri", 2, 4, 1), case("tri", 3, 3, -1, dtype="int32"), case("tri", 0, 3),
]  # fmt: skip

INDICES = [
    case("indices", (2, 3)), case("indices", (2, 3), sparse=True), case("indices", (3, 0)),
    case("indices", (2, 2), dtype="float32"),
    case("ix_", [0, 2], [1, 3]), case("ix_", [True, False, True], [1]), case("ix_", [], [1]),
    case("argwhere", I > 2), case("argwhere", A[0]), case("argwhere", np.array(3.0)),
    case("flatnonzero", I > 2), case("where", I > 2), case("where", V),
    case("diag_indices", 3), case("diag_indices", 2, 3), case("diag_indices_from", np.eye(3)),
    *[case(n, 3, k, m) for n in ("tril_indices", "triu_indices")
      for k, m in ((0, None), (1, 4), (-1, 2))],
    case("tril_indices_from", A, 1), case("triu_indices_from", A),
    case("mask_indices", 3, np.triu, 1, like=lambda n, f, k: np.mask_indices(n, np.triu, k)),
    case("unravel_index", [22, 41, 37], (7, 6)), case("unravel_index", 13, (2, 3, 4)),
    case("unravel_index", np.array([[1], [2]]), 5),
    case("ravel_multi_index", (np.array([3, 6]), np.array([4, 5])), (7, 6)),
    case("ravel_multi_index", ([3, 6], [4, -5]), (4, 4), mode="wrap"),
    case("ravel_multi_index", ([3, 6], [4, -5]), (4, 4), mode=("clip", "wrap")),
    case("meshgrid", V, W, sparse=True), case("meshgrid", V, W, V, sparse=True, indexing="ij"),
]  # fmt: skip

REPLACING = [
    written("put", A, [0, -1, 5], [1.0, 2.0]),
    written("put", I, [22, -15], 3, mode="clip"),
    written("put", I, [22, -15], 3, mode="wrap"),
    written("put", V, [], 3), written("put", V, [1], []),
    written("put_along_axis", A, np.argmax(A, 1)[:, None], 99.0, 1),
    written("put_along_axis", A, np.array([[1, -1, 0, 2]]), V[None], 0),
    written("put_along_axis", V, np.array([0, 2]), 1.0, None),
    written("putmask", A, A > 0, [1.0, 2.0, 3.0]),
    written("putmask", I, I > 2, -I),
    written("place", A, A > 0, [1.0, 2.0, 3.0]),
    written("place", I, I > 2, np.arange(50)),
]  # fmt: skip


@pytest.mark.parametrize(
    "cases", [STACKING, REARRANGING, MATRICES, INDICES, REPLACING],
    ids=["stacking", "rearranging", "matrices", "indices", "replacing"],
)  # fmt: skip
def test_values_are_those_of_numpy(cases: list[Case]) -> None:
    check_cases(cases)


def test_grids() -> None:
    for ours, theirs in ((pb.mgrid, np.mgrid), (pb.ogrid, np.ogrid)):
        for index in (np.s_[0:3, 1:5], np.s_[0:1:3j, 0:2], np.s_[-1:1:5j], np.s_[3:], np.s_[:4:2]):
            if index == np.s_[3:]:
                with told(ArgumentError, TypeError, "needs slices with an end"):
                    ours[index]
                continue
            got, want = ours[index], theirs[index]
            for g, w in zip(got, want, strict=True):
                np.testing.assert_allclose(g.numpy(), w)
    assert repr(pb.mgrid) == "pullback.mgrid"


def test_derivatives() -> None:
    i = np.array([0, 2])
    check_derivatives([
        (lambda x, y: pb.vstack([x, y]) ** 2, (A, V)), (lambda x: pb.dstack([x, x * x]), (A,)),
        (lambda x: pb.diag(x, 1) ** 2, (V,)), (lambda x: pb.diag(x @ x.mT) ** 2, (A,)),
        (lambda x, v: pb.fill_diagonal(x, v, inplace=False) ** 2, (A, W)),
        (lambda x: pb.resize(x, (3, 5)) ** 2, (V,)), (lambda x: pb.delete(x, 1, 0) ** 2, (A,)),
        (lambda x, v: pb.insert(x, [0, 2], v, axis=1) ** 2, (A, W[:, None])),
        (lambda x, v: pb.put(x, i, v, inplace=False) ** 2, (V, W[:2])),
        (lambda x, v: pb.putmask(x, V > 0, v, inplace=False) ** 2, (V, W)),
        (lambda x, v: pb.place(x, V > 0, v, inplace=False) ** 2, (V, W)),
        (lambda x, v: pb.put_along_axis(x, i[:, None], v, 1, inplace=False) ** 2,
         (A[:2], W[:2, None])),
        (lambda x: pb.array_split(x * x, 3, axis=1), (A,)),
        (lambda x: pb.block([[x, x * x], [x, x]]), (A,)),
    ])  # fmt: skip


def test_they_run_inside_transforms() -> None:
    def f(x: Any) -> tuple:
        return (
            pb.vstack([x, x]), pb.diag(x), pb.delete(x, [0]), pb.insert(x, 1, 5.0), pb.resize(x, 7),
            pb.fill_diagonal(pb.outer(x, x), 0.0), pb.place(x, x > 0, [1.0, 2.0], inplace=False),
            pb.unravel_index(pb.argsort(x), (2, 2)), pb.put(+x, [1], 2.0), pb.hsplit(x, 2),
            pb.put_along_axis(+x, pb.argsort(x), x, 0), pb.tril_indices(2), pb.indices((2, 2)),
        )  # fmt: skip

    check_transforms(f, A)


def test_they_write_to_their_argument_as_in_numpy() -> None:
    for name, args in (
        ("put", ([0, -1], [7.0, 8.0])), ("put_along_axis", (np.array([[0, 1, 2, 0]]), V[None], 0)),
        ("putmask", (A > 0, -A)), ("place", (A > 0, [1.0, 2.0])), ("fill_diagonal", (5.0,)),
    ):  # fmt: skip
        want, x, y = A.copy(), pb.tensor(A), pb.tensor(A)
        getattr(np, name)(want, *args)
        assert getattr(pb, name)(x, *args) is x and getattr(np, name)(y, *args) is None
        assert x.tolist() == y.tolist() == want.tolist(), name
        with told(ArgumentError, TypeError, f"{name}: x must be a tensor", "inplace=False"):
            getattr(pb, name)(A, *args)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.vstack(3), ArgumentError, "vstack: arrays must be a sequence"),
        (lambda: pb.hstack([]), ArgumentError, "hstack: arrays must contain"),
        (lambda: pb.vstack([A, V[:2]]), ShapeError, "vstack: "),
        (lambda: pb.append(A, V, axis=0), ShapeError, "append: "),
        (lambda: pb.block([[A], A]), ArgumentError, "block: all lists"),
        (lambda: pb.hsplit(A, 3), ShapeError, "hsplit: axis 1 of f64[3,4] cannot be split into 3"),
        (lambda: pb.dsplit(A, 2), ShapeError, "dsplit: needs rank 3"),
        (lambda: pb.rollaxis(B, 0, 4), ArgumentError, "rollaxis: start must be from -3 to 3"),
        (lambda: pb.trim_zeros(V, "x"), ArgumentError, "trim_zeros: trim must be"),
        (lambda: pb.delete(V, 4), IndexOutOfRange, "delete: index 4 is out of range for axis 0"),
        (lambda: pb.delete(V, 1.5), ArgumentError, "delete: indices must be integers"),
        (lambda: pb.delete(V, [[1], [1, 2]]), ArgumentError, "delete: indices must be integers"),
        (lambda: pb.insert(V, 5, 0.0), IndexOutOfRange, "insert: index 5 is out of range"),
        (lambda: pb.compress(A, A), ShapeError, "compress: the condition must be a vector"),
        (lambda: pb.diag(B), ShapeError, "diag: needs a vector or a matrix, got f64[2,3,4]"),
        (lambda: pb.fill_diagonal(V, 0), ShapeError, "fill_diagonal: needs a matrix"),
        (lambda: pb.ix_(A), ShapeError, "ix_: argument 0 must be a vector"),
        (lambda: pb.unravel_index([6], (2, 3)), IndexOutOfRange, "unravel_index: index 6 is out"),
        (lambda: pb.ravel_multi_index(([2], [0]), (2, 2)), IndexOutOfRange, "index 2 is out"),
        (lambda: pb.ravel_multi_index(([2],), (2, 2)), ArgumentError, "needs an index and a mode"),
        (lambda: pb.put(V, [1], 2.0, mode="wrong"), ArgumentError, "put: mode must be"),
        (lambda: pb.place(V, V > 0, []), ArgumentError, "place: vals must not be empty"),
        (lambda: pb.putmask(V, A > 0, 1), ShapeError, "putmask: x and mask must have"),
        (lambda: pb.where(V, 1), ArgumentError, "where: needs both"),
        (lambda: pb.compile(pb.argwhere)(V), HostReadError, "argwhere: "),
        (lambda: pb.compile(pb.trim_zeros)(V), HostReadError, "trim_zeros: "),
        (lambda: pb.compile(lambda i: pb.delete(V, i))(pb.tensor([1])), HostReadError, "delete: "),
    ],
)  # fmt: skip
def test_mistakes_name_the_function(call: Any, error: type, words: str) -> None:
    with told(error, Exception, words):
        call()


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_indices_are_checked_when_the_program_runs(engine: str) -> None:
    with pb.config(engine=engine):
        with told(IndexOutOfRange, IndexError, "unravel_index: ", "less than 6"):
            pb.unravel_index(pb.tensor([1, 6]), (2, 3))[0].tolist()
        checked = pb.vmap(lambda i: pb.unravel_index(i, (2, 3)))(pb.tensor([1, 5]))
        assert [c.tolist() for c in checked] == [[0, 1], [1, 2]]
