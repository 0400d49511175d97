"""The constructor of an op class, written when its first op is made.

`dataclass` compiles four methods for each class that it sees. There are some two hundred op
classes, of which a program uses a few, and the methods would take half of the time of the import.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any


class OpConstructor:
    """The `__init__` of an op class until it is first looked up: then `dataclass` writes it."""

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def __get__(self, op: Any, owner: type | None = None) -> Any:
        init = _constructor_of_dataclass(self.cls)
        type.__setattr__(self.cls, "__init__", init)  # no rule changes: caches stay
        return init.__get__(op, owner)


def _constructor_of_dataclass(cls: Any) -> Any:
    """Return the `__init__` of a frozen dataclass with the fields of `cls`."""
    fields = [(f.name, f.type, copy.copy(f)) for f in dataclasses.fields(cls)]
    names: dict[str, Any] = {"__module__": __name__}  # so that no error is told at its lines
    if hasattr(cls, "__post_init__"):
        names["__post_init__"] = cls.__post_init__
    made = dataclasses.make_dataclass(
        cls.__name__, fields, namespace=names, eq=False, repr=False, frozen=True
    )
    init = vars(made)["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def refuse_op_change(op: Any, name: str, *value: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name!r}: ops are frozen")


def op_text(op: Any) -> str:
    """Return the `repr` of a dataclass."""
    shown = [f"{f.name}={getattr(op, f.name)!r}" for f in dataclasses.fields(op) if f.repr]
    return f"{type(op).__qualname__}({', '.join(shown)})"
