"""The names in a function's code: globals, attributes and imports, each with its first line."""

from __future__ import annotations

import dis
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from pullback.graph.interned import exact_key
from pullback.graph.source_lines import SourceLine

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"}
_LONGEST = 40  # a longer string is hardly the name of an attribute
# Code with one of these names reads attributes by computed names, or all attributes there are.
_COMPUTING = {"getattr", "hasattr", "attrgetter", "methodcaller", "__match_args__"}
_REFLECTING = {"vars", "__dict__", "asdict", "astuple", "fields", "dir", "getmembers"}


@dataclass
class CodeNames:
    """Names by the place where they are looked up; each with its first line."""

    globals: dict[str, SourceLine] = field(default_factory=dict)
    attributes: dict[str, SourceLine] = field(default_factory=dict)
    imports: dict[str, SourceLine] = field(default_factory=dict)  # relative ones with their dots
    computes = reflects = False  # whether the code uses one of the names above


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> CodeNames:
    """Return the names in the code of a function and of inner ones; strings may be attributes."""
    found, parts = CodeNames(), [code]
    for part in parts:
        parts.extend(c for c in part.co_consts if isinstance(c, CodeType))
        level: list[Any] = [0, 0]  # IMPORT_NAME comes after its level and its `fromlist`
        for step in dis.get_instructions(part):
            if step.opname == "EXTENDED_ARG":  # belongs to the next instruction
                continue
            name, where = step.argval, SourceLine(part, step.offset)
            if step.opname in _GLOBALS:
                found.globals.setdefault(name, where)
            elif step.opname in _ATTRIBUTES:
                found.attributes.setdefault(name, where)
            elif step.opname == "IMPORT_NAME":
                found.imports.setdefault("." * level[0] + name, where)
            elif step.opname == "MATCH_CLASS":
                found.attributes.setdefault("__match_args__", where)
            elif step.opname.startswith("LOAD_CONST"):
                for text in code_name_texts(name):
                    found.attributes.setdefault(text, where)
            level = [level[1], name]
    every = {*found.globals, *found.attributes}
    found.computes, found.reflects = bool(every & _COMPUTING), bool(every & _REFLECTING)
    return found


def code_name_texts(x: Any) -> list[str]:
    """Return the strings in a plain value that could be names of attributes."""
    if isinstance(x, (tuple, frozenset)):
        return sorted(text for part in x for text in code_name_texts(part))
    return [x] if isinstance(x, str) and x.isidentifier() and len(x) < _LONGEST else []


@lru_cache(maxsize=4096)
def code_key(code: CodeType) -> tuple:
    """Return what a function does, to compare: without lines and locals other than arguments."""
    count = code.co_argcount + code.co_kwonlyargcount
    return (
        code.co_code, code.co_names, code.co_varnames[:count], code.co_flags, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, len(code.co_freevars),
        tuple([_code_constant(c) for c in code.co_consts]), getattr(code, "co_exceptiontable", b""),
    )  # fmt: skip


def _code_constant(value: Any) -> Any:
    if isinstance(value, frozenset):
        return (frozenset, frozenset(map(exact_key, value)))
    return code_key(value) if isinstance(value, CodeType) else exact_key(value)


def absolute_module_name(name: str, f: FunctionType) -> str:
    """Return the full name of a module that a function imports."""
    if not name.startswith("."):
        return name
    level = len(name) - len(name.lstrip("."))
    package = str(f.__globals__.get("__package__") or f.__globals__.get("__name__"))
    parts = package.split(".")[: -level + 1 or None]
    return ".".join([*parts, *filter(None, [name[level:]])])
