"""Training that is killed continues from its last checkpoint, with the same bits."""

from __future__ import annotations

import pytest
from killed_training import OneProcess, TwoProcesses, bits, finished, kill_and_resume


@pytest.mark.parametrize("start", [OneProcess, TwoProcesses])
def test_a_killed_run_ends_with_the_bits_of_one_that_was_left_alone(start, tmp_path, on_cpu):
    killed, alone = tmp_path / "killed", tmp_path / "alone"
    steps, _ = kill_and_resume(start, killed)
    shown = finished(start(alone, steps))
    assert bits(killed) == bits(alone)
    # What was measured before the kill is there, and every step once.
    rows, wanted = ((out / "history.csv").read_text().splitlines() for out in (killed, alone))
    assert rows == wanted and len(rows) == 2 + steps // 10
    assert shown.count(f"{steps}/{steps}") == shown.count(" to ") == 1  # one process shows it
