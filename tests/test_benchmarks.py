"""The benchmark suite runs, refuses rows whose results disagree, and writes its table and chart."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT

from benchmarks import gpu, report
from benchmarks.chart import chart
from benchmarks.compare import disagreement
from benchmarks.suite import Row, Settings
from benchmarks.workload import leaves
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.transformer_arrays import from_state, inputs, to_state


def test_a_quick_run_writes_a_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--libraries", "pullback",
               "--only", "softmax", "--out", str(tmp_path)]  # fmt: skip
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "softmax: measured" in ran.stderr and "softmax 8000 x 1000" in ran.stdout
    row = (tmp_path / "results.md").read_text().splitlines()[-1]
    assert row.startswith("| softmax 8000 x 1000 | ms | 0.")
    ET.parse(tmp_path / "results.svg")


def test_a_tiny_run_of_rows_for_a_gpu_writes_a_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.gpu", "--size", "tiny", "--rounds", "1",
               "--libraries", "pullback", "--rows", "softmax", "op_read",
               "--out", str(tmp_path / "gpu.md")]  # fmt: skip
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "gpu.md").read_text()
    assert text in ran.stdout and "without" not in text and "not measured" not in text
    assert "| softmax, 16384 x 16384 f32 | ms | " in text
    assert "| one small op, read on the host | us | " in text


def test_lines_of_a_training_row_on_a_gpu(tmp_path: Path) -> None:
    found = gpu.Found(tmp_path)
    for label, step in (("pullback", 3e-2), ("undecorated", 4e-2), ("jax", 2e-2)):
        np.savez(tmp_path / f"gpt2.{label}.npz", value=np.array([10.0, 9.0]))
        answer = {"step": step, "first": 200 * step, "peak": 2**33, "device": "H200"}
        found.answers[gpu.GpuCase("gpt2", label)] = [answer]
    found.errors[gpu.GpuCase("gpt2", "torch.compile")] = "out of memory"
    text = gpu.document(found, ["gpt2"], list(gpu.LIBRARIES))
    title = "| GPT-2 small, batch 16 x 1024"
    assert text.startswith("H200; ") and "without torch.compile: out of memory" in text
    assert f"{title} | ms | 30 | 20 | 1.50 | 1.50 |" in text
    assert f"{title}, undecorated | ms | 40 | 20 | 2.00 | 2.00 |" in text
    assert f"{title}, first call | s | 6 | 4 | 1.50 | 1.50 |" in text
    assert f"{title}, peak memory | GiB | 8 | 8 | 1.00 | 1.00 |" in text
    np.savez(tmp_path / "gpt2.jax.npz", value=np.array([10.0, 8.0]))
    assert f"{title} | ms | not measured |" in gpu.document(found, ["gpt2"], list(gpu.LIBRARIES))


def test_results_that_disagree_are_described(tmp_path: Path) -> None:
    def written(name: str, **arrays: np.ndarray) -> Path:
        np.savez(tmp_path / name, **arrays)
        return tmp_path / f"{name}.npz"

    x = np.array([3.0, 4.0])
    exact, near = written("exact", x=x), written("near", x=x + np.array([0, 4e-4]))
    assert disagreement({"pullback": exact, "jax": near}, 1e-3) == ""
    assert "x of pullback and jax differ by 8.0e-05" in disagreement(
        {"pullback": exact, "jax": near}, 1e-5
    )
    for other, words in (
        (written("flat", x=x[:1]), "x is (2,) in pullback and (1,) in torch"),
        (written("more", x=x, y=x), "only one of pullback and torch has y"),
        (written("nan", x=x * np.nan), "differ by nan"),
    ):
        assert words in disagreement({"pullback": exact, "torch": other}, 1e-3)
    assert "not finite" in disagreement({"pullback": tmp_path / "nan.npz"}, 1e-3)


def test_table_and_chart_show_factors_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "kernels_used", lambda: "avx2")
    fast = Row(WORKLOADS["mlp"], {"pullback": [4e-3, 5e-3, 6e-3], "jax": [1e-2], "torch": [2e-2]})
    slow = Row(WORKLOADS["compiled_call"], {"pullback": [8e-6], "jax": [4e-6]})
    wrong = Row(WORKLOADS["lm"], {"pullback": []}, problem="loss differs")
    slow.left_out["torch"] = "not there"
    text = report.document([fast, slow, wrong], Settings(("pullback", "jax", "torch")))
    assert "| ms | 5 (4..6) | 10 | 20 | 0.50 | 0.25 | 0.50 |" in text
    assert "| us | 8 | 4 |  | 2.00 |  | 2.00 |" in text
    assert "| ms | not measured |" in text and "not measured: loss differs" in text
    assert "without torch: not there" in text
    shown = [e.text for e in ET.fromstring(chart([fast, slow, wrong])).iter() if e.text]
    assert {"0.50", "0.25", "2.00", "x JAX", WORKLOADS["mlp"].title} <= set(shown)
    assert WORKLOADS["lm"].title not in shown


def test_the_transformer_has_the_same_parameters_in_both_forms() -> None:
    params = inputs(quick=True).params
    there_and_back = dict(leaves(from_state(to_state(params))))
    assert there_and_back.keys() == dict(leaves(params)).keys()
    for name, value in leaves(params):
        np.testing.assert_array_equal(there_and_back[name], value)
