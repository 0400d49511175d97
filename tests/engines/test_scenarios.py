"""Random programs agree in every scenario, and the oracle that says so notices what does not.

`tests/long/scenarios.py` runs thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from agreement import disagreement
from devices import on_devices
from mixed_programs import STEPS, MixedProgram
from oracle import Oracle, shrunk

import pullback as pb


def agree(oracle: Oracle) -> None:
    texts = [f"{f.scenario}: {f.text}\n  {f.program}" for f in oracle.failures]
    assert not texts, "\n".join(texts)


def test_scenarios_agree_on_the_reference():
    oracle = Oracle()
    for seed in range(4):
        oracle.check_reference(MixedProgram(seed))
    agree(oracle)
    assert len(oracle.seeds) == 4 and len(oracle.compared) > 12


@on_devices
def test_scenarios_agree_on_xla():
    oracle = Oracle()
    oracle.check_xla([MixedProgram(seed) for seed in range(3)], "saved")
    oracle.check_xla([MixedProgram(3)], "sharded")
    agree(oracle)
    assert sum(oracle.compared.values()) == 4


# -- the oracle itself ----------------------------------------------------------------------------


@pytest.fixture
def program_with():
    """Programs of four steps, of which the third is the given one, on inputs of float64."""
    first = STEPS[0]

    def program(step: Callable) -> MixedProgram:
        STEPS[0] = step
        steps = [(1, 0, 3), (1, 2, 1), (0, 5, 0), (1, 3, 2)]
        seeds = [MixedProgram(seed, steps) for seed in range(20)]
        return next(p for p in seeds if p.float == "float64" and not p.special)

    yield program
    STEPS[0] = first


def scenarios_that_disagree(program: MixedProgram) -> set[str]:
    oracle = Oracle()
    oracle.check_reference(program)
    return {f.scenario for f in oracle.failures}


def test_a_wrong_derivative_is_found(program_with):
    @pb.custom_jvp
    def wrong(x):
        return pb.sin(x)

    wrong.defjvp(lambda xs, ts: (pb.sin(xs[0]), pb.sin(xs[0]) * ts[0]))
    program = program_with(lambda a, pool, n: wrong(a))
    assert scenarios_that_disagree(program) == {"jvp against differences"}


def test_modes_that_differ_are_found_and_the_program_gets_shorter(program_with):
    calls = iter(range(1000))
    program = program_with(lambda a, pool, n: a + float(next(calls)))
    oracle = Oracle()
    oracle.check_reference(program)
    short = shrunk(oracle.failures[0])
    assert [op for op, _, _ in short.program.steps] == [0]


def test_NaN_is_a_value():
    one, nan, zero = [np.array([x]) for x in (1.0, np.nan, 0)]
    assert disagreement([nan], [nan]) is None
    assert disagreement([nan], [one]) == "result 0 at (0,): nan, expected 1.0"
    assert disagreement([zero], [one]) is not None
    assert disagreement([one + 1e-15], [one]) is None
    assert disagreement([np.array([True])], [np.array([False])]) is not None


def test_rounding_explains_what_moves_with_it():
    one, more, nan = [np.array([x]) for x in (1.0, 1.001, np.nan)]
    assert disagreement([more], [one], [[one + 1e-4]]) is None
    assert disagreement([more], [one], [[one + 1e-6]]) is not None
    assert disagreement([more], [one], [[nan]]) is not None
    assert disagreement([nan], [one], [[one], [nan]]) is None
