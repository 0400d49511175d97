"""Reductions without NaN, quantiles, averages and histograms, as in NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from helpers import told
from numpy_cases import Case, case, check_cases, check_derivatives, check_transforms

import pullback as pb
from pullback.errors import ArgumentError, HostReadError, IndexOutOfRange, ShapeError

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 5, 3))
V, W = RNG.normal(size=7), RNG.uniform(0.1, 1.0, 7)
I = RNG.integers(0, 9, (3, 4))  # noqa: E741
Z = A + 1j * A[::-1]
N = np.where(RNG.uniform(size=(2, 5, 3)) < 0.4, np.nan, B)  # with a slice of NaN
N[0, :, 1] = np.nan
M = np.where(A > 0.9, np.nan, A)
AXES: tuple[dict[str, Any], ...] = ({}, {"axis": 1}, {"axis": (0, 2), "keepdims": True})
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
)  # fmt: skip
Q = [0.0, 0.1, 0.25, 0.4, 0.5, 0.8, 1.0]

WITHOUT_NAN = [
    *[case(n, N, **k) for k in AXES
      for n in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax")],
    *[case(n, I, axis=0) for n in ("nansum", "nanprod", "nanmean", "nanvar", "nanmin", "nanmax")],
    *[case(n, np.where(Z.real > 0, np.nan, Z), axis=0) for n in ("nansum", "nanmean", "nanvar")],
    case("nanvar", N, axis=0, ddof=1), case("nanstd", N, axis=1, ddof=2),
    case("nanvar", N, correction=1), case("nansum", I, dtype="float32"),
    *[case(n, N, axis=a) for n in ("nancumsum", "nancumprod") for a in (None, 1)],
    *[case(n, M, **k) for n in ("nanargmax", "nanargmin")
      for k in ({}, {"axis": 0}, {"axis": 1, "keepdims": True})],
    *[case(n, np.array([np.nan, np.inf, -np.inf, np.inf])) for n in ("nanargmax", "nanargmin")],
    case("nanargmax", np.array([np.nan, np.inf, np.inf])),
    case("nanargmin", I, axis=1), case("nansum", N[:0]), case("nanmean", N[:, :0], axis=0),
]  # fmt: skip

QUANTILES = [
    *[case("quantile", x, Q, method=m) for m in METHODS for x in (V,)],
    *[case("quantile", B, [0.3, 0.6], method=m, axis=1) for m in METHODS],
    *[case("nanquantile", N, 0.3, method=m, axis=1) for m in METHODS],
    *[case("nanquantile", N, 0.3, **k) for k in AXES], case("quantile", I, Q),
    *[case("quantile", I, Q, axis=1, method=m) for m in ("lower", "hazen")],
    case("quantile", B, [[0.3]][0], axis=(0, 2), keepdims=True), case("quantile", V, 0.5),
    case("quantile", np.where(V > 1, np.nan, V), Q), case("quantile", M, 0.2, axis=1),
    case("quantile", I, 0.5, method="lower"), case("percentile", V, [5, 50, 99]),
    case("percentile", A, 30, axis=0, method="hazen"), case("nanpercentile", M, 40, axis=0),
    case("quantile", V, Q, weights=W, method="inverted_cdf"),
    case("quantile", B, 0.4, axis=1, weights=[0.0, 1, 2, 0, 1], method="inverted_cdf"),
    case("percentile", V, 0, weights=np.where(W > 0.5, 0, W), method="inverted_cdf"),
    *[case(n, x, **k) for n in ("median", "nanmedian") for x in (B, N) for k in AXES],
    case("median", I), case("median", I, axis=1), case("median", V), case("median", [np.inf] * 2),
    case("median", np.zeros((0, 3)), axis=0), case("nanmedian", M, axis=0),
]  # fmt: skip

AVERAGES = [
    case("ptp", B), case("ptp", B, axis=1), case("ptp", I, axis=0, keepdims=True), case("ptp", M),
    case("average", A), case("average", A, axis=1, returned=True), case("average", I, axis=0),
    case("average", V, weights=W), case("average", A, axis=0, weights=[1, 2, 3], returned=True),
    case("average", B, axis=(1, 2), weights=np.arange(15.0).reshape(5, 3)),
    case("average", B, axis=(2, 1), weights=np.arange(15.0).reshape(3, 5), keepdims=True),
    case("average", Z, axis=1, weights=[1, 2, 3, 4]), case("average", I, weights=I + 1),
    case("cov", A), case("cov", V), case("cov", A, rowvar=False), case("cov", V, W),
    case("cov", A, bias=True), case("cov", A, ddof=2), case("cov", Z), case("cov", I),
    case("cov", A, fweights=[1, 2, 0, 3]), case("cov", A, aweights=[0.5, 1, 2, 0.1]),
    case("cov", A, fweights=[1, 2, 1, 3], aweights=[0.5, 1, 2, 0.1], ddof=0),
    case("cov", A, A[:2] * 2), case("corrcoef", A), case("corrcoef", V, W), case("corrcoef", V),
    case("corrcoef", Z), case("corrcoef", A, rowvar=False), case("cov", V[:1]),
]  # fmt: skip

HARD = np.array([0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 1.0, np.nan, -1.0, 2.0])
HISTOGRAMS = [
    case("bincount", [0, 1, 1, 3, 7]), case("bincount", [1, 2], minlength=5),
    case("bincount", [1, 2, 1], weights=[0.5, 1.0, 2.0]), case("bincount", np.zeros(0, int)),
    case("bincount", np.array([3, 1], np.uint8)),
    case("digitize", V, np.sort(W)), case("digitize", V, np.sort(W)[::-1]),
    case("digitize", np.array([1, 2, 3]), [1, 2, 3]), case("digitize", [1, 2], [2, 1], right=True),
    case("digitize", [1.0, 2.0, 3.0], [1, 3], right=True), case("digitize", A, [0.0]),
    case("histogram", V), case("histogram", A, 5), case("histogram", I, 4), case("histogram", I, 9),
    case("histogram", HARD, 10, range=(0, 1)), case("histogram", HARD, [0.0, 0.2, 0.2, 0.5, 1.0]),
    case("histogram", V, 3, density=True), case("histogram", I, [0, 2, 9], density=True),
    case("histogram", V, 4, weights=W), case("histogram", V, 4, weights=W, density=True),
    case("histogram", np.zeros(0), 3), case("histogram", np.ones(4), 3),
    case("histogram", V, 3, weights=np.arange(7)), case("histogram", V, 3, weights=V + 1j),
    *[case("histogram_bin_edges", V, r) for r in ("auto", "fd", "sturges", "scott", "rice")],
    case("histogram_bin_edges", I, "auto"), case("histogram_bin_edges", V, 3, range=(-1, 2)),
    case("histogram2d", V, W), case("histogram2d", V, W, [2, 3], density=True),
    case("histogram2d", V, W, [-1.0, 0.0, 1.0]), case("histogram2d", V, W, 3, weights=W),
    case("histogramdd", B.reshape(-1, 3), 2), case("histogramdd", [V, W], [3, [-1.0, 0.0, 2.0]]),
    case("histogramdd", B.reshape(-1, 3), (2, 3, 1), density=True, range=[(-1, 1)] * 3),
]  # fmt: skip


@pytest.mark.parametrize(
    "cases", [WITHOUT_NAN, QUANTILES, AVERAGES, HISTOGRAMS],
    ids=["nan", "quantiles", "averages", "histograms"],
)  # fmt: skip
def test_values_are_those_of_numpy(cases: list[Case]) -> None:
    with warnings.catch_warnings():  # NumPy's, about slices without numbers
        warnings.simplefilter("ignore", RuntimeWarning)
        check_cases(cases, rtol=1e-11)


def test_derivatives() -> None:
    check_derivatives([
        (lambda x: pb.nanvar(x, axis=1), (B,)), (lambda x: pb.nanstd(x), (V,)),
        (lambda x: pb.nanmean(x, axis=0) ** 2, (A,)), (lambda x: pb.nanprod(x, axis=1), (A,)),
        (lambda x: pb.nanmax(x, axis=0) ** 2, (A,)), (lambda x: pb.nancumprod(x), (V,)),
        (lambda x: pb.median(x, axis=1) ** 2, (A,)), (lambda x: pb.nanmedian(x) ** 2, (V,)),
        (lambda x, q: pb.quantile(x, q) ** 2, (V, [0.3, 0.71])),
        (lambda x: pb.quantile(x, 0.3, axis=1, method="hazen") ** 2, (A,)),
        (lambda x: pb.quantile(x, 0.4, weights=W, method="inverted_cdf") ** 2, (V,)),
        (lambda x, w: pb.average(x, axis=1, weights=w), (A, [1.0, 2.0, 0.5, 3.0])),
        (lambda x: (pb.cov(x), pb.corrcoef(x)), (A,)), (lambda x: pb.ptp(x) ** 2, (V,)),
        (lambda x, w: pb.cov(x, aweights=w), (A, [1.0, 2.0, 0.5, 3.0])),
        (lambda w: pb.histogram(pb.tensor(V), 4, weights=w, density=True)[0], (W,)),
        (lambda w: pb.bincount([0, 1, 1, 3], w) ** 2, (W[:4],)),
        (lambda x: pb.histogram(x, 3)[1] ** 2, (V,)),
    ])  # fmt: skip


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_nan_gets_no_gradient(engine: str) -> None:
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [2.0, 2.0, np.nan]])
    functions: list[Any] = [
        pb.nansum, pb.nanmean, pb.nanvar, pb.nanstd, pb.nanmin, pb.nanmax, pb.nanmedian, pb.nanprod,
        lambda x, axis: pb.nanquantile(x, 0.3, axis=axis), lambda x, axis: pb.nancumsum(x, axis),
        lambda x, axis: pb.nan_to_num(x) ** 2,
    ]  # fmt: skip
    found: list[Any] = []
    with pb.config(engine=engine):
        for f in functions[:: 1 if engine == "reference" else 4]:

            def total(x: Any, f: Any = f) -> Any:
                made = f(x, axis=1)
                return pb.where(pb.isnan(made), 0.0, made).sum()

            slope = pb.grad(total)
            found += [slope(pb.tensor(x)), pb.jvp(slope, (pb.tensor(x),), (pb.ones_like(x),))[1]]
        pb.evaluate(found)
        for g in found:
            assert np.isfinite(g.numpy()).all() and (g.numpy()[np.isnan(x)] == 0).all()
        # ties share the gradient; the deviation of equal elements has gradient 0
        assert pb.grad(lambda x: pb.nanmax(x))(pb.tensor(x[2])).tolist() == [0.5, 0.5, 0.0]
        assert pb.grad(lambda x: pb.nanstd(x))(pb.tensor(x[2])).tolist() == [0.0, 0.0, 0.0]
        # infinities that are there count, those that stand for NaN do not
        assert pb.nanargmax([np.nan, -np.inf]).item() == pb.nanargmin([np.nan, np.inf]).item() == 1
        # what is NaN as a whole: the median of a slice with NaN
        assert pb.grad(lambda x: pb.median(x))(pb.tensor(x[0])).tolist() == [0.0, 0.0, 0.0]


def test_infinite_elements_of_quantiles() -> None:
    x = [-np.inf, 1.0, 2.0, np.inf]
    for method in ("linear", "hazen"):
        got = pb.quantile(x, [0.0, 0.1, 0.5, 0.9, 1.0], method=method).tolist()
        assert got == [-np.inf, -np.inf, 1.5, np.inf, np.inf]
    assert np.isnan(pb.quantile([1.0, 2.0], pb.tensor([0.5, 1.5])).tolist()).tolist() == [
        False,
        True,
    ]


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_short_floats(name: str) -> None:
    x = pb.tensor(np.where(V > 1, np.nan, V), dtype=name)
    wide, rtol = x.numpy().astype(np.float64), 2.0**-6
    for f in (pb.nanmean, pb.nanvar, pb.nanstd, pb.nanmax, pb.nanmedian, pb.nansum):
        got = f(x)
        assert got.dtype is x.dtype
        np.testing.assert_allclose(got.numpy().astype(np.float64), getattr(np, f.__name__)(wide),
                                   rtol=rtol)  # fmt: skip
    assert pb.nanquantile(x, 0.5).dtype is pb.histogram(x, 3)[1].dtype is x.dtype
    assert pb.nanmean(pb.full(70_000, 2.0, dtype=name)).item() == 2.0


def test_they_run_inside_transforms() -> None:
    def f(x: Any) -> tuple:
        return (
            pb.quantile(x, [0.2, 0.7]), pb.nanmedian(x), pb.nanvar(x), pb.cov(x, x * x),
            pb.histogram(x, 3), pb.digitize(x, [0.0, 0.5]), pb.nanargmax(x),
            pb.bincount(pb.argsort(x), length=4), pb.average(x, weights=x * x),
            pb.percentile(x, 50, weights=x * x, method="inverted_cdf"),
        )  # fmt: skip

    check_transforms(f, A)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: pb.quantile(V, 1.5), ArgumentError, "quantile: q must be from 0 to 1"),
        (lambda: pb.percentile(V, -1), ArgumentError, "percentile: q must be from 0 to 100"),
        (lambda: pb.quantile(V, 0.5, method="best"), ArgumentError, "quantile: method must be one"),
        (lambda: pb.quantile(Z, 0.5), ArgumentError, "quantile: needs real elements"),
        (lambda: pb.quantile(V[:0], 0.5), ShapeError, "quantile: there is no element"),
        (lambda: pb.quantile(V, 0.5, weights=W), ArgumentError, "quantile: weights need"),
        (lambda: pb.quantile(V, 0.5, weights=-W, method="inverted_cdf"), ArgumentError, "negative"),
        (lambda: pb.nanmax(V[:0]), ShapeError, "nanmax: there is no element over axes"),
        (lambda: pb.nanmean(V, axis=2), ShapeError, "nanmean: axis 2 is out of range"),
        (lambda: pb.nanvar(V, ddof="1"), ArgumentError, "nanvar: ddof must be a real number"),
        (lambda: pb.average(A, weights=V), ShapeError, "average: weights must have the shape"),
        (lambda: pb.average(A, axis=0, weights=V), ShapeError, "average: weights must have"),
        (lambda: pb.cov(B), ShapeError, "cov: needs rank 2 or less"),
        (lambda: pb.cov(A, fweights=[1.5] * 4), ArgumentError, "cov: fweights must be integers"),
        (lambda: pb.cov(A, aweights=V), ShapeError, "cov: aweights must have the shape [4]"),
        (lambda: pb.bincount([-1]), ArgumentError, "bincount: numbers, length and minlength must"),
        (lambda: pb.bincount([1.5]), ArgumentError, "bincount: needs a vector of integers"),
        (lambda: pb.bincount([1], weights=V), ShapeError, "bincount: x and weights must have"),
        (lambda: pb.compile(pb.bincount)(pb.tensor([1])), HostReadError, "bincount: "),
        (lambda: pb.digitize(V, [1, 3, 2]), ArgumentError, "digitize: the edges of bins must be"),
        (lambda: pb.histogram(V, 0), ArgumentError, "histogram: bins must be positive"),
        (lambda: pb.histogram(V, "best"), ArgumentError, "histogram: bins must be one of auto"),
        (lambda: pb.histogram(V, [2.0, 1.0]), ArgumentError, "histogram: the edges of bins must"),
        (lambda: pb.histogram(V, 3, range=(2, 1)), ArgumentError, "histogram: range must be two"),
        (lambda: pb.histogram(V, 3, weights=A), ShapeError, "histogram: x and weights must have"),
        (lambda: pb.histogramdd([V, W], [2]), ArgumentError, "histogramdd: needs bins and a range"),
        (lambda: pb.nanargmax([np.nan]).item(), IndexOutOfRange, "nanargmax: every element"),
    ],
)  # fmt: skip
def test_mistakes_name_the_function(call: Any, error: type, words: str) -> None:
    with told(error, Exception, words):
        call()
