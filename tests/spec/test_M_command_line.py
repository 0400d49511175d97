"""M75 and M76: the version report and the runner of conformance cases."""

from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path

import pytest
from command import ir, pullback
from paths import TESTS

from pullback.cli.conformance import judge_conformance_case

SUITE = TESTS / "conformance"
SUM = """
description: "A sum"
category: shapes
profile: cpu
input:
  ir_module: |
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = Sum(%0, [], false) : Tensor<f32, []>
    outputs: %1
  values: {x: [1.0, 2.0]}
expected:
  status: success
  output:
    result: {dtype: f32, shape: [], values: 3.0}
"""


def test_M75_the_version_report_names_the_specification_and_optional_features():
    ended = pullback("--version")
    assert ended.status == 0
    for words in (
        "Core v1.0 (spec/mind-autodiff)", "core-v1, core-v1+gradient, extended",
        f"jaxlib {metadata.version('jaxlib')}", f"Python {sys.version.split()[0]}",
        f"PyYAML {metadata.version('pyyaml')}", "optional: NVIDIA GPUs: ",
    ):  # fmt: skip
        assert words in ended.out
    found = json.loads(pullback("--version", "--json").out)
    assert found["specification"] == "Core v1.0 (spec/mind-autodiff)"
    assert found["jaxlib"] == metadata.version("jaxlib")


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_M76_every_case_of_the_suite_holds(engine: str):
    ended = ir("conformance", str(SUITE), "--engine", engine, "--json")
    found = json.loads(ended.out)
    assert [c for c in found["cases"] if c["outcome"] != "pass"] == []
    assert (ended.status, found["passed"]) == (0, 95)


def write(folder: Path, **cases: str) -> str:
    for name, text in cases.items():
        (folder / f"{name}.yaml").write_text(text)
    return str(folder)


def test_M76_the_report_has_reasons_and_the_status_tells_failures(tmp_path: Path):
    folder = write(
        tmp_path,
        a_good=SUM,
        b_bad=SUM.replace("values: 3.0", "values: 4.0"),
        c_source=SUM.replace("ir_module", "source"),
        d_gpu=SUM.replace("profile: cpu", "profile: gpu"),
    )
    ended = ir("conformance", folder, "--engine", "reference")
    assert ended.status == 1
    assert ended.out.splitlines() == [
        f"pass  {folder}/a_good.yaml: A sum",
        f"fail  {folder}/b_bad.yaml: A sum: result: expected 4.0, got 3.0",
        f"skip  {folder}/c_source.yaml: A sum: no ir_module: the surface language is not supported",
        f"skip  {folder}/d_gpu.yaml: A sum: it needs an accelerator: choose one with --engine",
        "1 passed, 1 failed, 2 skipped",
    ]
    good = str(tmp_path / "a_good.yaml")
    assert ir("conformance", good, "-q") == (0, "1 passed, 0 failed, 0 skipped\n", "")


ERROR = """
input:
  ir_module: |
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = Exp(%0) : Tensor<f32, [3]>
    outputs: %1
expected:
  status: error
  error: {code: E2001, message_contains: "declared type", location: {line: 2, column: 1}}
"""
GRADIENT = """
category: autodiff
input:
  ir_module: |
    %0 = Input() {name: "x"} : Tensor<f32, []>
    %1 = Neg(%0) : Tensor<f32, []>
    outputs: %1
expected:
  status: success
  output:
    gradient_module: |
      profile: core-v1+gradient
      %0 = Input() {name: "x"} : Tensor<f32, []>
      %1 = Neg(%0) : Tensor<f32, []>
      %2 = ConstF32(-1.0) : Tensor<f32, []>
      outputs: %1, %2
"""


@pytest.mark.parametrize(
    ("case", "before", "after", "reason"),
    [
        (SUM, "dtype: f32", "dtype: f64", "result: expected f64, got float32"),
        (SUM, "shape: []", "shape: [1]", "result: expected shape [1], got []"),
        (SUM, "values: 3.0", "values: [3.0]", "result: values of shape [1], got []"),
        (SUM, "values: 3.0", "values: 3.00001", "result: expected 3.0000"),
        (SUM, "values: 3.0", "values: 3.0, tolerance: 1e-3", "the tolerance may be at most 1e-06"),
        (SUM, "result:", "surprise:", "cannot compare `output.surprise`"),
        (SUM, "values: 3.0", "values: three", "ValueError"),
        (SUM, "[1.0, 2.0]", "[1.0]", "expected success, got E2001"),
        (SUM, "status: success", "status: error", "expected None, got success"),
        (SUM, "status: success", "status: maybe", "`expected.status` must be success or error"),
        (SUM, "expected:", "wanted:", "a case must have `input` and `expected`"),
        (ERROR, "E2001", "E2002", "expected E2002, got E2001: Type mismatch: instruction 1"),
        (ERROR, "declared type", "no such words", "expected a message with 'no such words'"),
        (ERROR, "line: 2", "line: 3", "expected the place {'line': 3, 'column': 1}"),
        (ERROR, "status: error", "status: success", "expected success, got E2001"),
        (GRADIENT, "(-1.0)", "(1.0)", "line 4: expected `%2 = ConstF32(1.0)"),
        (GRADIENT, "outputs: %1, %2", "outputs: %1", "line 5: expected `outputs: %1`"),
    ],
)
def test_M76_a_case_that_does_not_hold_fails(case: str, before: str, after: str, reason: str):
    import yaml

    assert judge_conformance_case(yaml.safe_load(case), "reference").outcome == "pass"
    assert before in case
    verdict = judge_conformance_case(yaml.safe_load(case.replace(before, after)), "reference")
    assert verdict.outcome == "fail"
    assert reason in verdict.reason


def test_M76_a_file_that_is_not_a_case_is_reported(tmp_path: Path):
    folder = write(tmp_path, broken="a: [1", other="- 1")
    ended = ir("conformance", f"{folder}/broken.yaml")
    assert ended.status == 2
    assert "broken.yaml as YAML: " in ended.err and ended.err.count("\n") == 1
    assert ir("conformance", f"{folder}/nowhere.yaml").err.startswith("error: cannot read ")
    assert "fail" in ir("conformance", f"{folder}/other.yaml").out
    (tmp_path / "empty").mkdir()
    assert ir("conformance", f"{folder}/empty").status == 2


def test_M76_without_a_yaml_reader_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    ended = ir("conformance", str(SUITE))
    assert ended.status == 2
    assert ended.err == (
        "error: conformance cases need PyYAML, which is not installed\n"
        "  = pip install 'pullback[conformance]'\n"
    )
