"""Reductions with masks, initial values and dtypes; rounding to decimals; cumulative functions."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import told
from numpy_tables import check_rows, check_second_order

import pullback as pb
from pullback.errors import ArgumentError, AxisError, DTypeError, ShapeError

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3, 4))
I = RNG.integers(-9, 9, (3, 4))  # noqa: E741
MASK = RNG.uniform(size=(2, 3, 4)) > 0.4
MASK[0, 1] = False  # nothing is left in one row
ROW = np.array([True, False, True, True])
HARD = np.array([[np.nan, 1.0, -0.0, np.inf], [2.0, -np.inf, 0.0, 5.0]])


def _masked_rows():
    axes = ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True})
    for name in ("sum", "prod", "any", "all", "mean", "std", "var"):
        for k in axes:
            for where in (MASK, ROW, MASK[0]):
                if name in ("mean", "std", "var") and where is MASK[0]:
                    continue
                ours = {**k, "where": where}
                want = getattr(np, name)(X, **ours)
                yield f"{name} {k}", lambda n=name, o=ours: getattr(pb, n)(X, **o), want
    for name, start in (("max", -0.3), ("min", 0.3), ("sum", 2.0), ("prod", 0.5)):
        for k in axes:
            ours = {**k, "where": MASK, "initial": start}
            want = getattr(np, name)(X, **ours)
            yield f"{name} initial {k}", lambda n=name, o=ours: getattr(pb, n)(X, **o), want


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_masks_and_initial_values_agree_with_numpy():
    rows = list(_masked_rows())
    calls = [
        (np.sum, pb.sum, (I,), {"initial": 3, "axis": 0}),
        (np.sum, pb.sum, (I,), {"dtype": "float64", "where": ROW}),
        (np.prod, pb.prod, (I,), {"where": ROW, "axis": 1}),
        (np.max, pb.max, (I,), {"initial": -100, "where": ROW, "axis": 1}),
        (np.min, pb.min, (I > 0,), {"initial": True, "where": ROW, "axis": 1}),
        (np.max, pb.max, (np.zeros((0, 3)),), {"axis": 0, "initial": 1.5}),
        (np.min, pb.min, (np.zeros((2, 0)),), {"axis": 1, "initial": 1.5, "keepdims": True}),
        (np.sum, pb.sum, (np.float64(2.0),), {"where": np.array(False), "initial": 1.0}),
        (np.sum, pb.sum, (HARD,), {"where": np.isfinite(HARD), "axis": 1}),
        (np.max, pb.max, (HARD,), {"where": ~np.isnan(HARD), "axis": 0, "initial": 0.0}),
        (np.max, pb.max, (HARD,), {"axis": 1, "initial": 0.0}),
        (np.mean, pb.mean, (I,), {"dtype": "float64", "axis": 1}),
        (np.mean, pb.mean, (X + 1j * X[::-1],), {"where": MASK, "axis": 2}),
        (np.var, pb.var, (X + 1j * X[::-1],), {"where": ROW, "axis": 2}),
        (np.var, pb.var, (X,), {"ddof": 1, "axis": 2}),
        (np.std, pb.std, (X,), {"ddof": 1.5, "where": ROW, "axis": 2}),
        (np.std, pb.std, (I,), {"dtype": "float64"}),
        (np.count_nonzero, pb.count_nonzero, (I,), {"axis": 1}),
    ]
    for theirs, ours, args, k in calls:
        row = lambda f=ours, a=args, k=k: f(*a, **k)  # noqa: E731
        rows.append((f"{ours.__name__} {k}", row, theirs(*args, **k)))
    check_rows(rows, engines=["reference"])
    check_rows([*rows[4::9], *rows[-len(calls) :]], engines=["xla"])


def test_a_tensor_may_be_the_mask_and_the_initial_value():
    mask, start = pb.tensor(ROW), pb.tensor(2.0, dtype="float64")

    def f(x, start):
        return pb.sum(x, where=mask, initial=start)

    x = pb.tensor(X[0, 0])
    gx, gs = pb.grad(f, (0, 1))(x, start)
    assert gx.tolist() == ROW.astype(float).tolist() and gs.item() == 1.0
    got = pb.vmap(lambda x, m: pb.mean(x, where=m))(pb.tensor(X[0]), pb.tensor(MASK[1, :3]))
    np.testing.assert_allclose(got.numpy(), np.mean(X[0], 1, where=MASK[1]))
    compiled = pb.compile(lambda x, m, s: pb.max(x, axis=0, where=m, initial=s))
    got = compiled(pb.tensor(X[1]), pb.tensor(MASK[1]), 0.25)
    np.testing.assert_allclose(got.numpy(), np.max(X[1], 0, where=MASK[1], initial=0.25))


def test_what_a_mask_leaves_out_gets_no_gradient():
    x = pb.tensor([1.0, float("nan"), 3.0])
    mask = pb.tensor([True, False, True])
    for f in (pb.sum, pb.mean, pb.var, pb.std, lambda x, where: pb.prod(x, where=where)):
        g = pb.grad(lambda x, f=f: f(x, where=mask))(x).numpy()
        assert g[1] == 0.0 and np.isfinite(g).all()
    check_second_order(
        [lambda x: pb.sum(x**2, axis=0, where=MASK[1]), lambda x: pb.prod(x, where=ROW),
         lambda x: pb.mean(x * x, axis=1, where=ROW), lambda x: pb.std(x, where=MASK[1], ddof=1),
         lambda x: pb.max(x**2, axis=0, where=MASK[1], initial=0.01),
         lambda x: pb.min(x**3, initial=9.0), lambda x: pb.cumprod(x), lambda x: pb.cumsum(x * x),
         lambda x: pb.logcumsumexp(x, axis=1), lambda x: pb.cummax(x, 1, return_indices=True)[0],
         lambda x: pb.matrix_trace(x @ x.T, 1), lambda x: pb.diagonal(x, -1) ** 2],
        X[1],
    )  # fmt: skip


def test_half_precision_is_summed_in_single():
    ones = pb.ones(3000, dtype="float16")
    even = pb.arange(3000) % 2 == 0
    assert pb.mean(ones * 60, where=even).item() == 60.0
    assert pb.mean(ones, where=even).dtype is pb.var(ones, where=even).dtype is pb.float16
    assert pb.mean(pb.ones(3, dtype="int8"), dtype="float16").dtype is pb.float16


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.max(X, where=MASK), ArgumentError, "max: where needs an initial value"),
        (lambda: pb.sum(X, where=X), DTypeError, "sum: where must be a mask of bools, got f64"),
        (lambda: pb.sum(X[0], where=MASK), ShapeError, "sum: where must broadcast to the shape"),
        (lambda: pb.sum(X, initial=[1.0, 2.0]), ArgumentError, "initial must be a single number"),
        (lambda: pb.sum(I, initial=0.5), DTypeError, "sum: initial must fit into i64, got 0.5"),
        (lambda: pb.var(X, correction=1, ddof=1), ArgumentError, "correction and ddof are the"),
        (lambda: pb.mean(X, dtype="int32"), DTypeError, "mean: dtype must be a float"),
        (lambda: pb.round(X, 1.5), ArgumentError, "round: decimals must be an integer"),
        (lambda: pb.cummax(X), ArgumentError, "cummax: needs an axis"),
        (lambda: pb.cumsum(X, axis=3), AxisError, "cumsum: axis 3 is out of range"),
        (lambda: pb.diagonal(X, axis1=1, axis2=-2), AxisError, "diagonal: an axis is given twice"),
        (lambda: pb.matrix_trace(X[0, 0]), ShapeError, "matrix_trace: needs rank 2 or more"),
    ],
)
def test_wrong_options_of_reductions(call, error, words):
    with told(error, Exception, words):
        call()


def test_rounding_to_decimals_agrees_with_numpy():
    values = np.array([1.2345, -2.675, 0.5, 1e300, np.nan, -np.inf, -0.0, 12345.678])
    rows = [
        (f"{d} {x.dtype}", lambda x=x, d=d: pb.round(x, d), np.round(x, d))
        for x in (values, values[:3].astype(np.float32), np.array(7.55))
        for d in (-4, -1, 0, 1, 2, 5)
    ]
    for dtype in ("int8", "uint8", "int64"):
        whole = np.arange(0 if dtype == "uint8" else -125, 125, 5, dtype=dtype)
        for d in (-3, -2, -1, 0, 2):
            rows.append((f"{dtype} {d}", lambda x=whole, d=d: pb.round(x, d), np.round(whole, d)))
    rows.append(("complex", lambda: pb.round(X[0] * 1j + 2.55, 1), np.round(X[0] * 1j + 2.55, 1)))
    check_rows(rows, rtol=2e-7, atol=0)  # GPUs do not round quotients of f32 exactly
    assert pb.round(np.array([1e300]), 20).item() == 1e300  # NumPy: infinity
    assert pb.round(pb.tensor([60000.0], dtype="float16"), 3).item() == 60000.0
    assert pb.grad(lambda x: pb.round(x, 2))(pb.tensor(1.234)).item() == 0.0


def test_cumulative_functions_and_diagonals_agree_with_numpy():
    rows = [
        ("cumsum", lambda: pb.cumsum(X), np.cumsum(X)),
        ("cumsum axis", lambda: pb.cumsum(I, 0, "float64"), np.cumsum(I, 0, "float64")),
        ("cumprod", lambda: pb.cumprod(X, axis=-1), np.cumprod(X, axis=-1)),
        ("cumprod 0-d", lambda: pb.cumprod(2.0 * X[0, 0, 0]), np.cumprod(2.0 * X[0, 0, 0])),
        *[(f"diagonal {k}", lambda k=k: pb.diagonal(X, *k), np.diagonal(X, *k))
          for k in ((), (1,), (-1, 2, 0), (0, -1, -2), (9,))],
        *[(f"trace {k}", lambda k=k: pb.matrix_trace(X, *k), np.trace(X, *k))
          for k in ((0, 0, 1), (1, 1, 2), (-1, 2, 0))],
        ("matrix_trace", lambda: pb.matrix_trace(X), np.trace(X, axis1=1, axis2=2)),
        ("np.trace", lambda: np.trace(pb.tensor(X)), np.trace(X)),
        ("np.cumsum", lambda: np.cumsum(pb.tensor(X)), np.cumsum(X)),
    ]  # fmt: skip
    held = {1: [0, 1, 1, 1, 4], -1: [0, 0, 2, 2, 2]}
    for sign, f in ((1, pb.cummax), (-1, pb.cummin)):
        x = np.array([2.0, 3.0, 3.0 * sign, 1.0 * sign, np.nan if sign > 0 else 0.0])
        want = (np.maximum if sign > 0 else np.minimum).accumulate(x), np.array(held[sign])
        rows.append((f.__name__, lambda f=f, x=x: f(x, return_indices=True), want))
    check_rows(rows)


def test_names_of_numpy_are_our_functions():
    assert pb.absolute is pb.abs and pb.amax is pb.max and pb.arctan2 is pb.atan2
    gone = {"row_stack"}  # from later versions of NumPy
    for name in pb.functions.numpy_names.__all__:
        assert (name in gone or hasattr(np, name)) and callable(getattr(pb, name))
