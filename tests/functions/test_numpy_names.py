"""Which of NumPy's functions are here; docs/numpy.md has the others, with reasons."""

from __future__ import annotations

import re

import numpy as np
from paths import ROOT

import pullback as pb


def test_functions_of_numpy_are_here_or_listed() -> None:
    page = (ROOT / "docs" / "numpy.md").read_text(encoding="utf-8")
    chapters, missing = page.split("## What is not here")
    rows = re.findall(r"^\| `([^`]*)` \|", missing, re.MULTILINE)
    listed = {name for row in rows for name in row.split()}
    public = {n: getattr(np, n) for n in dir(np) if not n.startswith("_")}
    names = {n for n, f in public.items() if callable(f) and not isinstance(f, type)}
    lacking = {n for n in names if not hasattr(pb, n)}
    assert not lacking - listed
    assert len(names - lacking) > 330 or np.__version__ < "2.4"
    said = {n for row in re.findall(r"^\|[^|]*\|(.*)\|$", chapters, re.MULTILINE)
            for n in " ".join(re.findall(r"`([^`]*)`", row)).split()}  # fmt: skip
    assert len(said) > 140 and all(hasattr(pb, n) for n in said)


def test_numpy_calls_stay_in_the_library() -> None:
    rng = np.random.default_rng(2)
    a, v = rng.normal(size=(3, 4)), np.sort(rng.normal(size=6))
    calls = [
        lambda x, v: np.vstack([x, x]), lambda x, v: np.median(x, axis=1), lambda x, v: np.diag(v),
        lambda x, v: np.histogram(x, bins=3)[1], lambda x, v: np.interp(x, v, v**2),
        lambda x, v: np.cov(x), lambda x, v: np.unique(x, return_counts=True)[0],
        lambda x, v: np.apply_along_axis(lambda r: r * 2, 0, x), lambda x, v: np.gradient(x)[0],
        lambda x, v: np.select([x > 0], [x], 0.0), lambda x, v: np.quantile(x, 0.3, axis=0),
        lambda x, v: np.average(x, axis=1, weights=v[:4] ** 2), lambda x, v: np.nanvar(x, ddof=1),
        lambda x, v: np.insert(x, 1, 5.0, axis=0), lambda x, v: np.frexp(x)[0],
        lambda x, v: np.piecewise(x, [x > 0], [lambda t: t * 2, lambda t: -t]),
        lambda x, v: np.fmax(x, 0.1), lambda x, v: np.partition(x, 1, axis=1),
        lambda x, v: np.resize(x, (2, 3)), lambda x, v: np.apply_over_axes(np.sum, x, [0]),
    ]  # fmt: skip
    with pb.config(engine="reference"):
        for i, f in enumerate(calls):
            got, want = f(pb.tensor(a), pb.tensor(v)), np.asarray(f(a, v))
            assert isinstance(got, pb.Tensor), i
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
            slopes = pb.grad(lambda x, v, f=f: f(x, v).sum(), (0, 1))(pb.tensor(a), pb.tensor(v))
            assert any((g.numpy() != 0).any() for g in slopes), i
    assert np.array_equal(pb.tensor(a), a) is True
