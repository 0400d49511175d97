"""The command line: what it prints, where, and its exit status."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback.cli import running
from pullback.cli.main import main

ROOT = Path(__file__).parent.parent
EXAMPLE = """\
%0 = Input() {name: "x"} : Tensor<f32, [3]>
%1 = Input() {name: "y"} : Tensor<f32, [3]>
%2 = BinOp(Mul, %0, %1) : Tensor<f32, [3]>
%3 = BinOp(Add, %2, %0) : Tensor<f32, [3]>
%4 = Sum(%3, [], false) : Tensor<f32, []>
outputs: %4
"""
UNFIT = """\
%0 = Input() {name: "x"} : Tensor<f32, [3, 4]>
%1 = Input() {name: "y"} : Tensor<f32, [3, 5]>
%2 = Add(%0, %1) : Tensor<f32, [3, 4]>
outputs: %2
"""
DIVISION = """\
%0 = Input() {name: "x"} : Tensor<f32, []>
%1 = ConstF32(1.0) : Tensor<f32, []>
%2 = BinOp(Div, %1, %0) : Tensor<f32, []>
outputs: %2
"""
ROWS = """\
%0 = Input() {name: "x"} : Tensor<f32, [3]>
%1 = Input() {name: "i"} : Tensor<i64, [2]>
%2 = Gather(%0, %1) : Tensor<f32, [2]>
outputs: %2
"""


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """`pullback ir ...` in this process."""

    def run(*argv: str, stdin: str | bytes = b"") -> Ended:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        monkeypatch.setenv("COLUMNS", "100")
        return Ended(main(["ir", *argv]), *capsys.readouterr())

    return run


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def shell(*argv: str, **rest: Any) -> subprocess.CompletedProcess:
    """`python -m pullback ...` in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **rest.pop("env", {})}
    return subprocess.run(
        [sys.executable, "-m", "pullback", *argv],
        env=environment, capture_output=True, text=True, timeout=60, check=False, **rest,
    )  # fmt: skip


# -- verify, format, canon, hash ------------------------------------------------------------------


def test_verify_is_silent_about_good_modules(run: Any, write: Any) -> None:
    assert run("verify", write("f.ir", EXAMPLE), "-", stdin=ROWS) == (0, "", "")


def test_an_error_shows_the_line_and_a_caret(run: Any, write: Any) -> None:
    path = write("f.ir", UNFIT)
    ended = run("verify", path)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "error[E3001]: instruction 2 (Add): shapes must broadcast, dimension 1 is 4 and 5, "
        "got f32[3,4], f32[3,5]\n"
        f" --> {path}:3:1\n"
        "  |\n"
        "3 | %2 = Add(%0, %1) : Tensor<f32, [3, 4]>\n"
        "  | ^\n"
    )


def test_a_syntax_error_points_at_the_word(run: Any) -> None:
    ended = run("verify", "-", stdin=EXAMPLE.replace("%4 = Sum(", "%4 = Sum["))
    assert ended.status == 1
    assert "error[syntax]: `(` expected" in ended.err
    assert " --> <stdin>:5:9\n" in ended.err
    assert ended.err.endswith("5 | %4 = Sum[%3, [], false) : Tensor<f32, []>\n  |         ^\n")


def test_carets_stand_below_wide_characters_and_tabs(run: Any) -> None:
    text = '\t%0 = Input() {name: "\u6f22"} : Tensor<f32, []> $\noutputs: %0\n'
    *_, line, caret = run("verify", "-", stdin=text).err.splitlines()
    assert line == '1 |  %0 = Input() {name: "\u6f22"} : Tensor<f32, []> $'
    assert caret.index("^") == line.index("$") + 1  # one character takes two columns


def test_a_long_line_is_cut_around_the_place(run: Any) -> None:
    numbers = ", ".join(["1.0"] * 500)
    text = f"%0 = ConstTensor([{numbers}, oops, {numbers}]) : Tensor<f32, [1001]> $\noutputs: %0\n"
    *_, line, caret = run("verify", "-", stdin=text).err.splitlines()
    assert len(line) <= 100
    assert line[caret.index("^")] == "$"


