"""The examples in README.md and docs run, in order, and print what they say."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

import pullback as pb
from pullback.graph.op_table import TABLE

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_block(source: str, names: dict[str, Any], page: str, line: int) -> None:
    """A session with prompts is compared with what it prints; anything else must just run."""
    if ">>>" not in source:
        exec(compile("\n" * line + source, page, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(source, names, page, page, line)
    test.globs = names  # the parser copied it, but later blocks use the names of earlier ones
    doctest.DebugRunner(optionflags=FLAGS).run(test, clear_globs=False)


@pytest.fixture(autouse=True)
def own_table() -> Iterator[None]:
    """Ops that a page defines are forgotten after it."""
    before = dict(TABLE)
    yield
    TABLE.clear()
    TABLE.update(before)


@pytest.mark.usefixtures("cold_disk")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pb.clear_cache()  # the pages tell what a process does that begins with them
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        try:
            run_block(block.group(1), names, page.name, line)
        except doctest.DocTestFailure as failure:
            at = line + failure.example.lineno + 1
            pytest.fail(
                f"{page.name}:{at}: {failure.example.source}"
                f"expected {failure.example.want!r}, got {failure.got!r}"
            )
        except doctest.UnexpectedException as failure:
            raise failure.exc_info[1] from None
