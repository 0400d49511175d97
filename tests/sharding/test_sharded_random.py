"""N48: sharded equals unsharded, for random programs, meshes and specs, uneven sizes included."""

from __future__ import annotations

import pytest
from devices import on_devices
from sharded import Case


@pytest.mark.parametrize("batch", range(50))
def test_N48_random_programs_give_the_same_on_meshes(batch):
    """4 programs, forward and gradient, each on 4 meshes; `make long` runs 20,000."""
    for seed in range(4 * batch, 4 * batch + 4):
        Case(seed).check(layouts=4)


@pytest.mark.parametrize("batch", range(20))
@on_devices
def test_N48_on_devices(batch):
    """4 programs, forward and gradient, on 2 to 8 of XLA's devices."""
    for seed in range(10_000 + 4 * batch, 10_004 + 4 * batch):
        Case(seed, most=3).check_on_devices()
