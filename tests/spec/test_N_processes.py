"""N55: several processes run one program together, and never deadlock."""

from __future__ import annotations

import re

import numpy as np
import pytest
from launching import Launched


def run(count, devices, *case):
    """Return the exit status, what each process printed, and the errors."""
    return Launched("distributed_training.py", count, *case, devices=devices).finish()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "state.npz"
    return run(2, 2, "train", path), dict(np.load(path))


def test_N55_several_processes_agree_with_one(undisturbed, tmp_path):
    (status, (first, second), errors), state = undisturbed
    assert status == 0, errors
    assert first == second and len(first) == 8  # each process has two of four parts
    assert first[-1] == "parts [(3, 5), (3, 5)]"
    status, (alone,), errors = run(1, 4, "train", tmp_path / "state.npz")
    assert status == 0, errors
    assert alone[:6] == first[:6]  # losses, to twelve digits
    np.testing.assert_allclose(np.load(tmp_path / "state.npz")["w"], state["w"], rtol=1e-13)


def test_N55_a_restart_from_the_last_state_goes_on_bit_for_bit(undisturbed, tmp_path):
    (_, (wanted, _), _), state = undisturbed
    path = tmp_path / "state.npz"
    status, (survivor, _), errors = run(2, 2, "train", path, 1, 3)
    assert status != 0
    assert "WorkerLost: process 1 (pid " in errors, errors
    saved = int(np.load(path)["step"])
    assert 3 <= saved <= 4 and survivor == wanted[:saved]
    status, (again, _), errors = run(2, 2, "train", path)
    assert status == 0, errors
    assert again == wanted[saved:]
    for name, value in np.load(path).items():
        np.testing.assert_array_equal(value, state[name])


def test_N55_a_loop_that_reads_nothing_runs_one_program_a_step(undisturbed):
    status, (first, second), errors = run(2, 2, "unread")
    assert status == 0, errors
    assert first == second and first[0].split(", ")[3:] == ["1 run 0 new"] * 3
    assert undisturbed[0][1][0][5] == f"5 {first[1]}"


def test_N55_one_process_alone_reads_nothing_and_runs_nothing():
    _, (first, second), errors = run(2, 1, "mistakes")
    alone, parts, pending, index, other = first
    assert alone.startswith("HostReadError reading a value: f64[] is not computed yet"), errors
    assert re.search(r"\(distributed_training\.py:\d+\)$", alone)
    assert pending.startswith("HostReadError reading a value: f64[12,5] is not computed yet")
    assert re.match(r"IndexOutOfRange x\[\.\.\.\]: an index is out.*, on process 1 \(dist", index)
    assert parts.startswith(
        "HostReadError reading a value: this process has only parts of f64[12,5]"
    )
    assert other.startswith("ProcessMismatch processes disagree about the next program")
    assert second == [index, other]
