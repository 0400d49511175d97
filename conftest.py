"""Examples in docstrings know pullback as `pb`."""

import pytest

import pullback


@pytest.fixture(autouse=True)
def _pb(doctest_namespace):
    doctest_namespace["pb"] = pullback
