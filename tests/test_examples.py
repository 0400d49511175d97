"""The demo learns, its chart is a picture, and the other examples find what they assert.

Those on a mesh run on eight virtual devices, and communicate no more than they must.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from devices import on_devices
from paths import EXAMPLES


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("implicit", "second derivative"),
        ("hessian", "forward over reverse"),
        ("lstm", "first signs remembered"),
        ("neural_ode", "error of the path"),
        ("debugging", "dead at relu (debugging.py:"),
    ],
)
def test_example_holds(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert words in capsys.readouterr().out


def test_digits_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    digits = runpy.run_path(str(EXAMPLES / "digits.py"))
    settings = digits["main"].__globals__
    monkeypatch.setitem(settings, "EPOCHS", 4)
    monkeypatch.setitem(settings, "OUT", tmp_path)
    digits["main"]()
    shown = capsys.readouterr().out
    accuracy = float(shown.split("test accuracy")[1].split("%")[0])
    assert accuracy > 85
    picture = ET.parse(tmp_path / "digits-loss.svg").getroot()
    lines = [p for p in picture.iter() if p.tag.endswith("polyline")]
    assert [len(p.get("points", "").split()) for p in lines] == [4, 4]


def sharded(name: str) -> dict:
    """The names of an example that ran; it asserts what one device computes."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "the same parameters as on one device" in shown.getvalue()
    return names


@on_devices
def test_data_parallel_moves_the_gradients_once() -> None:
    names = sharded("data_parallel")
    found = names["explained"]()
    assert found.counts == {"all_reduce": 1}
    nbytes = sum(p.nbytes for p in names["data"]()[0]) + 8  # and the loss
    assert found.nbytes == 2 * 7 * nbytes // 8


@on_devices
def test_tensor_parallel_has_one_sum_forward_and_one_backward() -> None:
    names = sharded("tensor_parallel")
    layers = names["LAYERS"]
    assert names["explained"](names["forward"]).counts == {"all_reduce": layers}
    assert names["explained"](names["step"]).counts == {"all_reduce": 2 * layers}


@on_devices
def test_sequence_parallel_gathers_and_scatters_in_place_of_sums() -> None:
    names = sharded("sequence_parallel")
    layers = names["LAYERS"]
    want = {"all_gather": layers, "reduce_scatter": layers}
    assert names["explained"](names["forward"]).counts == want
    # The gradients of matrices are summed along dp, those of gains and the loss along both axes.
    want = {"all_gather": 2 * layers, "reduce_scatter": 2 * layers, "all_reduce": 2}
    assert names["explained"](names["step"]).counts == want


@on_devices
def test_zero_gathers_parameters_and_scatters_gradients() -> None:
    names = sharded("zero")
    found, arrays = names["explained"](), names["data"]()[0]
    matrices = len(arrays)
    assert found.counts == {"all_gather": matrices, "reduce_scatter": matrices, "all_reduce": 1}
    moved = sum(e.nbytes for e in found.exchanges if e.kind != "all_reduce")
    assert moved == 2 * 7 * sum(p.nbytes for p in arrays) // 8  # once each way
