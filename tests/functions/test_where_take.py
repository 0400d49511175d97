"""Taking and writing by indices: modes, along an axis, segments, one_hot and searchsorted."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told
from numpy_tables import check_rows, check_second_order

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, HostReadError, IndexOutOfRange, ShapeError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4))
FAR = np.array([[-9, -1], [0, 3], [4, 13]])
IDS = np.array([2, 0, 2, -1, 4, 9])
DATA = RNG.normal(size=(6, 2)) + 2.0
LONG = np.sort(np.concatenate([RNG.integers(-3, 4, 97), [np.nan, np.nan, np.inf]]))


def _put(x, indices, values, axis):
    x = x.copy()
    np.put_along_axis(x, indices, values, axis)
    return x


def _segments(ufunc, start, data, ids, count, dtype=None):
    out = np.full((count, *data.shape[1:]), start, dtype or data.dtype)
    inside = (ids >= 0) & (ids < count)
    ufunc.at(out, ids[inside], data[inside])
    return out


def test_taking_and_putting_agree_with_numpy():
    columns, row = np.argsort(X, axis=1)[:, :2], np.array([[2, 0, 1, 2]])
    padded = np.pad(X, ((0, 0), (1, 1)), constant_values=np.nan)
    rows = [
        *[(f"{mode} {axis}", lambda m=mode, a=axis: pb.take(X, FAR, a, m),
           np.take(X, FAR, axis, mode=mode)) for mode in ("clip", "wrap") for axis in (None, 0, 1)],
        ("flat", lambda: pb.take(X, [11, -12]), np.take(X, [11, -12])),
        ("one", lambda: pb.take(X, 2, 1), np.take(X, 2, 1)),
        ("none", lambda: pb.take(X, [], 1), X[:, :0]),
        ("fill", lambda: pb.take(X, [4, 0, -1, -5], 1, "fill"), padded[:, [5, 1, 4, 0]]),
        ("fill value", lambda: pb.take(np.arange(3), pb.tensor([7, 1]), 0, "fill", -1),
         np.array([-1, 1])),
        ("fill from nothing", lambda: pb.take(X[:0], [1], 0, "fill", 2.0), np.full((1, 4), 2.0)),
        ("np.take", lambda: np.take(pb.tensor(X), FAR, mode="wrap"), np.take(X, FAR, mode="wrap")),
        ("put", lambda: pb.tensor(X).put_along_axis(columns, -1.0, 1), _put(X, columns, -1.0, 1)),
        ("put row", lambda: pb.put_along_axis(pb.tensor(X), row, X[:1], 0), _put(X, row, X[:1], 0)),
        ("put flat", lambda: pb.put_along_axis(pb.tensor(X), [3, 5], [7.0, 8.0], None),
         _put(X, np.array([3, 5]), [7.0, 8.0], None)),
        ("put add", lambda: pb.tensor(X[0, :3] * 0).put_along_axis([2, 2, 0], [1, 2, 3], 0, "add"),
         np.array([3.0, 0.0, 3.0])),
        ("along flat", lambda: pb.take_along_axis(X, [3, -1], None), X.ravel()[[3, -1]]),
        ("one_hot", lambda: pb.one_hot(pb.tensor([200, 3], dtype="uint8"), 300, "float64"),
         np.eye(300)[[200, 3]]),
        *[(f"search {side}", lambda s=side: pb.searchsorted(LONG, [2.0, -9.0, np.nan, 9.0], s),
           np.searchsorted(LONG, [2.0, -9.0, np.nan, 9.0], side)) for side in ("left", "right")],
        ("search rows", lambda: pb.searchsorted(np.sort(X), X[:, ::-1], "right"),
         np.stack([np.searchsorted(np.sort(r), r[::-1], "right") for r in X])),
        ("search sorter", lambda: pb.searchsorted(X, X[:, :1], sorter=np.argsort(X)),
         np.argsort(np.argsort(X))[:, :1]),
    ]  # fmt: skip
    check_rows(rows)


def test_segments_agree_with_ufuncs():
    integers = RNG.integers(-9, 9, 6).astype(np.int8)
    good = np.where((IDS < 0) | (IDS > 4), 1, IDS)
    table = [
        (pb.segment_sum, np.add, 0.0), (pb.segment_prod, np.multiply, 1.0),
        (pb.segment_max, np.maximum, -np.inf), (pb.segment_min, np.minimum, np.inf),
    ]  # fmt: skip
    rows = []
    for f, ufunc, start in table:
        drop = lambda f=f: f(DATA, IDS, 5, mode="drop")  # noqa: E731
        rows.append((f"{f.__name__} drop", drop, _segments(ufunc, start, DATA, IDS, 5)))
        counted = lambda f=f: f(DATA, good, indices_are_sorted=False)  # noqa: E731
        rows.append((f"{f.__name__} counted", counted, _segments(ufunc, start, DATA, good, 5)))
    rows += [
        ("int8", lambda: pb.segment_sum(integers, good), _segments(
            np.add, 0, integers.astype(np.int64), good, 5)),
        ("int8 max", lambda: pb.segment_max(integers, good, 6), _segments(
            np.maximum, -128, integers, good, 6)),
        ("bool", lambda: pb.segment_sum(integers > 0, good), _segments(
            np.add, 0, (integers > 0).astype(np.int64), good, 5)),
        ("planes", lambda: pb.segment_sum(X, [[0, 1, 1, 0]] * 3), np.array(
            [X[:, [0, 3]].sum(), X[:, 1:3].sum()])),
        ("no rows", lambda: pb.segment_sum(DATA[:0], np.zeros(0, int)), np.zeros((0, 2))),
        ("no rows, 2", lambda: pb.segment_prod(DATA[:0], np.zeros(0, int), 2), np.ones((2, 2))),
    ]  # fmt: skip
    check_rows(rows)
    ones, zeros = pb.ones(3000, dtype="float16"), pb.zeros(3000, dtype="int64")
    assert pb.segment_sum(ones, zeros, 1).tolist() == [3000.0]


def test_indexing_functions_are_differentiable():
    ids = np.array([2, 0, 2, 2, 4, 0])
    check_second_order(
        [lambda x: pb.segment_sum(x * x, ids, 5), lambda x: pb.segment_prod(x, ids, 5),
         lambda x: pb.segment_max(x**2, ids, 5)[pb.tensor([0, 2, 4])],
         lambda x: pb.segment_min(x**3, IDS, 5, mode="drop")[pb.tensor([0, 2, 4])],
         lambda x: pb.take(x * x, FAR, mode="wrap"), lambda x: pb.take(x, FAR, 0, "clip") ** 2,
         lambda x: pb.take(x**2, [7, 1], 0, "fill", x[0, 0]),
         lambda x: x.put_along_axis([[0], [1]] * 3, x[:, :1] ** 2, 1),
         lambda x: x.put_along_axis([[0, 0]] * 6, x**2, 1, "multiply")],
        DATA,
    )  # fmt: skip


def test_indexing_functions_map_and_compile():
    ids = pb.tensor([[0, 1, 1], [2, 2, 9]])
    data = pb.tensor(X[:2, :3])
    got = pb.vmap(lambda d, i: pb.segment_sum(d, i, 3, mode="drop"))(data, ids).numpy()
    want = [_segments(np.add, 0.0, d, i, 3) for d, i in zip(X[:2, :3], ids.numpy())]
    np.testing.assert_allclose(got, want)
    taken = pb.vmap(lambda d, i: pb.take(d, i, 0, "wrap"))(data, ids).numpy()
    want = [np.take(d, i, mode="wrap") for d, i in zip(X[:2, :3], ids.numpy())]
    np.testing.assert_allclose(taken, want)
    known = [[1], [0]]

    @pb.compile
    def on_host(x):
        summed = pb.segment_sum(x, [0, 0]), pb.one_hot([1, 0], 2)
        return pb.take(x, [1, 0], 0), pb.take_along_axis(x, known, 1), *summed

    want = X[:2][[1, 0]], X[[0, 1], [1, 0]][:, None], X[:2].sum(0)[None], np.eye(2)[[1, 0]]
    for got, wanted in zip(on_host(pb.tensor(X[:2])), want, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6)
    hot = pb.compile(lambda i: pb.one_hot(i, 3))
    assert hot(ids[0]).tolist() == np.eye(3)[[0, 1, 1]].tolist()
    with pytest.raises(IndexOutOfRange, match="one_hot: an index is out of range"):
        hot(ids[1]).numpy()
    with told(IndexOutOfRange, IndexError, "segment_sum: an index is out of range"):
        pb.compile(lambda d, i: pb.segment_sum(d, i, 3))(data[0], pb.tensor([0, -1, 1])).numpy()
    with told(HostReadError, TypeError, "segment_max", "pass num_segments"):
        pb.compile(lambda d, i: pb.segment_max(d, i))(data[0], ids[0])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.take(X, [True, False]), ArgumentError, "take: indices must be integers, got b"),
        (lambda: pb.take(X, [0.5]), DTypeError, "take: indices must be integers, got float64"),
        (lambda: pb.take(X, [12]), IndexOutOfRange, "index 12 is out of range for axis 0"),
        (lambda: pb.take(X, 0, mode="c"), ArgumentError, 'mode must be "raise", "clip"'),
        (lambda: pb.take(X, 0, fill_value=1), ArgumentError, 'fill_value needs mode="fill"'),
        (lambda: pb.take([1], [3], mode="fill"), ArgumentError, "i64 needs a fill value"),
        (lambda: pb.take([1], 3, 0, "fill", 0.5), ArgumentError, "fill_value must be one number"),
        (lambda: pb.take(X[:0], [0], 0, "clip"), IndexOutOfRange, "is empty"),
        (lambda: pb.put_along_axis(X, [[4]], 0.0, 1), IndexOutOfRange, "index 4 is out of range"),
        (lambda: pb.put_along_axis(X[:1], [[1], [0]], 0.0, 1), ShapeError, "must not have more"),
        (lambda: pb.put_along_axis(X, [[0]], 0.0, 1, "mean"), ArgumentError, "mode must be set"),
        (lambda: pb.one_hot([0, 3], 3), IndexOutOfRange, "one_hot: index 3 is out of range for 3"),
        (lambda: pb.one_hot([-1], 3), IndexOutOfRange, "one_hot: index -1 is out of range"),
        (lambda: pb.one_hot([0.5], 3), DTypeError, "one_hot: indices must be integers"),
        (lambda: pb.segment_sum(DATA, IDS, 5), IndexOutOfRange, 'id -1 is out of range for 5 segm'),
        (lambda: pb.segment_sum(DATA, IDS[:2], 5), ShapeError, "the first dimensions of the data"),
        (lambda: pb.segment_sum(DATA, DATA[:, 0]), DTypeError, "segment_ids must be integers"),
        (lambda: pb.segment_sum(DATA, IDS, -1), ArgumentError, "num_segments must not be negative"),
        (lambda: pb.segment_sum(DATA, IDS, 5, mode="x"), ArgumentError, 'mode must be "raise" or'),
        (lambda: pb.searchsorted(X, X[:2]), ShapeError, "the same dimensions before the last one"),
    ],
)  # fmt: skip
def test_wrong_indices(call, error, words):
    with told(error, Exception, words):
        call()
