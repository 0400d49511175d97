"""docs/ir.md: commands print what it shows, tables are up to date, its case passes."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import ebnf
import pytest
import yaml
from command import pullback
from paths import ROOT

import pullback as pb
from pullback.cli.conformance import judge_conformance_case
from pullback.errors import PullbackError
from pullback.graph.dtypes import ALL
from pullback.graph.op_table import TABLE
from pullback.static.catalogue import CATALOGUE
from pullback.static.descriptions import is_described_builtin
from pullback.static.profiles import PROFILES
from tools import ir_tables

PAGE = (ROOT / "docs" / "ir.md").read_text(encoding="utf-8")

COMMENTED = ("`inputs:` must list", "another name of a parameter", "must be finite in f64")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    """The commands of the page and their outputs."""
    found = []
    for block in blocks("console"):
        for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = one.partition("\n")
            found.append((line, output))
    return found


@pytest.mark.parametrize(("line", "wanted"), sessions())
def test_commands_print_what_the_page_says(
    line: str, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("examples", "tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    text, told = "", ""
    for command in line.split(" | "):
        name, *argv = shlex.split(command)
        assert name == "pullback"
        ended = pullback(*argv, stdin=text)
        text, told = ended.out, told + ended.err
    got = text + told
    assert doctest.OutputChecker().check_output(wanted, got, doctest.ELLIPSIS), got


def test_tables_are_up_to_date() -> None:
    """`make docs-tables` writes them."""
    assert ir_tables.updated(PAGE) == PAGE


def test_the_tables_list_every_instruction_and_code() -> None:
    table = ir_tables.instructions_table()
    for name, cls in TABLE.items():
        if cls.text.profile and is_described_builtin(cls):
            assert re.search(rf"^\| `(BinOp\()?{name}[(,]", table, re.MULTILINE), name
    rows = ir_tables.errors_table().splitlines()[2:]
    assert [row.split()[1] for row in rows] == list(CATALOGUE)
    assert [row.split()[1] for row in rows if "reserved" in row] == [
        "E1006", "E2002", "E2003", "E2006",
    ]  # fmt: skip


def test_the_grammar_lists_every_dtype_and_profile() -> None:
    (grammar,) = blocks("ebnf")
    for name in [d.name for d in ALL] + list(PROFILES):
        assert f'"{name}"' in grammar


def test_the_case_of_the_page_passes() -> None:
    (case,) = blocks("yaml")
    assert judge_conformance_case(yaml.safe_load(case), "reference").outcome == "pass"


def test_the_parser_accepts_every_sentence_of_the_grammar() -> None:
    """Except for the conditions that the grammar states in comments."""
    (grammar,) = blocks("ebnf")
    letters = {
        "letter": "abcXYZ", "digit": "0123456789", "hex": "09afAF", "newline": "\n", "quote": '"',
        "character": "a0 #%\u00e9",
    }  # fmt: skip
    tokens = {"value", "word", "integer", "float", "decimal", "special", "string", "escape"}
    grammar_rules = ebnf.rules(grammar)
    said, refused = 0, []
    for seed in range(400):
        text = ebnf.Speaker(grammar_rules, letters, tokens, seed).say("module")
        try:
            module = pb.ir.parse(text)
        except PullbackError as error:
            if not any(words in error.message for words in COMMENTED):
                refused.append((text, str(error)))
        else:
            assert pb.ir.parse(module.text()).text() == module.text()
            said += len(module.instructions) > 0
    assert not refused
    assert said > 100
