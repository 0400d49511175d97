"""Random numbers as pure functions of a key.

The same key, shape and parameters give the same numbers in every engine, on every machine, batched
or not. A key is a tensor u32[2]. Different numbers need different keys: `split` derives several
keys from one, `fold_in` derives one from a key and an integer.

>>> key = pb.random.key(0)
>>> key, first, second = pb.random.split(key, 3)
>>> bool(pb.all(pb.random.normal(first, (3,)) == pb.random.normal(first, (3,))))
True
>>> bool(pb.any(pb.random.normal(first, (3,)) == pb.random.normal(second, (3,))))
False

Samplers use only integer arithmetic and individually rounded sums, products, reciprocals and
square roots, so engines cannot disagree on a number. Parameters broadcast and may be tensors.
Samples of continuous distributions are differentiable with respect to their parameters.
"""

import importlib
from typing import TYPE_CHECKING

from pullback.graph.boundary import publish
from pullback.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    normal,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    uniform,
    wald,
    weibull_min,
)
from pullback.random.counts import binomial, geometric, multinomial, negative_binomial, poisson
from pullback.random.discrete import bernoulli, bits, rademacher, randint
from pullback.random.gamma_family import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    maxwell,
    t,
)
from pullback.random.keys import fold_in, key, split
from pullback.random.selection import categorical, choice, permutation

__all__ = [
    "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy", "chisquare", "choice",
    "dirichlet", "exponential", "f", "fold_in", "gamma", "generalized_normal", "geometric",
    "gumbel", "key", "laplace", "loggamma", "logistic", "lognormal", "maxwell", "multinomial",
    "multivariate_normal", "negative_binomial", "normal", "orthogonal", "pareto", "permutation",
    "poisson", "rademacher", "randint", "rayleigh", "split", "t", "triangular",
    "truncated_normal", "uniform", "wald", "weibull_min",
]  # fmt: skip


if TYPE_CHECKING:
    from pullback.random.matrices import multivariate_normal, orthogonal
else:

    def __getattr__(name: str) -> object:
        """Load what needs linear algebra at its first use."""
        return getattr(importlib.import_module("pullback.random.matrices"), name)


def __dir__() -> list[str]:
    return __all__


publish(__name__)
