"""`pullback ir run`: inputs from literals and files, outputs, errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from command import DIVISION, EXAMPLE, ROWS, UNFIT, ir

from pullback.cli.run import run_output_text


def test_run_takes_literals() -> None:
    ended = ir("run", "-", "--input", "x=[1, 2, 3]", "-i", "y=[4.0, -inf, 6]", stdin=EXAMPLE)
    assert ended == (0, "%4 : Tensor<f32, []> = -inf\n", "")


def test_run_takes_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    np.save("x.npy", x)
    np.savez("all.npz", x=x, y=y, z=y)
    for argv in (["x=x.npy", "y=all.npz"], ["x=all.npz:x", "y=all.npz:z"], ["all.npz"]):
        flags = [word for value in argv for word in ("--input", value)]
        ended = ir("run", "-", *flags, "--out", "out.npy", "--engine", "reference", stdin=EXAMPLE)
        assert ended.out == "%4 : Tensor<f32, []> = 6.\n"
        assert np.load("out.npy") == 6


def test_bfloat16_goes_through_files(tmp_path: Path) -> None:
    text = 'profile: extended\n%0 = Input() {name: "x"} : Tensor<bf16, [2]>\noutputs: %0\n'
    path = str(tmp_path / "x.npz")
    np.savez(path, x=np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert ir("run", "-", "-i", path, "--out", path, stdin=text).status == 0
    assert ir("run", "-", "-i", f"x={path}:output0", stdin=text).out.endswith("= [1.5, -2]\n")


def test_random_inputs_are_the_same_each_time() -> None:
    one, two, other = (ir("run", "-", "--random", seed, stdin=ROWS).out for seed in "778")
    assert one == two != other


def test_matrices_start_on_a_line_of_their_own() -> None:
    shown = run_output_text(1, "Tensor<i64, [2, 2]>", np.array([[1, 2], [3, 4]]))
    assert shown == "%1 : Tensor<i64, [2, 2]> =\n[[1, 2],\n [3, 4]]"
    assert "..." in run_output_text(1, "Tensor<i64, [5000]>", np.arange(5000))


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_a_run_time_error_has_a_place(engine: str) -> None:
    ended = ir("run", "-", "-i", "x=[1, 2, 3]", "-i", "i=[0, 3]", "--engine", engine, stdin=ROWS)
    assert (ended.status, ended.out) == (1, "")
    assert "error[E6001]: Index out of bounds: gather: " in ended.err
    assert " --> <stdin>:3:1\n" in ended.err
    ended = ir("run", "-", "-i", "x=0", "--check", "--engine", engine, stdin=DIVISION)
    assert "error[E6005]: " in ended.err and "3 | %2 = BinOp(Div" in ended.err


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["-i", "x=[1, 2"], 2, "--input x: not a number or list of numbers: [1, 2"),
        (["-i", "x=[1, 2]"], 2, "--input x: the literal has 2 elements, its type f32[3] has 3"),
        (["-i", "i=[0, 1.5]"], 2, "--input i: an element of the literal is not a valid i64"),
        (["-i", "x=1) : Tensor<f32, []>\n%1 = Exp(%0"], 2, "--input x: not a number"),
        (["-i", "z=1"], 2, "--input z: the module has no such input, its inputs are x, i"),
        (["-i", "x"], 2, "--input takes NAME=VALUE or a file of arrays ending in .npz"),
        (["-i", "x=nowhere.npy"], 2, "cannot read nowhere.npy: No such file"),
        (["-i", "x=f.npz:k"], 2, "f.npz has no array k, it has x, i"),
        (["-i", "x=broken.npy"], 2, "cannot read broken.npy as an array: it holds something else"),
        (["-i", "x=broken.npz"], 2, "cannot read broken.npz as an archive of arrays"),
        (["-i", "x=objects.npy"], 2, "cannot read objects.npy as an array"),
        (["-i", "x=fields.npy", "-i", "i=[0, 1]"], 1, "run: input 'x' is declared as f32[3]: "),
        (["-i", "x=words.npy", "-i", "i=[0, 1]"], 1, "run: input 'x' is declared as f32[3]: "),
        (["-i", "x="], 2, "--input x: not a number or list of numbers"),
        (["-i", "x=[1], [2]"], 2, "--input x: not a number or list of numbers: [1], [2]"),
        (["--random", "-1"], 2, "--random: must be 0 or a positive integer, got -1"),
        (["-i", "f.npz", "--timeout", "0"], 2, "--timeout: must be a positive number of seconds"),
        (["-i", "x=f.npz"], 1, "error[E2007]: run: input 'i' is missing"),
        (["-i", "wide.npz"], 1, "Type mismatch: run: input 'x' is declared as f32[3], got f64[3]"),
        (["-i", "f.npz", "--engine", "abacus"], 1, "error[E6002]"),
        (["-i", "f.npz", "--out", "out.txt"], 2, "--out takes a file that ends in .npz"),
        (["-i", "f.npz", "--out", "nowhere/out.npz"], 2, "cannot write nowhere/out.npz"),
    ],
)
def test_run_refuses(
    argv: list[str], status: int, words: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    np.savez("f.npz", x=np.ones(3, np.float32), i=np.array([0, 1]))
    np.savez("wide.npz", x=np.ones(3), i=np.array([0, 1]))
    np.save("objects.npy", np.array([{}], object))
    np.save("fields.npy", np.zeros(3, [("a", np.float32)]))
    np.save("words.npy", np.array(["a", "b", "c"]))
    Path("broken.npy").write_text("not an array")
    Path("broken.npz").write_bytes(b"PK\x03\x04 neither")
    ended = ir("run", "-", *argv, stdin=ROWS)
    assert (ended.status, words in ended.err) == (status, True), ended.err


def test_nothing_runs_if_verification_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr("pullback.cli.run.run", refuse)
    assert "error[E3001]" in ir("run", "-", "--random", "0", stdin=UNFIT).err
