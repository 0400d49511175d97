"""Each test draws its parameters from the same keys, whatever ran before."""

from __future__ import annotations

import pytest

from pullback import nn


@pytest.fixture(autouse=True)
def _seed():
    nn.seed(0)
