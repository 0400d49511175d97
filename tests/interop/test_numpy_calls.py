"""NumPy functions on tensors: every option of NumPy's, and numbers with all their digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb

X = np.linspace(0.2, 0.7, 6)
M = np.arange(12.0).reshape(3, 4) / 7
N = np.array([[1.0, np.nan, 3.0], [0.5, 2.0, np.nan]])
C = X > 0.4
K = N > 0.7
NAMES = {"np": np, "X": X, "M": M, "N": N, "C": C, "K": K}

# Options of NumPy that pullback's functions have under this name, or that have no effect
OPTIONS = [
    "np.angle(T(X) + 0.1j, deg=True)",
    "np.sort(T(X), kind='stable')",
    "np.partition(T(X), 2, kind='introselect')[2]",
    "np.concatenate([T(X), T(X)], dtype=np.float32, casting='same_kind')",
    "np.stack([T(X), T(X)], dtype=np.complex128)",
    "np.hstack([T(X), T(X)], dtype=np.float32)",
    "np.zeros_like(T(X), shape=(2, 3)) + T(X)[0]",
    "np.full_like(T(X), 0.1, shape=4) * T(X)[0]",
    "np.linspace(T(X), 3.4, 5, axis=-1)",
    "np.linspace(T(X)[0], 3.4, 5, retstep=True)[1]",
    "np.median(T(M), axis=0, overwrite_input=True)",
    "np.quantile(T(M), 0.3, overwrite_input=True)",
    "np.meshgrid(T(X), T(X), copy=False)[1]",
    "np.nan_to_num(T(N), copy=True, nan=0.1)",
    "np.nansum(T(N), axis=0, initial=0.1, where=K)",
    "np.nanprod(T(N), axis=0, initial=0.1, where=K)",
    "np.nanmax(T(N), axis=1, initial=0.1, where=K)",
    "np.nanmax(T(N), axis=1, initial=2.5)",
    "np.nanmin(T(N), axis=1, initial=9.1, where=K)",
    "np.nanmean(T(N), axis=1, where=K)",
    "np.nanvar(T(N), axis=1, where=K)",
    "np.nanvar(T(N), axis=1, mean=np.array([[1.5], [1.0]]))",
    "np.nanstd(T(N), axis=1, ddof=1)",
    "np.var(T(M), axis=1, mean=np.array([[0.2], [1.0], [1.1]]))",
    "np.std(T(M), axis=1, mean=np.array([[0.2], [1.0], [1.1]]), keepdims=True)",
    "np.reshape(T(M), (2, 6), order='F')",
    "np.ravel(T(M), order='F')",
    "T(M).ravel('F')",
    "T(M).reshape(6, 2, order='F')",
    "np.stack(divmod(T(X), 0.13))",
    "np.stack(divmod(0.13, T(X)))[1]",
    "np.linalg.svd(T(M.T @ M), compute_uv=False, hermitian=True)[:2]",
    "np.apply_along_axis(lambda v: v * v.sum(), 1, T(M))",
    "np.apply_over_axes(np.sum, T(M), [0, 1])",
    "np.diff(T(X), prepend=0.1)",
    "np.diff(T(M), axis=0, append=0.1)",
    "np.trace(T(M), 1)",
    "np.diagonal(T(M), 1)",
]

# A list or a number has no dtype of its own: next to f64 it is f64
DIGITS = [
    *[f"np.{f}(T(X), 0.1)" for f in ("add", "divide", "power", "hypot", "maximum", "arctan2")],
    *[f"np.{f}([0.1, 0.2, 0.3, 0.4, 0.6, 0.7], T(X))" for f in ("add", "divide", "logaddexp")],
    "T(X) - [0.1, 0.2, 0.3, 0.4, 0.6, 0.7]",
    "T(X) + [0.1j, 0.2, 0.3, 0.4, 0.6, 0.7]",
    "np.where(C, T(X), 0.1)",
    "np.clip(T(X), [0.3], 0.6)",
    "np.nan_to_num(T(N), nan=0.1)",
    "np.nan_to_num(T(X) * np.inf)",
    "np.pad(T(X), 2, 'linear_ramp', end_values=0.1)",
    "np.interp(0.33, T(X), T(X) ** 2)",
    "np.interp(T(X), [0.1, 0.3, 0.9], [0.1, 0.7, 0.3])",
    "np.piecewise(T(X), [C, ~C], [0.1, 0.3])",
    "np.select([C], [T(X)], 0.1)",
    "np.histogram(T(X), [0.1, 0.3, 0.9])[1]",
    "np.histogram_bin_edges(T(X), 3, range=(0.1, 0.9))",
    "np.linspace(T(X), 3.4, 5)",
    "np.logspace(0.1, T(X), 5, base=1.1)",
    "np.ediff1d(T(X), 0.1, 0.3)",
    "np.append(T(X), 0.1)",
    "np.insert(T(X), 1, 0.1)",
    "np.average(T(X), weights=[0.1, 0.3, 0.4, 0.7, 0.1, 0.2])",
    "np.convolve(T(X), [0.1, 0.3])",
    "np.polyval([0.1, 0.3], T(X))",
    "np.trapezoid(T(X), [0.1, 0.3, 0.7, 0.9, 1.1, 1.3])",
    "np.trapezoid(T(X), dx=0.1)",
    "np.gradient(T(X), 0.1)",
    "np.concatenate([T(X), [0.1]])",
    "np.column_stack([T(X), [0.1, 0.3, 0.4, 0.7, 0.1, 0.2]])",
    "np.dot(T(M), [0.1, 0.3, 0.4, 0.7])",
    "np.einsum('ij,j', T(M), [0.1, 0.3, 0.4, 0.7])",
    "np.kron(T(X), [0.1, 0.3])",
    "np.cov(T(M), [0.1, 0.3, 0.4, 0.7])",
    "np.add.outer(T(X), [0.1, 0.3])",
    "np.linalg.solve(T(M[:, :3] + np.eye(3)), [0.1, 0.3, 0.4])",
    "np.choose([0, 1, 0, 1, 0, 1], [T(X), 0.1])",
]


def evaluated(call: str, T: Any) -> Any:
    return eval(call, {**NAMES, "T": T})


@pytest.mark.parametrize(("engine", "every"), [("reference", 1), ("xla", 11)])
def test_calls_give_the_values_of_numpy_in_the_library(engine: str, every: int) -> None:
    with pb.config(engine=engine):
        made = {call: evaluated(call, pb.asarray) for call in (OPTIONS + DIGITS)[::every]}
        for call, got in made.items():
            want = evaluated(call, np.asarray)
            assert isinstance(got, pb.Tensor), call
            assert got.numpy().dtype == want.dtype and got.shape == want.shape, call
            np.testing.assert_allclose(got.numpy(), want, 1e-13, 1e-13, err_msg=call)


def test_calls_stay_in_the_library_inside_of_a_derivative() -> None:
    def total(shift: pb.Tensor) -> pb.Tensor:
        exact = [call for call in OPTIONS if "32" not in call]  # f32 rounds the differences away
        calls = [evaluated(call, lambda x: pb.asarray(x) + shift) for call in exact]
        return sum((np.nansum(np.abs(y)) for y in calls), start=pb.zeros((), pb.float64))

    with pb.config(engine="reference", precision_warnings=False):
        slope = pb.grad(total)(pb.tensor(0.0, dtype=pb.float64)).item()
        step = 1e-6
        ends = [total(pb.tensor(s, dtype=pb.float64)).item() for s in (step, -step)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_numbers_that_were_made_tensors_have_their_dtype() -> None:
    wide = pb.asarray(X[:1])
    for made in (pb.tensor([0.1]), pb.asarray([0.1]), pb.tensor(0.1).reshape(1)):
        with pb.config(precision_warnings=False):
            assert (made + wide).numpy() == np.float32(0.1) + X[:1]
    assert pb.asarray([wide[0], 0.1]).tolist() == [X[0], 0.1]
    assert pb.asarray([[wide[0], 0.1], [0.2, 0.3]]).tolist() == [[X[0], 0.1], [0.2, 0.3]]
    assert pb.asarray([pb.tensor(1.0), 0.1], dtype="float64").tolist() == [1.0, 0.1]


def test_lists_keep_their_digits_in_place_and_in_transforms() -> None:
    numbers = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7]
    x = pb.asarray(X)
    want = X * numbers
    assert pb.compile(lambda v: v * numbers)(x).tolist() == want.tolist()
    assert pb.vmap(lambda v: v * numbers)(x[None]).tolist() == [want.tolist()]
    assert pb.grad(lambda v: (v * numbers).sum())(x).tolist() == numbers
    x[1:3] = [0.1, 0.2]
    x[C] = 0.3
    x += numbers
    y = X.copy()
    y[1:3] = [0.1, 0.2]
    y[C] = 0.3
    assert x.tolist() == (y + numbers).tolist()


def test_numbers_do_not_widen_half_precision() -> None:
    x = pb.asarray(X.astype(np.float16))
    made = [np.linspace(x, 3.4, 5), np.trapezoid(x, dx=0.1), np.where(C, x, 0.1)]
    assert {y.dtype for y in made} == {pb.float16}


def test_the_error_of_a_list_of_tensors_says_what_to_write() -> None:
    with pytest.raises(pb.errors.GradientCut, match=r"joined by pb\.array\(\[x, y\]\)"):
        pb.grad(lambda x: np.mean(np.array([x, x * x])))(pb.tensor(2.0))
    assert pb.grad(lambda x: np.mean(pb.array([x, x * x])))(pb.tensor(2.0)).item() == 2.5


def test_nan_to_num_without_a_copy_writes() -> None:
    x = pb.asarray(N)
    assert np.nan_to_num(x, copy=False) is x and x[0, 1].item() == 0


def test_orders_other_than_row_and_column_major_are_refused() -> None:
    with pytest.raises(pb.errors.ArgumentError, match='reshape: order must be "C" or "F"'):
        pb.reshape(M, (2, 6), order="Z")
