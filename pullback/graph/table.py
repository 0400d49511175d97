"""The op table: every op class by the name that the IR's text gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TABLE: dict[str, Any] = {}  # of classes; Any, because each takes parameters of its own
version = 0  # grows whenever a class is added or changed: what its rules gave before may be stale


forgetting: list[Callable[[], None]] = []  # for when a rule was replaced: programs are stale, too


def changed() -> None:
    global version
    version += 1


def replaced() -> None:
    changed()
    for forget in forgetting:
        forget()


def op(name: str) -> Any:
    """The class of the op called `name`."""
    return TABLE[name]
