"""The command line: its output, errors and exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import DIVISION, EXAMPLE, ROWS, UNFIT, Stream, ir

import pullback as pb
from pullback.cli.main import main


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


# -- verify, format, canon, hash ------------------------------------------------------------------


def test_verify_is_silent_about_good_modules(write: Any) -> None:
    assert ir("verify", write("f.ir", EXAMPLE), "-", stdin=ROWS) == (0, "", "")


def test_an_error_shows_the_line_and_a_caret(write: Any) -> None:
    path = write("f.ir", UNFIT)
    ended = ir("verify", path)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "error[E3001]: Broadcasting failed: instruction 2 (Add): shapes must broadcast, "
        "dimension 1 is 4 and 5, got f32[3,4], f32[3,5]\n"
        f" --> {path}:3:1\n"
        "  |\n"
        "3 | %2 = Add(%0, %1) : Tensor<f32, [3, 4]>\n"
        "  | ^\n"
    )


def test_a_syntax_error_points_at_the_word() -> None:
    ended = ir("verify", "-", stdin=EXAMPLE.replace("%4 = Sum(", "%4 = Sum["))
    assert ended.status == 1
    assert "error[syntax]: `(` expected" in ended.err
    assert " --> <stdin>:5:9\n" in ended.err
    assert ended.err.endswith("5 | %4 = Sum[%3, [], false) : Tensor<f32, []>\n  |         ^\n")


def test_carets_are_aligned_below_wide_characters_and_tabs() -> None:
    text = '\t%0 = Input() {name: "\u6f22"} : Tensor<f32, []> $\noutputs: %0\n'
    *_, line, caret = ir("verify", "-", stdin=text).err.splitlines()
    assert line == '1 |  %0 = Input() {name: "\u6f22"} : Tensor<f32, []> $'
    assert caret.index("^") == line.index("$") + 1  # one character takes two columns


def test_a_long_line_is_cut_around_the_place() -> None:
    numbers = ", ".join(["1.0"] * 500)
    text = f"%0 = ConstTensor([{numbers}, oops, {numbers}]) : Tensor<f32, [1001]> $\noutputs: %0\n"
    *_, line, caret = ir("verify", "-", stdin=text).err.splitlines()
    assert len(line) <= 100
    assert line[caret.index("^")] == "$"


def test_control_characters_are_not_printed() -> None:
    ended = ir("verify", "-", stdin='%0 = Input() {name: "\x1b[31m"} : Tensor<f32> \x1b]0;\x07')
    assert ended.status == 1
    assert "\x1b" not in ended.err and "\x07" not in ended.err


def test_every_file_is_checked(write: Any) -> None:
    bad, good = write("bad.ir", UNFIT), write("good.ir", EXAMPLE)
    ended = ir("hash", bad, good)
    assert ended.status == 1
    assert ended.out == f"{pb.ir.fingerprint(pb.ir.parse(EXAMPLE))}  {good}\n"
    assert f" --> {bad}:3:1" in ended.err


def test_verify_in_another_profile() -> None:
    text = EXAMPLE.replace("Sum(%3, [], false)", "Prod(%3, [0], false)")
    assert "error[E6003]" in ir("verify", "-", stdin=text).err
    assert ir("verify", "--profile", "extended", "-", stdin=text).status == 0


def test_format_prints_the_standard_layout() -> None:
    loose = EXAMPLE.replace("BinOp(Mul, ", "Mul(").replace("Tensor<f32, [3]>", "tensor<f32[3]>")
    assert ir("format", "-", stdin=f"# a comment\n{loose}") == (0, EXAMPLE, "")
    assert ir("format", "--check", "-", stdin=EXAMPLE) == (0, "", "")
    ended = ir("format", "--check", "-", stdin=loose)
    assert ended == (1, "<stdin> is not in the standard layout\n", "")


def test_canon_and_hash() -> None:
    made = ir("canon", "-", stdin=EXAMPLE)
    assert made.status == 0
    assert made.out == pb.ir.canonicalise(pb.ir.parse(EXAMPLE)).text() + "\n"
    assert ir("canon", "-", stdin=made.out) == made
    assert ir("hash", "-", stdin=EXAMPLE).out == ir("hash", "-", stdin=made.out).out


# -- grad -----------------------------------------------------------------------------------------


def test_grad_selects_targets_and_output() -> None:
    def outputs(*argv: str) -> str:
        return ir("grad", "-", *argv, stdin=EXAMPLE).out.splitlines()[-1]

    assert outputs().count("%") == 3
    assert outputs("--wrt", "y").count("%") == 2
    assert outputs("--wrt", "y,%2", "--wrt", "x").count("%") == 4
    assert outputs("--all").count("%") == 6  # the output, both inputs and three values
    assert outputs("--output", "%4") == outputs("--output", "4") == outputs()
    assert outputs("--no-verify") == outputs()


def test_grad_with_a_seed_and_in_another_profile() -> None:
    made = ir("grad", "--seed", "g", "-", stdin=ROWS)
    assert '{name: "g"} : Tensor<f32, [2]>' in made.out
    ended = ir("run", "-", "-i", "x=[1, 2, 3]", "-i", "i=[2, 2]", "-i", "g=[10, 1]",
                stdin=made.out)  # fmt: skip
    assert ended.out.endswith("= [ 0.,  0., 11.]\n")
    refused = ir("grad", "-", stdin=DIVISION)
    assert refused.status == 1
    assert "error[E5001]: Unsupported operation: Div: " in refused.err
    assert "  = The extended profile has one: use --profile extended.\n" in refused.err
    assert "profile: extended\n" in ir("grad", "--profile", "extended", "-", stdin=DIVISION).out


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["--wrt", "z"], 1, "no value 'z'"),
        (["--wrt", "%x"], 2, "a value must be written as %7"),
        (["--output", "%3"], 1, "error[E5004]"),
        (["--output", "last"], 2, "a value must be written as %7"),
        (["--profile", "core-v9"], 2, "invalid choice"),
    ],
)
def test_grad_refuses(argv: list[str], status: int, words: str) -> None:
    ended = ir("grad", "-", *argv, stdin=EXAMPLE)
    assert (ended.status, ended.out) == (status, "")
    assert words in ended.err


# -- diff, ops ------------------------------------------------------------------------------------


def test_diff_of_the_same_program_is_empty(write: Any) -> None:
    same = EXAMPLE.replace("%0, %1)", "%1, %0)").replace("%4", "%14")
    assert ir("diff", write("a.ir", EXAMPLE), "-", stdin=same) == (0, "", "")


def test_diff_matches_what_instructions_do(write: Any) -> None:
    more = EXAMPLE.replace("%2 = BinOp(Mul, %0, %1)", "%9 = Exp(%1) : Tensor<f32, [3]>\n"
                           "%2 = BinOp(Mul, %0, %9)").replace("Sum(%3, [], false)",
                           "Mean(%3, [], false)")  # fmt: skip
    ended = ir("diff", write("a.ir", EXAMPLE), write("b.ir", more))
    assert ended.status == 1
    marks = [line[49:50] or " " for line in ended.out.splitlines()]
    assert marks == [" ", " ", ">", "|", " ", "|", " "]
    changes = ir("diff", "--changes", write("a.ir", EXAMPLE), write("b.ir", more)).out
    assert changes == "".join(
        line + "\n" for line, mark in zip(ended.out.splitlines(), marks) if mark != " "
    )


def test_diff_says_when_only_names_differ(write: Any) -> None:
    ended = ir("diff", write("a.ir", EXAMPLE), "-", stdin=EXAMPLE.replace('"y"', '"z"'))
    assert ended.status == 1
    assert ended.out.endswith("Their fingerprints are equal: only names or profiles differ.\n")


def test_diff_keeps_long_lines_within_the_width(write: Any) -> None:
    ended = ir("diff", "--width", "60", write("a.ir", EXAMPLE), write("b.ir", DIVISION))
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 60
    joined = "".join(line[31:].strip() for line in lines)
    assert "%2=BinOp(Div,%1,%0):Tensor<f32,[]>" in joined.replace(" ", "")


def test_colours_are_for_terminals(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = write("a.ir", EXAMPLE), write("b.ir", DIVISION)
    assert "\x1b" not in ir("diff", a, b).out
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Stream, "terminal", True)
    assert "\x1b[31m" in ir("diff", a, b).out
    assert "\x1b[31;1merror[E3001]\x1b[0m" in ir("verify", "-", stdin=UNFIT).err
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in ir("diff", a, b).out


def test_ops_lists_every_instruction_with_its_derivative() -> None:
    lines = ir("ops").out.splitlines()
    words = {line.split()[0]: line for line in lines}
    assert {e.name for e in pb.ir.extensions()} < set(words)
    assert words["Sin"].split(maxsplit=2) == ["Sin", "extended", "g * Cos(x)"]
    assert words["ArgMax"].endswith("no derivative")
    core = [line.split()[1] for line in ir("ops", "--profile", "core-v1").out.splitlines()]
    assert set(core) == {"core-v1"}
    assert len(core) == 25
    assert "Sum(f64[2,3,4], [1], true) : f64[2,1,4]" in ir("ops", "Sum").out
    assert ir("ops", "Frob") == (2, "", "error: there is no instruction Frob\n")
    assert (
        "no instruction Sin in the profile core-v1" in ir("ops", "Sin", "--profile", "core-v1").err
    )


@pytest.mark.parametrize(
    ("name", "extended", "core"),
    [("Log", "DivNoNan(g, x)", "g / x"), ("Div", "DivNoNan(g, y); ", "no derivative"),
     ("Broadcast", "Reshape(Sum(g))", "no derivative"), ("Sub", "g; -g", "g; -g")],
)  # fmt: skip
def test_ops_shows_the_derivatives_of_the_profile(name: str, extended: str, core: str) -> None:
    assert extended in ir("ops", name).out
    assert core in ir("ops", name, "--profile", "core-v1+gradient").out


# -- for programs ---------------------------------------------------------------------------------


def test_json_results() -> None:
    def read(*argv: str, **rest: Any) -> Any:
        return json.loads(ir(*argv, "--json", **rest).out)

    (about,) = read("verify", "-", stdin=EXAMPLE)["modules"]
    assert about == {
        "file": "<stdin>", "profile": "core-v1", "instructions": 5,
        "inputs": [{"name": name, "type": "Tensor<f32, [3]>"} for name in "xy"],
        "outputs": ["Tensor<f32, []>"],
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


def test_json_errors_carry_their_values(write: Any) -> None:
    ended = ir("verify", "--json", "-", stdin=UNFIT)
    assert (ended.status, ended.err) == (1, "")
    found = json.loads(ended.out)
    (error,) = found["errors"]
    assert found["ok"] is False
    assert (error["code"], error["line"], error["column"]) == ("E3001", 3, 1)
    assert error["values"] == {"dimension": 1, "extents": [4, 5], "instruction": 2, "value": 2}
    ended = ir("grad", "--json", "-", stdin=DIVISION)
    assert json.loads(ended.out)["errors"][0]["values"] == {"op": "Div", "value": 2}
    ended = ir("verify", "--json", "nowhere.ir")
    assert (ended.status, json.loads(ended.out)["errors"][0]["code"]) == (2, "usage")
    ended = ir("diff", "--json", write("a.ir", EXAMPLE), "-", stdin=DIVISION)
    found = json.loads(ended.out)
    assert (ended.status, found["ok"], found["same"]) == (1, True, False)


# -- files, usage, interruption -------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert ir("verify", "nowhere.ir").err == (
        "error: cannot read nowhere.ir: No such file or directory\n"
    )
    assert ir("verify", str(tmp_path)).err.endswith(": Is a directory\n")
    assert ir("verify", "-", "-") == (2, "", "error: the standard input can be read only once\n")
    assert ir("diff", "-", "-").status == 2
    ended = ir("verify", "-", stdin=b'%0 = Input() {name: "\xff"}')
    assert ended.status == 1
    assert "error[E1001]: Invalid UTF-8 sequence: byte 0xff\n --> <stdin>:1:22\n" in ended.err


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert ir("frobnicate").status == ir("verify").status == ir().status == main([]) == 2
    assert "usage: pullback" in capsys.readouterr().err
    assert ir("verify", "--help").status == 0


def test_an_internal_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> None:
        raise RuntimeError("of all things")

    monkeypatch.delenv("PULLBACK_TRACEBACK", raising=False)
    monkeypatch.setattr("pullback.cli.commands.verify", broken)
    ended = ir("verify", "-", stdin=EXAMPLE)
    assert ended.status == 1
    assert ended.err.startswith(
        "error[internal]: an error in pullback itself: RuntimeError: of all"
    )
    monkeypatch.setenv("PULLBACK_TRACEBACK", "full")
    with pytest.raises(RuntimeError, match="of all things"):
        ir("verify", "-", stdin=EXAMPLE)


def test_an_interrupt_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pullback.cli.commands.verify", interrupted)
    assert ir("verify", "-", stdin=EXAMPLE) == (130, "", "error: interrupted\n")
