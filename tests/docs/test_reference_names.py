"""Pages and docstrings: names in them exist, public functions have examples."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from paths import ROOT

import pullback as pb
from tools.site.inventory import chapters, modules, public_names, public_paths, short
from tools.site.sections import SECTIONS, section_pages

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# `pb.name` in inline code; a call may follow
NAME = re.compile(r"`(pb(?:\.[A-Za-z_]\w*)+)(?:\([^`]*\))?`")
LINK = re.compile(r"\]\(([^()\s]+)\)")
# Names that pages mention because they do not exist
MISSING = {"pb.cat", "pb.name"}
# These start or end processes, or need a package that tests do not have
WITHOUT_EXAMPLE = {"initialize", "launch", "shutdown", "read_image"}


def found(path: str) -> Any:
    """What a name that begins with `pb` stands for."""
    value: Any = pb
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_on_pages_exist(page: Path) -> None:
    for path in set(NAME.findall(page.read_text(encoding="utf-8"))) - MISSING:
        try:
            found(path)
        except AttributeError as error:
            pytest.fail(f"{page.name} names {path}: {error}")


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_plain_files_exist(page: Path) -> None:
    """Pages of docs/ are checked when the site is built."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("#"):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name}: {target}"


def test_examples_are_listed() -> None:
    folder = ROOT / "examples"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    assert {path.name for path in folder.glob("*.py")} == {n for n in listed if n.endswith(".py")}


@pytest.mark.parametrize("module", [pb, *modules()], ids=lambda module: module.__name__)
def test_public_functions_have_examples(module: Any) -> None:
    if module.__name__ == "pullback.testing":
        return  # tools for tests of ops: docs/ops.md shows the one for users
    for name in public_names(module):
        value = getattr(module, name)
        text = inspect.getdoc(value) or ""
        path = f"{short(module.__name__)}.{name}"
        assert text.strip() or not callable(value), f"{path} needs a docstring"
        if isinstance(value, FunctionType) and name not in WITHOUT_EXAMPLE:
            assert ">>>" in text, f"{path} needs an example"


def test_every_public_name_is_in_one_chapter() -> None:
    listed = [f"{short(s.owner)}.{n}" for c in chapters() for s in c.sections for n in s.names]
    holders = {short(module.__name__) for module in modules()}
    wanted = [p for p in public_paths() if p not in holders and not p.startswith("pb.Tensor.")]
    assert sorted(listed) == sorted(wanted)


def test_pages_are_in_one_section() -> None:
    pages = ["index", "tutorial/01_a", "linalg", "a_new_page", "howto/b", "reference/linalg"]
    placed = [p for groups in section_pages(pages).values() for _, names in groups for p in names]
    assert sorted(placed) == sorted(pages[1:])
    assert len({section.slug for section in SECTIONS}) == len(SECTIONS)


def test_new_packages_are_found() -> None:
    """A module that is loaded at its first use is documented as others are."""
    lazy = [name for name in ("nn", "io", "data", "train", "linalg") if name in pb.__all__]
    names = {module.__name__ for module in modules()}
    assert lazy
    for name in lazy:
        assert importlib.import_module(f"pullback.{name}").__name__ in names
