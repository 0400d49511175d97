"""Where a public name is defined: a file of the repository and a line in it."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pullback"


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def definitions(path: Path) -> dict[str, int]:
    """The lines at which a file defines its names, and `Class.name` for what a class defines."""
    found: dict[str, int] = {}
    for node in parsed(path).body:
        _enter(node, "", found)
    return found


def _enter(node: ast.stmt, prefix: str, found: dict[str, int]) -> None:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            found.setdefault(prefix + name, first)
            for child in node.body if isinstance(node, ast.ClassDef) else ():
                _enter(child, f"{name}.", found)
        case ast.Assign(targets=targets):
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        found.setdefault(prefix + part.id, node.lineno)
        case ast.AnnAssign(target=ast.Name(id=name)):
            found.setdefault(prefix + name, node.lineno)
        case ast.If(body=body, orelse=orelse):
            for child in [*body, *orelse]:
                _enter(child, prefix, found)


@cache
def _texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _holders(name: str) -> list[Path]:
    """The files that define a name; those that do not contain it need not be parsed."""
    found = (path for path, text in _texts().items() if f"\n{name}" in text or f" {name}" in text)
    return [path for path in found if name in definitions(path)]


def source_of(owner: str, name: str, value: Any) -> tuple[Path, int] | None:
    """The file and line of `name`, which the module or class `owner` offers with this value."""
    path = _file_of(value)
    own = getattr(inspect.unwrap(value) if callable(value) else value, "__qualname__", name)
    if path is not None:
        for key in (name, own):
            if key in definitions(path):
                return path, definitions(path)[key]
    # made by a factory, or a constant: the file that names it, first in the owner's folder
    for key in (name, f"{name}_"):
        candidates = _holders(key)
        near = [p for p in candidates if _is_near(p, owner) or len(candidates) == 1]
        if near:
            best = min(near, key=lambda p: ("/functions/" in str(p)) != (owner == "pullback"))
            return best, definitions(best)[key]
    if path is not None and hasattr(value, "__code__"):
        return path, inspect.unwrap(value).__code__.co_firstlineno
    return None


def _is_near(path: Path, owner: str) -> bool:
    """Whether a file may define names of a module that are no functions or classes."""
    folder = "/".join(owner.split(".")[:2])
    near = (f"/{folder}/", "/pullback/functions/")  # modules repeat functions on tensors
    return any(part in str(path) for part in near) or str(path).endswith(f"/{folder}.py")


def method_source(cls: type, name: str, value: Any) -> tuple[Path, int] | None:
    """The file and line of a method or property that a class has, perhaps by inheritance."""
    target = value.fget if isinstance(value, property) else value
    target = getattr(target, "__func__", target)
    for base in cls.__mro__:
        path = _file_of(base)
        if path is not None and f"{base.__name__}.{name}" in definitions(path):
            return path, definitions(path)[f"{base.__name__}.{name}"]
    return source_of(cls.__module__, name, target)


def _file_of(value: Any) -> Path | None:
    """The file of pullback that holds a function or class, if any."""
    try:
        found = inspect.getsourcefile(inspect.unwrap(value))
    except (TypeError, ValueError):
        return None
    path = Path(found) if found else None
    return path if path is not None and path.is_relative_to(PACKAGE) else None


def page_of(path: Path) -> str:
    """The name of the page of the site that shows a file."""
    return f"source/{path.relative_to(ROOT).as_posix().removesuffix('.py').replace('.', '_')}"
