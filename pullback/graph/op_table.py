"""The op table: every op class, by its name in the text of the IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TABLE: dict[str, Any] = {}  # classes; Any, because their parameters differ
version = 0  # increases when a class is added or changed; part of the keys of cached rule results
on_replaced: list[Callable[[], None]] = []  # called when a rule was replaced: programs are stale


def op_table_changed() -> None:
    """Invalidate cached rule results: a class was added or changed."""
    global version
    version += 1


def op_table_rule_replaced() -> None:
    """Invalidate cached rule results and programs: a rule was replaced."""
    op_table_changed()
    for forget in on_replaced:
        forget()
