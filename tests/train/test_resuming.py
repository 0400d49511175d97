"""Training that is killed continues from its last checkpoint, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from killed_training import OneProcess, TwoProcesses, bits, finished, kill_and_resume

import pullback as pb
from pullback.train import fit

X = np.random.default_rng(0).normal(size=(12, 3))


def loss(params, x):
    return ((x @ params["w"] - x.sum()) ** 2).mean()


def run(data, **options):
    params = {"w": pb.tensor(np.ones(3))}
    return fit(params, loss, data, pb.optim.adam(0.1), log_every=1, **options)


def loader():
    return pb.data.DataLoader(X, 4, shuffle=True, key=pb.random.key(0), prefetch=0)


def batches():
    return [X[:4], X[4:8], X[8:]]


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


@pytest.mark.parametrize("data", [loader, batches])
@pytest.mark.parametrize("steps", [2, 3, 4])  # in an epoch of 3 steps, at its end, and after it
def test_runs_continue_at_every_position_of_an_epoch(data, steps, tmp_path):
    with pb.config(engine="reference"):
        run(data(), steps=steps, checkpoints=tmp_path)
        parts = run(data(), epochs=3, validation=[X], checkpoints=tmp_path)
        whole = run(data(), epochs=3, validation=[X])
        assert parts.steps == whole.steps == 9
        assert parts.model["w"].tolist() == whole.model["w"].tolist()
        before = {"validation loss"} if steps == 4 else set()  # it had no validation
        rows = [
            r for r in whole.history.rows if not (before and r["epoch"] == 1 and before & set(r))
        ]
        assert parts.history.rows == rows


def test_an_error_is_raised_as_it_is_and_what_was_done_is_saved(tmp_path):
    def fail(loop, values):
        if loop.steps == 2:
            raise KeyError("mine")

    checkpoints = pb.io.Checkpointer(tmp_path, every=100)
    with pb.config(engine="reference"):
        with pytest.raises(KeyError, match="mine"):
            run(loader(), steps=5, callbacks=[fail], checkpoints=checkpoints)
        assert (
            checkpoints.steps() == [2] and run(loader(), steps=5, checkpoints=tmp_path).steps == 5
        )
