"""Conversions have the same bits in both engines, on every processor."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.graph import dtypes

SOURCES = ("f16", "bf16", "f32", "f64", "i32", "i64", "u32", "u64")


def near_ties(source):
    """Return numbers of a dtype at, and next to, halfway points of narrower dtypes."""
    to = dtypes.dtype(source).numpy
    bits = np.random.default_rng(0).integers(64, 128, 60)  # leading bits that every dtype has
    if dtypes.dtype(source).is_integer:
        size = 8 * to.itemsize - 1
        ties = np.array([((int(b) << 1) | 1) << (size - 9) for b in bits], to)
        return np.concatenate([ties, ties + to.type(1), ties - to.type(1)])
    found = []
    for digits in (8, 11, 24):  # of bf16, f16 and f32
        ties = bits / 64 + 2.0**-digits
        found += [ties * (1 + e) for e in (0, 2.0**-30, -(2.0**-30), 2.0**-51, -(2.0**-51))]
    ones = np.concatenate(found)
    ends = [65519.999, 65520, 65520 - 2.0**-30, 1e300, np.inf, -np.inf, np.nan, 0.0, -0.0]
    with np.errstate(over="ignore"):
        return np.concatenate([ones, -ones, ones * 2.0**-20, ones * 2.0**-25, ends]).astype(to)


@pytest.mark.parametrize("source", SOURCES)
def test_conversions_round_as_numpy_does(source):
    x = near_ties(source)
    for name in ("f16", "bf16", "f32"):
        to = dtypes.dtype(name).numpy
        with np.errstate(over="ignore"):
            wanted = x.astype(to)
        found = pb.tensor(x).astype(name).numpy()
        known = ~np.isnan(wanted.astype(np.float64))
        assert np.isnan(found.astype(np.float64)).tolist() == (~known).tolist()
        assert found[known].tobytes() == wanted[known].tobytes(), (source, name)


def test_a_number_just_above_a_tie_of_f16_is_rounded_up():
    """A first rounding, to f32, would give the tie itself, which goes to the even neighbour."""
    x = 5.611328177452533  # the tie is 5.611328125
    for engine in ("xla", "reference"):
        with pb.config(engine=engine):
            assert pb.tensor([x], dtype="f64").astype("f16").tolist() == [5.61328125]
            half = pb.compile(lambda x: (x * 1.0).astype("f16"))
            assert half(pb.tensor(x, dtype="f64")).item() == 5.61328125
