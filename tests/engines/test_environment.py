"""Environment variables: a value without a meaning is refused, when pullback is imported."""

from __future__ import annotations

import re

import pytest
from paths import ROOT
from processes import ended_python

from pullback.engines.environment import VARIABLES, check_environment, environment_variable
from pullback.errors import ArgumentError

MEANINGLESS = {
    "PULLBACK_CACHE": ["maybe", "2", "-1"],
    "PULLBACK_CACHE_MEMORY": ["much", "-1", "nan", "1X"],
    "PULLBACK_CACHE_SIZE": ["much", "-1", "inf", "1e400"],
    "PULLBACK_CHECK_REPLICAS": ["2", "all"],
    "PULLBACK_CPU_DEVICES": ["0", "-1", "two", "1.5"],
    "PULLBACK_EAGER": ["x", "10"],
    "PULLBACK_ENGINE": ["tpu", "numpy", "1"],
    "PULLBACK_KEEP_MEMORY": ["much", "-1", "inf"],
    "PULLBACK_KERNELS": ["2", "sse", "on"],
    "PULLBACK_LOG": ["everything", "compiles,all", "1"],
    "PULLBACK_NATIVE": ["2", "maybe"],
    "PULLBACK_PATIENCE": ["0", "-1", "nan", "inf", "soon"],
    "PULLBACK_PIN_THREADS": ["2", "all"],
    "PULLBACK_PLATFORM": ["tpu", "gpu", "cpu:0"],
    "PULLBACK_THREADS": ["0", "-2", "many", "2.0"],
    "PULLBACK_TRACEBACK": ["1", "maybe"],
    "PULLBACK_VERIFY_SHAPES": ["maybe"],
}
# Any text is a path; the others are checked by pullback.distributed
FREE = {
    "PULLBACK_CACHE_DIR", "PULLBACK_COORDINATOR", "PULLBACK_LAUNCHER", "PULLBACK_LISTEN",
    "PULLBACK_NUM_PROCESSES", "PULLBACK_PROCESS_ID", "PULLBACK_SECRET",
}  # fmt: skip


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", MEANINGLESS)
def test_values_without_a_meaning_are_refused(name, monkeypatch):
    for text in MEANINGLESS[name]:
        monkeypatch.setenv(name, text)
        with pytest.raises(ArgumentError, match=f"{name} must be .*, got {text!r}"):
            environment_variable(name, None)
        with pytest.raises(ArgumentError, match=name):
            check_environment()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("PULLBACK_EAGER", "1", True), ("PULLBACK_EAGER", "false", False),
        ("PULLBACK_EAGER", " Off ", False), ("PULLBACK_CACHE", "no", False),
        ("PULLBACK_ENGINE", "reference", "reference"), ("PULLBACK_PLATFORM", "CPU", "cpu"),
        ("PULLBACK_CACHE_SIZE", "1.5 GiB", 3 * 2**29), ("PULLBACK_THREADS", "3", 3),
        ("PULLBACK_LOG", "compiles,", ("compiles",)), ("PULLBACK_PATIENCE", "0.5", 0.5),
        ("PULLBACK_CACHE_DIR", "/tmp/x", "/tmp/x"),
    ],
)  # fmt: skip
def test_values_that_are_read(name, text, value, monkeypatch):
    monkeypatch.setenv(name, text)
    assert environment_variable(name, None) == value
    check_environment()


@pytest.mark.parametrize("name", VARIABLES)
def test_an_empty_variable_is_not_set(name, monkeypatch):
    monkeypatch.setenv(name, " ")
    assert environment_variable(name, "default") == "default"


def test_every_variable_in_the_source_is_in_the_table_and_documented():
    named = set()
    for path in (ROOT / "pullback").rglob("*.py"):
        named.update(re.findall(r"\bPULLBACK_[A-Z_]+[A-Z]\b", path.read_text()))
    assert named == VARIABLES.keys() == MEANINGLESS.keys() | FREE
    page = (ROOT / "docs" / "environment.md").read_text()
    assert all(f"| `{name}" in page for name in VARIABLES)


def test_importing_pullback_checks_them():
    ended = ended_python("import pullback", PULLBACK_ENGINE="tpu")
    assert ended.returncode == 1
    assert "PULLBACK_ENGINE must be 'xla' or 'reference', got 'tpu'" in ended.stderr
