"""What a type checker sees: a user's program is accepted, and mistakes are reported."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import pullback

HERE = Path(__file__).parent
ERROR = re.compile(r"(?P<file>\w+)\.py:(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$")
EXPECTED = re.compile(r"  # error: (?P<code>[\w-]+)$")


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The errors that `mypy --strict` reports in both files, by file: (line, code, message)."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("mypy")
    command = [
        sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=",
        "--no-error-summary", "--hide-error-context", f"--cache-dir={folder}",
        str(HERE / "user.py"), str(HERE / "mistakes.py"),
    ]  # fmt: skip
    root = str(Path(pullback.__file__).parents[1])
    ran = subprocess.run(
        command, cwd=folder, env=os.environ | {"MYPYPATH": root}, capture_output=True, text=True
    )
    assert not ran.stderr
    found: dict[str, list[tuple[int, str, str]]] = {"user": [], "mistakes": []}
    for text in ran.stdout.splitlines():
        if match := ERROR.search(text):
            found[match["file"]].append((int(match["line"]), match["code"], text))
    return found


def test_a_users_program_is_accepted(errors):
    assert [text for _, _, text in errors["user"]] == []


def test_every_mistake_is_reported(errors):
    lines = (HERE / "mistakes.py").read_text().splitlines()
    marks = [(i, EXPECTED.search(text)) for i, text in enumerate(lines, 1)]
    expected = {i: mark["code"] for i, mark in marks if mark}
    assert {line: code for line, code, _ in errors["mistakes"]} == expected


def test_a_users_program_runs():
    """The functions that need no special devices also do what their types say."""
    user = runpy.run_path(str(HERE / "user.py"))
    user["tensors"]()
    x, y = pullback.ones((4, 784)), pullback.tensor([1, 2, 3, 4])
    params = user["initial"](pullback.random.key(1))
    user["transforms"]({**params}, x, y)
    user["train"](x, y)
    user["optimize"](params, x, y)
