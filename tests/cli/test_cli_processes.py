"""The command line in separate processes: pipes, encodings, imports."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command import EXAMPLE
from paths import ROOT


def shell(*argv: str, **rest: Any) -> subprocess.CompletedProcess:
    """Run `python -m pullback ...`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **rest.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "pullback", *argv],
        env=environment, capture_output=True, text=True, timeout=60, check=False, **rest,
    )  # fmt: skip


def test_commands_that_run_nothing_do_not_import_jaxlib(tmp_path: Path) -> None:
    path = str(tmp_path / "f.ir")
    Path(path).write_text(EXAMPLE)
    code = (
        "import sys; from pullback.cli.main import main\n"
        f"path = {path!r}\n"
        "for words in (['verify'], ['format'], ['canon'], ['hash'], ['grad'], ['diff', path]):\n"
        "    assert main(['ir', *words, path]) == 0, words\n"
        "assert main(['ir', 'ops']) == main(['--version']) == 0\n"
        "found = [m for m in sys.modules if m.split('.')[0] in ('jaxlib', 'jax', 'yaml')]\n"
        "assert not found, found"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_pipe_of_processes() -> None:
    gradient = shell("ir", "grad", "-", input=EXAMPLE)
    assert gradient.returncode == 0
    checked = shell("ir", "verify", "-", input=gradient.stdout)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    ended = shell("ir", "run", "-", "-i", "x=[1,2,3]", "-i", "y=[4,5,6]", input=gradient.stdout)
    assert ended.stdout.splitlines() == [
        "%4 : Tensor<f32, []> = 38.",
        "%10 : Tensor<f32, [3]> = [5., 6., 7.]",
        "%9 : Tensor<f32, [3]> = [1., 2., 3.]",
    ]


def test_a_module_is_utf8_in_every_locale() -> None:
    text = '%0 = Input() {name: "\u6f22"} : Tensor<f32, []>\noutputs: %0\n'
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [sys.executable, "-m", "pullback", "ir", "format", "-"], input=text.encode(),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ended.stdout == text.encode()


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    """Like other programs, it ends silently."""
    path = tmp_path / "long.ir"
    chain = [f"%{i} = Exp(%{i - 1}) : Tensor<f32, []>" for i in range(1, 5000)]
    first = '%0 = Input() {name: "x"} : Tensor<f32, []>'
    path.write_text("\n".join([first, *chain, "outputs: %4999"]))
    command = (
        f"'{sys.executable}' -m pullback ir format {path} | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    ended = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[1:] == [str(128 + signal.SIGPIPE)]


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("format f.ir > /dev/full", 2, "error: cannot write the output: No space left on device\n"),
        ("format f.ir >&-", 0, ""),
        ("verify - <&-", 2, "error: cannot read the standard input: it is closed\n"),
    ],
)
def test_streams_that_fail(command: str, status: int, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.ir").write_text(EXAMPLE)
    ended = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m pullback ir {command}"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (status, message)


def test_the_installed_command_is_this_one() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _, name = settings["project"]["scripts"]["pullback"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))