def test_no_terminal_obeys_a_module(run: Any) -> None:
    ended = run("verify", "-", stdin='%0 = Input() {name: "\x1b[31m"} : Tensor<f32> \x1b]0;\x07')
    assert ended.status == 1
    assert "\x1b" not in ended.err and "\x07" not in ended.err


def test_every_file_is_looked_at(run: Any, write: Any) -> None:
    bad, good = write("bad.ir", UNFIT), write("good.ir", EXAMPLE)
    ended = run("hash", bad, good)
    assert ended.status == 1
    assert ended.out == f"{pb.ir.fingerprint(pb.ir.parse(EXAMPLE))}  {good}\n"
    assert f" --> {bad}:3:1" in ended.err


def test_verify_in_another_profile(run: Any) -> None:
    text = EXAMPLE.replace("Sum(%3, [], false)", "Prod(%3, [0], false)")
    assert "error[E6003]" in run("verify", "-", stdin=text).err
    assert run("verify", "--profile", "extended", "-", stdin=text).status == 0


def test_format_prints_the_one_form(run: Any) -> None:
    loose = EXAMPLE.replace("BinOp(Mul, ", "Mul(").replace("Tensor<f32, [3]>", "tensor<f32[3]>")
    assert run("format", "-", stdin=f"# a comment\n{loose}") == (0, EXAMPLE, "")
    assert run("format", "--check", "-", stdin=EXAMPLE) == (0, "", "")
    ended = run("format", "--check", "-", stdin=loose)
    assert ended == (1, "<stdin> is not in the printed form\n", "")


def test_canon_and_hash(run: Any) -> None:
    made = run("canon", "-", stdin=EXAMPLE)
    assert made.status == 0
    assert made.out == pb.ir.canonicalise(pb.ir.parse(EXAMPLE)).text() + "\n"
    assert run("canon", "-", stdin=made.out) == made
    assert run("hash", "-", stdin=EXAMPLE).out == run("hash", "-", stdin=made.out).out


# -- grad -----------------------------------------------------------------------------------------


def test_grad_chooses_what_it_is_asked_for(run: Any) -> None:
    def outputs(*argv: str) -> str:
        return run("grad", "-", *argv, stdin=EXAMPLE).out.splitlines()[-1]

    assert outputs().count("%") == 3
    assert outputs("--wrt", "y").count("%") == 2
    assert outputs("--wrt", "y,%2", "--wrt", "x").count("%") == 4
    assert outputs("--all").count("%") == 6  # the output, both inputs and three values
    assert outputs("--output", "%4") == outputs("--output", "4") == outputs()
    assert outputs("--no-verify") == outputs()


def test_grad_with_a_seed_and_in_another_profile(run: Any) -> None:
    made = run("grad", "--seed", "g", "-", stdin=ROWS)
    assert '{name: "g"} : Tensor<f32, [2]>' in made.out
    ended = run("run", "-", "-i", "x=[1, 2, 3]", "-i", "i=[2, 2]", "-i", "g=[10, 1]",
                stdin=made.out)  # fmt: skip
    assert ended.out.endswith("= [ 0.,  0., 11.]\n")
    refused = run("grad", "-", stdin=DIVISION)
    assert refused.status == 1
    assert "error[E5001]: Div: " in refused.err
    assert "  = The extended profile has one: use --profile extended.\n" in refused.err
    assert "profile: extended\n" in run("grad", "--profile", "extended", "-", stdin=DIVISION).out


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["--wrt", "z"], 1, "no value 'z'"),
        (["--wrt", "%x"], 2, "a value is written as %7"),
        (["--output", "%3"], 1, "error[E5004]"),
        (["--output", "last"], 2, "a value is written as %7"),
        (["--profile", "core-v9"], 2, "invalid choice"),
    ],
)
def test_grad_refuses(run: Any, argv: list[str], status: int, words: str) -> None:
    ended = run("grad", "-", *argv, stdin=EXAMPLE)
    assert (ended.status, ended.out) == (status, "")
    assert words in ended.err


# -- run ------------------------------------------------------------------------------------------


def test_run_takes_literals(run: Any) -> None:
    ended = run("run", "-", "--input", "x=[1, 2, 3]", "-i", "y=[4.0, -inf, 6]", stdin=EXAMPLE)
    assert ended == (0, "%4 : Tensor<f32, []> = -inf\n", "")


