"""The demo learns, its chart is a picture, and the other examples find what they assert.

Those on a mesh run on eight virtual devices, and communicate no more than they must.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import on_devices
from paths import EXAMPLES

import pullback as pb


@pytest.fixture(autouse=True)
def examples_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])


def run(name: str, *args: Any, **sizes: Any) -> Any:
    """What `main` of an example returns; as a script it has larger sizes."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"](*args, **sizes)


def test_the_index_names_every_example() -> None:
    index = (EXAMPLES / "README.md").read_text()
    linked = set(re.findall(r"^\| \[\w+\.py\]\((\w+\.py)\)", index, re.M))
    assert linked == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hessian", "forward over reverse"),
        ("lstm", "first signs remembered"),
        ("debugging", "dead at relu (debugging.py:"),
    ],
)
def test_example_holds(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert words in capsys.readouterr().out


def test_digits_learns_and_is_loaded_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run("digits", epochs=6, out=tmp_path, progress=False)
    shown = capsys.readouterr().out
    assert float(shown.split("test accuracy")[1].split("%")[0]) > 85 < 100 * found["accuracy"]
    assert found["steps"] == 6 * (1438 // 64) and f"{found['compiled']} programs" in shown
    picture = ET.parse(tmp_path / "history.svg").getroot()
    lines = [p for p in picture.iter() if p.tag.endswith("polyline")]
    assert sorted(len(p.get("points", "").split()) for p in lines) == [6, 7]
    saved = pb.load(tmp_path / "digits.safetensors")
    assert sum(x.size for x in pb.tree.leaves(saved)) == 65 * 128 + 129 * 64 + 65 * 10


def test_gpt_learns_and_writes() -> None:
    names = runpy.run_path(str(EXAMPLES / "gpt.py"))
    result, tokenizer = names["train"](steps=30, width=8, layers=1, context=8, progress=False)
    assert result.history["loss"][-1] < result.history["loss"][0] - 0.1
    text = names["write"](result.model, tokenizer, "A", 5, pb.random.key(0))
    assert len(text) == 6 and text.startswith("A") and set(text) <= set(pb.data.text())


def test_models_of_digits_learn() -> None:
    first, last = run("vae", epochs=4)
    assert last < 0.8 * first
    found = run("lora", epochs=4)
    assert found["turned before"] < 0.3 < 0.4 < found["turned after"] and found["share"] < 0.25
    assert run("resnet", epochs=1) > 0.2  # chance is 0.1
    private = run("dp_sgd", steps=20, examples=400, noise=1.0)
    assert private["accuracy"] > 0.6
    assert private["epsilon"] == pytest.approx(10 + 2 * np.sqrt(10 * np.log(1e5)))


def test_gaussian_process_finds_the_noise() -> None:
    found = run("gaussian_process", points=30)
    assert found["converged"] and abs(found["noise"] - 0.2) < 0.1
    assert found["after"] < found["before"] - 5
    assert found["error"] < 0.3 and found["covered"] > 0.8


def test_samplers_have_the_right_moments() -> None:
    found = run("hmc", chains=32, samples=100, warmup=20)
    np.testing.assert_allclose(found["mean"], [1, -2], atol=0.2)
    np.testing.assert_allclose(found["covariance"], [[1, 0.8], [0.8, 2]], atol=0.3)
    assert found["acceptance"] > 0.8 and found["spread"] < 1.1
    found = run("diffusion", updates=400, width=32, steps=20, batch=128)
    assert found["near"] > 0.4 and found["least"] > 0.05 and abs(found["radius"] - 2) < 0.3


def test_approximate_posteriors_are_near_the_exact_one() -> None:
    found = run("bayesian_regression", points=15, steps=600)
    assert max(found["Laplace"]) < 1e-6 and max(found["variational"]) < 0.15


def test_graph_network_finds_the_groups() -> None:
    assert run("graph_network", steps=60) >= 0.9


def test_burgers_equation_is_solved() -> None:
    assert run("pinn", points=150, width=16, steps=1500) < 0.1


def test_gradients_through_solvers() -> None:
    before, after = run("neural_ode", steps=10, width=8, updates=60)
    assert after < 0.5 * before
    assert run("implicit", steps=40, width=8) > 0.9


def test_ppo_balances_the_pole_longer() -> None:
    lengths = run("ppo", rounds=12, environments=8, steps=64, width=16)
    assert lengths[0] < 40 and max(lengths[-4:]) > 1.5 * lengths[0]


@on_devices
def test_gpt_on_a_mesh_has_the_losses_of_one_device() -> None:
    sys.path.insert(0, str(EXAMPLES))
    try:
        alone, together = run("gpt_parallel", steps=3, width=16)
    finally:
        sys.path.remove(str(EXAMPLES))
    assert alone[-1] < alone[0]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


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
