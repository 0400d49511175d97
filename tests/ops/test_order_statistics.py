"""Sorting by integer keys, and order statistics that are found by counting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import pullback as pb
from pullback.ops.sort import selection
from pullback.ops.sort.order_statistics import OrderStatistics, RankIndices
from pullback.ops.sort.sort import SortWithIndices, sort_order

DTYPES = ("bool", "int8", "int64", "uint8", "uint32", "uint64", "float16", "float32", "float64")
COUNTED = ("uint32", "float16", "float64")  # each takes a loop that has to be compiled


def hard_values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers with ties, extremes, zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        limits = np.iinfo(dtype)
        made = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.3, made[0, 0], made)
    made = np.where(rng.random(shape) < 0.5, 9 * rng.standard_normal(shape), 0).astype(dtype)
    made = np.where(rng.random(shape) < 0.5, np.round(made), made)
    for value in (-0.0, np.inf, -np.inf, np.nan, -np.nan):
        made[rng.random(shape) < 0.05] = value
    return made.astype(dtype)


@pytest.fixture(params=[False, True], ids=["xla", "kernels"])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(selection, "LEAST", 100)
    with pb.config(kernels=request.param):
        yield


@pytest.mark.usefixtures("kernels")
def test_keys_and_counts_agree_with_numpy() -> None:
    axes = [i % 2 for i in range(len(DTYPES))]
    arrays = [hard_values(d, ((700, 2), (2, 700))[a]) for d, a in zip(DTYPES, axes, strict=True)]
    ranks, ranked = (0, 300, 301), (OrderStatistics, RankIndices)

    @pb.compile
    def found(tensors: list) -> list:
        return [
            (
                pb.sort(x, axis=a), pb.sort(x, axis=a, descending=True), pb.argsort(x, axis=a),
                pb.argsort(x, axis=a, descending=True),
                *[pb.apply(op(a, ranks), x) for op in ranked if DTYPES[i] in COUNTED],
            )
            for i, (x, a) in enumerate(zip(tensors, axes, strict=True))
        ]  # fmt: skip

    made = found([pb.tensor(x) for x in arrays])
    for x, axis, results in zip(arrays, axes, made, strict=True):
        up, down = (sort_order(x, axis, d) for d in (False, True))
        chosen = np.take(up, ranks, axis)
        wanted = [np.take_along_axis(x, i, axis) for i in (up, down)]
        wanted += [up, down, np.take_along_axis(x, chosen, axis), chosen]
        for got, value in zip(results, wanted, strict=False):
            assert got.numpy().dtype == value.dtype
            np.testing.assert_array_equal(got.numpy(), value)


@pytest.mark.usefixtures("kernels")
def test_quantiles_of_many_elements_and_their_gradients() -> None:
    x = np.random.default_rng(1).standard_normal((2, 302)).round(1)
    parts = [0.2501]
    total = lambda x: pb.quantile(x, parts, axis=1).sum()  # noqa: E731
    value, slope = pb.compile(pb.value_and_grad(total))(pb.tensor(x))
    np.testing.assert_allclose(value.numpy(), np.quantile(x, parts, axis=1).sum(), rtol=1e-14)
    with pb.config(engine="reference"):
        plain = pb.grad(total)(pb.tensor(x))
    np.testing.assert_allclose(slope.numpy(), plain.numpy(), atol=1e-12)
    assert np.count_nonzero(slope.numpy()) >= 4


# Sizes at which kernels change their method, and slices along other axes than the last
SLICES = (((96,), 0), ((97,), 0), ((3, 2050), 1), ((2, 130, 19), 1), ((33, 40), 0), ((5, 1), 1))


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32"])
def test_sorting_kernels_at_other_sizes_and_axes(dtype: str) -> None:
    cases = [(hard_values(dtype, (1, *shape))[0], axis) for shape, axis in SLICES]

    @pb.compile
    def found(tensors: list) -> list:
        made = []
        for x, (_, axis) in zip(tensors, cases, strict=True):
            few, many = (max(1, x.shape[axis] // part) for part in (9, 2))
            ranks = tuple(sorted({0, x.shape[axis] // 3, x.shape[axis] - 1}))
            selected = [pb.apply(op(axis, ranks), x) for op in (OrderStatistics, RankIndices)]
            tops = [y for k in (few, many) for y in pb.top_k(x, k, axis=axis)]
            made.append((ranks, pb.apply(SortWithIndices(axis, False), x), tops, selected))
        return made

    for (x, axis), made in zip(cases, found([pb.tensor(x) for x, _ in cases]), strict=True):
        ranks, (elements, indices), tops, selected = made
        up, down = (sort_order(x, axis, d) for d in (False, True))
        assert np.array_equal(indices.numpy(), up)
        assert same_numbers(elements.numpy(), np.take_along_axis(x, up, axis))
        for top in (tops[:2], tops[2:]):
            first = np.take(down, range(top[0].shape[axis]), axis)
            assert same_numbers(top[0].numpy(), np.take_along_axis(x, first, axis))
            assert np.array_equal(top[1].numpy(), first)
        chosen = np.take(up, ranks, axis)
        assert same_numbers(selected[0].numpy(), np.take_along_axis(x, chosen, axis))
        assert np.array_equal(selected[1].numpy(), chosen)


def same_numbers(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


def test_order_statistics_refuse_ranks_that_do_not_ascend() -> None:
    for ranks in ((2, 1), (1, 1), (5,), (-1,)):
        with pytest.raises(pb.errors.ArgumentError, match="ranks must ascend"):
            pb.apply(OrderStatistics(0, ranks), pb.ones(5))