def test_run_takes_files(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    np.save("x.npy", x)
    np.savez("all.npz", x=x, y=y, z=y)
    for argv in (["x=x.npy", "y=all.npz"], ["x=all.npz:x", "y=all.npz:z"], ["all.npz"]):
        flags = [word for value in argv for word in ("--input", value)]
        ended = run("run", "-", *flags, "--out", "out.npy", "--engine", "reference", stdin=EXAMPLE)
        assert ended.out == "%4 : Tensor<f32, []> = 6.\n"
        assert np.load("out.npy") == 6


def test_bfloat16_goes_through_files(run: Any, tmp_path: Path) -> None:
    text = 'profile: extended\n%0 = Input() {name: "x"} : Tensor<bf16, [2]>\noutputs: %0\n'
    path = str(tmp_path / "x.npz")
    np.savez(path, x=np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert run("run", "-", "-i", path, "--out", path, stdin=text).status == 0
    assert run("run", "-", "-i", f"x={path}:output0", stdin=text).out.endswith("= [1.5, -2]\n")


def test_random_inputs_are_the_same_each_time(run: Any) -> None:
    one, two, other = (run("run", "-", "--random", seed, stdin=ROWS).out for seed in "778")
    assert one == two != other


def test_matrices_start_on_a_line_of_their_own() -> None:
    shown = running.shown(1, "Tensor<i64, [2, 2]>", np.array([[1, 2], [3, 4]]))
    assert shown == "%1 : Tensor<i64, [2, 2]> =\n[[1, 2],\n [3, 4]]"
    assert "..." in running.shown(1, "Tensor<i64, [5000]>", np.arange(5000))


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_an_error_of_the_run_is_placed(run: Any, engine: str) -> None:
    ended = run("run", "-", "-i", "x=[1, 2, 3]", "-i", "i=[0, 3]", "--engine", engine, stdin=ROWS)
    assert (ended.status, ended.out) == (1, "")
    assert "error[E6001]: gather: " in ended.err
    assert " --> <stdin>:3:1\n" in ended.err
    ended = run("run", "-", "-i", "x=0", "--check", "--engine", engine, stdin=DIVISION)
    assert "error[E6005]: " in ended.err and "3 | %2 = BinOp(Div" in ended.err


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["-i", "x=[1, 2"], 2, "--input x: not a number or list of numbers: [1, 2"),
        (["-i", "x=[1, 2]"], 2, "--input x: the literal has 2 elements, its type f32[3] has 3"),
        (["-i", "i=[0, 1.5]"], 2, "--input i: an element of the literal is no i64"),
        (["-i", "x=1) : Tensor<f32, []>\n%1 = Exp(%0"], 2, "--input x: not a number"),
        (["-i", "z=1"], 2, "--input z: the module has no such input, its inputs are x, i"),
        (["-i", "x"], 2, "--input takes NAME=VALUE or a file of arrays ending in .npz"),
        (["-i", "x=nowhere.npy"], 2, "cannot read nowhere.npy: No such file"),
        (["-i", "x=f.npz:k"], 2, "f.npz has no array k, it has x, i"),
        (["-i", "x=broken.npy"], 2, "cannot read broken.npy as an array"),
        (["-i", "x=broken.npz"], 2, "cannot read broken.npz as an archive of arrays"),
        (["-i", "x=objects.npy"], 2, "cannot read objects.npy as an array"),
        (["-i", "x=f.npz"], 1, "error[E2007]: run: input 'i' is missing"),
        (["-i", "wide.npz"], 1, "error[E2001]: run: input 'x' is declared as f32[3], got f64[3]"),
        (["-i", "f.npz", "--engine", "abacus"], 1, "error[E6002]"),
        (["-i", "f.npz", "--out", "out.txt"], 2, "--out takes a file that ends in .npz"),
        (["-i", "f.npz", "--out", "nowhere/out.npz"], 2, "cannot write nowhere/out.npz"),
    ],
)
def test_run_refuses(
    run: Any, argv: list[str], status: int, words: str, write: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    np.savez("f.npz", x=np.ones(3, np.float32), i=np.array([0, 1]))
    np.savez("wide.npz", x=np.ones(3), i=np.array([0, 1]))
    np.save("objects.npy", np.array([{}], object))
    write("broken.npy", "not an array")
    write("broken.npz", b"PK\x03\x04 neither")
    ended = run("run", "-", *argv, stdin=ROWS)
    assert (ended.status, words in ended.err) == (status, True), ended.err


def test_nothing_runs_after_an_error_of_verification(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr("pullback.module.run.run", refuse)
    assert "error[E3001]" in run("run", "-", "--random", "0", stdin=UNFIT).err


# -- diff, ops ------------------------------------------------------------------------------------


def test_diff_of_the_same_program_is_empty(run: Any, write: Any) -> None:
    same = EXAMPLE.replace("%0, %1)", "%1, %0)").replace("%4", "%14")
    assert run("diff", write("a.ir", EXAMPLE), "-", stdin=same) == (0, "", "")


def test_diff_matches_what_instructions_do(run: Any, write: Any) -> None:
    more = EXAMPLE.replace("%2 = BinOp(Mul, %0, %1)", "%9 = Exp(%1) : Tensor<f32, [3]>\n"
                           "%2 = BinOp(Mul, %0, %9)").replace("Sum(%3, [], false)",
                           "Mean(%3, [], false)")  # fmt: skip
    ended = run("diff", write("a.ir", EXAMPLE), write("b.ir", more))
    assert ended.status == 1
    marks = [line[49:50] or " " for line in ended.out.splitlines()]
    assert marks == [" ", " ", ">", "|", " ", "<", ">", "|"]
    changes = run("diff", "--changes", write("a.ir", EXAMPLE), write("b.ir", more)).out
    assert changes == "".join(
        line + "\n" for line, mark in zip(ended.out.splitlines(), marks) if mark != " "
    )


def test_diff_says_when_only_names_differ(run: Any, write: Any) -> None:
    ended = run("diff", write("a.ir", EXAMPLE), "-", stdin=EXAMPLE.replace('"y"', '"z"'))
    assert ended.status == 1
    assert ended.out.endswith("Their fingerprints are equal: only names or profiles differ.\n")


def test_diff_keeps_long_lines_within_the_width(run: Any, write: Any) -> None:
    ended = run("diff", "--width", "60", write("a.ir", EXAMPLE), write("b.ir", DIVISION))
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 60
    joined = "".join(line[31:].strip() for line in lines)
    assert "%2=BinOp(Div,%1,%0):Tensor<f32,[]>" in joined.replace(" ", "")


def test_colours_are_for_terminals(run: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = write("a.ir", EXAMPLE), write("b.ir", DIVISION)
    assert "\x1b" not in run("diff", a, b).out
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert "\x1b[31m" in run("diff", a, b).out
    assert "\x1b[31;1merror[E3001]\x1b[0m" in run("verify", "-", stdin=UNFIT).err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in run("diff", a, b).out


def test_ops_lists_every_instruction_with_its_derivative(run: Any) -> None:
    lines = run("ops").out.splitlines()
    words = {line.split()[0]: line for line in lines}
    assert {e.name for e in pb.ir.extensions()} < set(words)
    assert words["Sin"].split(maxsplit=2) == ["Sin", "extended", "g * Cos(x)"]
    assert words["ArgMax"].endswith("no derivative")
    core = [line.split()[1] for line in run("ops", "--profile", "core-v1").out.splitlines()]
    assert set(core) == {"core-v1"}
    assert len(core) == 25
    assert "Sum(f64[2,3,4], [1], true) : f64[2,1,4]" in run("ops", "Sum").out
    assert run("ops", "Frob") == (2, "", "error: there is no instruction Frob\n")


# -- for programs ---------------------------------------------------------------------------------


def test_json_results(run: Any) -> None:
    def read(*argv: str, **rest: Any) -> Any:
        return json.loads(run(*argv, "--json", **rest).out)

    (about,) = read("verify", "-", stdin=EXAMPLE)["modules"]
    assert about == {
        "file": "<stdin>", "profile": "core-v1", "instructions": 5, "outputs": ["f32[]"],
        "inputs": [{"name": "x", "type": "f32[3]"}, {"name": "y", "type": "f32[3]"}],
    }  # fmt: skip
    assert read("format", "-", stdin=EXAMPLE)["formatted"] is True
    assert read("canon", "-", stdin=EXAMPLE)["values"]["4"] == 4
    made = read("grad", "-", stdin=EXAMPLE)
    assert set(made["gradients"]) == {"0", "1"}
    assert read("hash", "-", stdin=EXAMPLE)["modules"][0]["fingerprint"] == pb.ir.fingerprint(
        pb.ir.parse(EXAMPLE)
    )
    (output,) = read("run", "-", "-i", "x=0", stdin=DIVISION)["outputs"]
    assert output == {"value": 2, "type": "Tensor<f32, []>", "data": "inf"}
    (one,) = read("ops", "Sin")["instructions"]
    assert (one["profile"], one["derivative"]) == ("extended", ["g * Cos(x)"])


def test_json_errors_carry_their_values(run: Any, write: Any) -> None:
    ended = run("verify", "--json", "-", stdin=UNFIT)
    assert (ended.status, ended.err) == (1, "")
    found = json.loads(ended.out)
    (error,) = found["errors"]
    assert found["ok"] is False
    assert (error["code"], error["line"], error["column"]) == ("E3001", 3, 1)
    assert error["values"] == {"dimension": 1, "extents": [4, 5], "instruction": 2, "value": 2}
    ended = run("verify", "--json", "nowhere.ir")
    assert (ended.status, json.loads(ended.out)["errors"][0]["code"]) == (2, "usage")
    ended = run("diff", "--json", write("a.ir", EXAMPLE), "-", stdin=DIVISION)
    found = json.loads(ended.out)
    assert (ended.status, found["ok"], found["same"]) == (1, True, False)


# -- what can go wrong around it ------------------------------------------------------------------


def test_files_that_cannot_be_read(run: Any, tmp_path: Path) -> None:
    assert run("verify", "nowhere.ir").err == (
        "error: cannot read nowhere.ir: No such file or directory\n"
    )
    assert run("verify", str(tmp_path)).err.endswith(": Is a directory\n")
    assert run("verify", "-", "-") == (2, "", "error: the standard input can be read once\n")
    assert run("diff", "-", "-").status == 2
    ended = run("verify", "-", stdin=b'%0 = Input() {name: "\xff"}')
    assert ended.status == 1
    assert "error[E1001]: invalid UTF-8: byte 0xff\n --> <stdin>:1:22\n" in ended.err


def test_usage(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("frobnicate").status == run("verify").status == run().status == main([]) == 2
    assert "usage: pullback" in capsys.readouterr().err
    assert run("verify", "--help").status == 0


def test_a_fault_of_ours_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("of all things")

    monkeypatch.delenv("PULLBACK_TRACEBACK", raising=False)
    monkeypatch.setattr("pullback.cli.checking.verify", broken)
    ended = run("verify", "-", stdin=EXAMPLE)
    assert ended.status == 1
    assert ended.err.startswith("error[internal]: a fault of pullback itself: RuntimeError: of all")
    monkeypatch.setenv("PULLBACK_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="of all things"):
        run("verify", "-", stdin=EXAMPLE)


def test_an_interrupt_is_one_word(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pullback.cli.checking.verify", interrupted)
    assert run("verify", "-", stdin=EXAMPLE) == (130, "", "error: interrupted\n")


# -- processes of their own -----------------------------------------------------------------------


def test_commands_that_run_nothing_do_without_jaxlib(write: Any) -> None:
    path = write("f.ir", EXAMPLE)
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


def test_a_module_is_utf8_whatever_the_language() -> None:
    text = '%0 = Input() {name: "\u6f22"} : Tensor<f32, []>\noutputs: %0\n'
    environment = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        [sys.executable, "-m", "pullback", "ir", "format", "-"], input=text.encode(),
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment}, capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert ended.stdout == text.encode()


def test_a_reader_that_leaves_is_no_error(write: Any) -> None:
    """Like other programs, it ends silently."""
    path = write("long.ir", "\n".join(
        ['%0 = Input() {name: "x"} : Tensor<f32, []>',
         *[f"%{i} = Exp(%{i - 1}) : Tensor<f32, []>" for i in range(1, 5000)], "outputs: %4999"]
    ))  # fmt: skip
    command = (
        f"'{sys.executable}' -m pullback ir format {path} | head -n 1; echo ${{PIPESTATUS[0]}}"
    )
    ended = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[1:] == [str(128 + signal.SIGPIPE)]
