"""Event files are read back by TensorBoard itself."""

from __future__ import annotations

import pytest

import pullback as pb

event_accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
pytestmark = pytest.mark.filterwarnings("default")  # those of other libraries are theirs


def test_tensorboard_reads_the_values_of_a_run(tmp_path):
    result = pb.train.fit(
        {"w": pb.tensor(3.0)}, lambda p, x: (p["w"] * x) ** 2, [pb.tensor(1.0)], pb.optim.sgd(0.1),
        epochs=4, log_every=1, log=tmp_path, tensorboard=True,
    )  # fmt: skip
    events = event_accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    found = events.Scalars("loss")
    assert [e.step for e in found] == [1, 2, 3, 4]
    assert [e.value for e in found] == pytest.approx(result.history["loss"])
