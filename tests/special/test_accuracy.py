"""Values and derivatives keep their last digits; docs/accuracy.md has figures of more points."""

from __future__ import annotations

import sys

import mpmath as mp
import numpy as np
import pytest
from paths import ROOT

import pullback as pb

sys.path.insert(0, str(ROOT / "tools"))

from accuracy import BITS, errors_in_ulp, exact, measure, points_of
from accuracy_cases import CASES

# Where XLA's own function or one of its simplifications would lose digits.
ON_XLA = ("log1p", "tanh", "erfc", "ndtr", "digamma", "erfcx")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_reference_engine(case):
    with mp.workprec(BITS):
        errors = measure(case, 24, engines=("reference",))
    for (dtype, kind), error in errors.items():
        assert error <= case.limits[kind == "derivative"], f"{case.name}: {dtype} {kind}"


def test_xla_in_f64():
    """All functions in one program."""
    chosen = [case for case in CASES if case.name in ON_XLA]
    points = [points_of(case, np.float64, 60) for case in chosen]

    def program(*xs):
        pairs = [pb.vjp(case.function, x) for case, x in zip(chosen, xs, strict=True)]
        return [(y, pull(pb.ones_like(y))[0]) for y, pull in pairs]

    results = pb.compile(program)(*[pb.tensor(x) for (x,) in points])
    for case, (x,), (value, slope) in zip(chosen, points, results, strict=True):
        rows = [(mp.mpf(v),) for v in x.tolist()]
        with mp.workprec(BITS):
            for found, f, scale, limit in (
                (value, case.value, case.scale, case.limits[0]),
                (slope, case.partials[0], case.slope_scale, case.limits[1]),
            ):
                error, place = errors_in_ulp(found.numpy(), exact(f, rows), rows, scale)
                assert error <= limit, (case.name, x[place])
