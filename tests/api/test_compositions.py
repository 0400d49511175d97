"""Transforms two and three deep, over random programs, against NumPy (see compositions.py)."""

from __future__ import annotations

import itertools

import pytest
from compositions import TRANSFORMS, check

PAIRS = list(itertools.product(TRANSFORMS, repeat=2))
TRIPLES = list(itertools.product(TRANSFORMS, repeat=3))


def numbered(compositions):
    return [pytest.param(i, c, id="-".join(c)) for i, c in enumerate(compositions)]


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("seed", range(4))
def test_one(name, seed):
    check([name], seed, ["reference", "xla"])


@pytest.mark.parametrize(("number", "names"), numbered(PAIRS))
def test_two_deep(number, names):
    check(names, 100 + number, ["reference", "xla"])


@pytest.mark.parametrize(("number", "names"), numbered(TRIPLES))
def test_three_deep(number, names):
    """Every fourth on XLA, since compiling takes long. `make long` runs all of them."""
    check(names, 200 + number, ["reference", "xla"] if number % 4 == 0 else ["reference"])
