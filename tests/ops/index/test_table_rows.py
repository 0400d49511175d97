"""Kernels that read rows of a table and add to them, against XLA's gather and scatter."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import IndexOutOfRange

pytestmark = pytest.mark.usefixtures("on_cpu")  # the order of sums on a GPU is any

CASES = {  # shapes of tables and of index arrays
    "few rows": ((3, 1000), (300,)),
    "one row": ((1, 999), (100,)),
    "odd rows": ((5000, 33), (2000,)),
    "rows of matrices": ((70, 3, 7), (40, 50)),
    "narrow rows": ((50, 16), (8, 200)),
}


def arrays_of(case, dtype, integer=np.int32):
    table, count = CASES[case]
    rng = np.random.default_rng(0)
    index = rng.integers(-table[0], table[0], count).astype(integer)
    made = [rng.normal(size=s).astype(dtype) for s in (table, count + table[1:])]
    return [pb.tensor(a) for a in (*made, index)]


def both(f, *xs):
    """What a function returns with kernels, and without."""
    found = []
    for kernels in (True, False):
        with pb.config(kernels=kernels):
            found.append([y.numpy() for y in pb.tree.leaves(pb.compile(f)(*xs))])
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_taken_and_added_as_by_xla(case, dtype):
    def f(table, updates, index):
        gradient = pb.grad(lambda t: (t[index] * updates).sum())(table)
        return table[index], gradient, table.at[index].add(updates)

    for got, want in zip(*both(f, *arrays_of(case, dtype)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_other_dtypes_and_index_types():
    table, updates, index = arrays_of("odd rows", np.float32, np.int64)

    def f(table, updates, index):
        whole, half = (table * 100).astype(pb.int16), updates.astype(pb.float16)
        return whole[index], half[index % 7], table.astype(pb.float16).at[index].add(half)

    for got, want in zip(*both(f, table, updates, index), strict=True):
        np.testing.assert_array_equal(got, want)
    small = pb.tensor(np.arange(200, dtype=np.uint8))
    for got, want in zip(*both(lambda t, i: t[i], table, small), strict=True):
        np.testing.assert_array_equal(got, want)


def test_nan_and_infinity_go_to_their_rows_alone():
    table, updates, index = arrays_of("odd rows", np.float32)
    given = updates.numpy().copy()
    given[3], given[5] = np.nan, np.inf

    def f(table, updates, index):
        return pb.grad(lambda t: (t[index] * updates).sum())(table)

    (got,), (want,) = both(f, table, pb.tensor(given), index)
    np.testing.assert_array_equal(got, want)
    assert np.isnan(got).any() and np.isfinite(got).mean() > 0.99


def test_a_table_with_other_uses_is_not_overwritten():
    def f(table, updates, index):
        t = table * 2
        return t.at[index].add(updates), t.sum(0)

    for got, want in zip(*both(f, *arrays_of("odd rows", np.float32)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wrong", [-5001, 5000, 2**31 - 1])
def test_an_index_out_of_range_is_an_error(wrong):
    table, updates, index = arrays_of("odd rows", np.float32)
    index = index.numpy().copy()
    index[77] = wrong
    with pytest.raises(IndexOutOfRange):
        pb.compile(lambda t, i: t[i])(table, pb.tensor(index)).numpy()
    with pytest.raises(IndexOutOfRange):
        pb.compile(lambda t, u, i: t.at[i].add(u))(table, updates, pb.tensor(index)).numpy()


def test_rows_of_examples():
    table, updates, index = arrays_of("narrow rows", np.float32)

    def f(table, updates, index):
        gradient = pb.grad(lambda t, i, u: (t[i] * u).sum())
        return pb.vmap(gradient, in_axes=(None, 0, 0))(table, index, updates)

    for got, want in zip(*both(f, table, updates, index), strict=True):
        np.testing.assert_array_equal(got, want)
