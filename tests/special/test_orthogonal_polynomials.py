"""Orthogonal polynomials agree with SciPy's, in both engines, with derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import pullback as pb
from pullback.errors import ArgumentError, DTypeError

NAMES = pb.special.orthogonal_polynomials.__all__
X = np.linspace(-1.5, 2.5, 9)


def expected(name, n, x):
    """SciPy lacks the third and fourth kinds, differences and sums of those of the second."""
    if name.startswith("eval_sh_cheby") and name[-1] in "vw":
        return expected(name.replace("sh_", ""), n, 2 * x - 1)
    if name[-1] not in "vw":
        return getattr(special, name)(n, x)
    u, before = special.eval_chebyu(n, x), special.eval_chebyu(n - 1, x) * (n > 0)
    return u - before if name[-1] == "v" else u + before


def test_values(engine):
    degrees = np.array([[0], [1], [2], [7], [12]])
    found = pb.evaluate({n: getattr(pb.special, n)(degrees, X) for n in NAMES})
    for name in NAMES:
        wanted = expected(name, degrees, X)
        np.testing.assert_allclose(found[name].numpy(), wanted, rtol=1e-9, atol=1e-9, err_msg=name)


def test_derivatives_and_transforms():
    with pb.config(engine="reference"):
        x = pb.tensor(X)
        for name in NAMES:
            pb.check_grads(lambda x, name=name: getattr(pb.special, name)(3, x), (x,), order=2)
        slope = pb.vmap(pb.grad(lambda x: pb.special.eval_legendre(4, x)))(x).numpy()
        np.testing.assert_allclose(slope, special.legendre(4).deriv()(X), rtol=1e-9, atol=1e-9)
        assert pb.special.eval_hermite(3, pb.ones(2, dtype="bf16")).dtype is pb.bfloat16
        assert pb.special.eval_chebyt(pb.tensor([2, 3]), pb.zeros((0, 2))).shape == (0, 2)


def test_errors():
    with pytest.raises(ArgumentError, match=r"special\.eval_chebyt: degrees must be from 0"):
        pb.special.eval_chebyt(-1, 0.5)
    with pytest.raises(DTypeError, match=r"special\.eval_hermite: degrees must be integers"):
        pb.special.eval_hermite(1.5, 0.5)
