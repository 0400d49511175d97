"""The op class as a rule author meets it: small, and described by docs/ops.md."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from types import FunctionType

from pullback.ops.prelude import Op

PAGE = (Path(__file__).parents[2] / "docs" / "ops.md").read_text()
DERIVED = {"name", "title"}  # the metaclass sets them, unless they are stated


def rows(header: str) -> dict[str, list[str]]:
    """The cells of a table of the page by the name in their first one."""
    table = PAGE.split(f"| {header} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[c.strip() for c in line.strip("| ").split(" | ")] for line in table]
    return {re.match(r"`(\w+)", first).group(1): rest for first, *rest in cells}


def test_the_class_is_small():
    methods = (FunctionType, classmethod, property, cached_property)
    generated = {"__init__", "__repr__", "__setattr__", "__delattr__"}  # by the dataclass
    written = [n for n, v in vars(Op).items() if isinstance(v, methods) and n not in generated]
    assert len(Op.__annotations__.keys() - DERIVED) <= 8
    assert len(written) <= 20


def test_the_page_lists_every_flag_with_its_default():
    flags = [n for n in Op.__annotations__ if n not in DERIVED]
    listed = rows("flag")
    assert list(listed) == flags
    for name, (default, _) in listed.items():
        shown = f"{type(getattr(Op, name)).__name__}()" if "(" in default else getattr(Op, name)
        assert default == f"`{shown}`"


def test_the_page_lists_the_rules():
    assert all(callable(getattr(Op, name)) for name in rows("rule"))
