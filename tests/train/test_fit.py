"""Training runs: measured values, files, early stopping, interruption and resuming."""

from __future__ import annotations

import csv
import os
import signal
import sys
import threading

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError
from pullback.train import EarlyStopping, History, TrainingLoop, fit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -2.0, 0.5], np.float32))[:, None]


class Net(nn.Module):
    """A network with everything that a checkpoint must hold: state, dropout, parameters."""

    def __init__(self):
        self.norm, self.drop = nn.BatchNorm1d(3), nn.Dropout(0.2)
        self.linear = nn.Linear(3, 1, key=pb.random.key(1))

    def forward(self, x):
        return self.linear(self.norm(self.drop(x)))  # XLA compiles the other order in seconds


def loss(model, batch):
    x, y = batch
    error = model(x) - y
    return (error**2).mean(), {"worst": abs(error).max()}


def loader(**options):
    return pb.data.DataLoader(
        (X, Y), batch_size=16, shuffle=True, key=pb.random.key(2), prefetch=0, **options
    )


def bits(values):
    return [x.numpy().tobytes() for x in pb.tree.leaves(values) if isinstance(x, pb.Tensor)]


def test_a_run_learns_and_leaves_the_given_model_alone(tmp_path):
    model, seen = Net(), []
    before = bits(model)
    result = fit(
        model, loss, loader(), pb.optim.adam(0.05), epochs=20, validation=[(X, Y)], log_every=5,
        log=tmp_path, callbacks=[lambda loop, values: seen.append((loop.steps, values))],
        statistics=True,
    )  # fmt: skip
    assert (result.steps, result.stopped) == (60, "done") and bits(model) == before
    assert result.history["validation loss"][-1] < 0.1 * result.history["validation loss"][0]
    assert result.model.norm.num_batches_tracked.item() == 60
    names = set(result.history.names())
    assert {"loss", "worst", "grad_norm", "grad_norm.linear.weight", "validation worst"} <= names
    with (tmp_path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.history) == len(seen) and seen[-1][0] == 60
    assert (tmp_path / "history.svg").read_text().startswith("<svg")


def test_a_resumed_run_continues_bit_for_bit(tmp_path):
    def run(folder, steps):
        return fit(
            Net(), loss, loader(), pb.optim.adam(0.05), steps=steps, checkpoints=folder, log_every=2
        )

    whole = run(tmp_path / "whole", 8)
    run(tmp_path / "parts", 5)  # in the middle of the second epoch
    parts = run(tmp_path / "parts", 8)
    assert bits(whole.loop.state_dict()) == bits(parts.loop.state_dict())
    assert whole.history.rows == parts.history.rows and parts.steps == 8
    again = run(tmp_path / "parts", 8)  # nothing is left to do
    assert again.steps == 8 and bits(again.model) == bits(whole.model)


def test_ctrl_c_finishes_the_step_and_saves(tmp_path):
    def press(loop, values):
        if loop.steps == 4:
            os.kill(os.getpid(), signal.SIGINT)

    options = {"checkpoints": tmp_path, "log_every": 1}
    result = fit(Net(), loss, loader(), pb.optim.sgd(0.1), steps=50, callbacks=[press], **options)
    assert result.stopped == "interrupted" and result.steps == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    resumed = fit(Net(), loss, loader(), pb.optim.sgd(0.1), steps=6, **options)
    assert resumed.steps == 6 and len(resumed.history) == 6


def test_several_processes_stop_together_and_one_of_them_writes(tmp_path, monkeypatch):
    module = sys.modules["pullback.train.fit"]
    pressed = iter("0010")  # what the other process says when values are logged

    def exchange(tag, word):
        return [word, next(pressed)]

    for name, value in (("process_count", lambda: 2), ("process_index", lambda: 1)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(module, "exchange", exchange)
    result = fit(
        {"w": pb.ones((3, 1))}, lambda p, b: ((b[0] @ p["w"] - b[1]) ** 2).mean(), loader(),
        pb.optim.sgd(0.1), steps=50, log_every=2, log=tmp_path, progress=True,
    )  # fmt: skip
    assert result.stopped == "interrupted" and result.steps == 6
    assert result.history.points("loss")[-1][0] == 6 and not list(tmp_path.iterdir())


def test_fit_runs_in_other_threads():
    found = []
    thread = threading.Thread(
        target=lambda: found.append(fit(Net(), loss, loader(), pb.optim.sgd(0.1), steps=2))
    )
    thread.start()
    thread.join()
    assert found[0].steps == 2


def test_early_stopping_ends_a_run():
    result = fit(
        Net(), loss, loader(), pb.optim.sgd(0.0), epochs=50, validation=[(X, Y)],
        early_stopping=EarlyStopping("validation worst", patience=2, least=1e9),
    )  # fmt: skip
    assert result.stopped == "early" and result.steps == 9
    best = EarlyStopping(patience=1, mode="max")
    assert [best.should_stop({"validation loss": v}) for v in (1.0, 2.0, 1.0)] == [
        False, False, True,
    ]  # fmt: skip


def test_plain_trees_are_models_too():
    params = {"w": pb.zeros((3, 1))}
    loop = TrainingLoop(
        params, lambda p, b: ((b[0] @ p["w"] - b[1]) ** 2).mean(), pb.optim.sgd(0.1)
    )
    first = loop.step((X, Y))["loss"].item()
    assert loop.step((X, Y))["loss"].item() < first
    assert loop.evaluate([(X, Y)])["loss"] < first and params["w"].numpy().sum() == 0


def test_a_model_in_evaluation_mode_is_not_trained():
    model, rule = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5)), pb.optim.sgd(0.1)
    with pytest.raises(ArgumentError, match=r"evaluation mode(.|\n)*model\.train\(\)"):
        TrainingLoop(model.eval(), lambda model, x: model(x).sum(), rule)
    model.train()[1].eval()  # a part of it may be
    assert not TrainingLoop(model, lambda model, x: model(x).sum(), rule).model[1].training
    with pytest.raises(ArgumentError, match=r"a function of a model and a batch"):
        TrainingLoop(model, nn.MSELoss(), rule)


def test_mistakes_are_named():
    with pytest.raises(ArgumentError, match="must be a rule such as"):
        fit(Net(), loss, [], pb.optim.Adam)
    with pytest.raises(ArgumentError, match="data gave no batch"):
        fit(Net(), loss, [], pb.optim.sgd(0.1))
    with pytest.raises(ArgumentError, match="epochs must be at least 1, got 0"):
        fit(Net(), loss, loader(), pb.optim.sgd(0.1), epochs=0)
    with pytest.raises(ArgumentError, match="a scalar and a dict, got Tensor"):
        fit(Net(), lambda m, b: (m(b[0]).mean(), b[0]), loader(), pb.optim.sgd(0.1))
    with pytest.raises(ArgumentError, match="nothing was measured"):
        History().plot("unused.svg")
    with pytest.raises(ArgumentError, match="tensorboard needs a folder"):
        fit(Net(), loss, loader(), pb.optim.sgd(0.1), tensorboard=True)


def test_curves_below_zero_have_a_linear_axis(tmp_path):
    rows = [{"step": i, "epoch": 0, "loss": 1.0 - i, "gap": float("nan")} for i in range(4)]
    History(rows).plot(tmp_path / "curve.svg", ["loss", "gap"])
    assert (tmp_path / "curve.svg").read_text().count("<polyline") == 1
