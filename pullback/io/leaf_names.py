"""The leaves of a saved tree: their paths as Python writes them, and their names in a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pullback.compiled.serialize import serialized_children
from pullback.errors import ArgumentError
from pullback.io.container import METADATA

DEEPEST = 200  # containers inside each other: JSON is read recursively
_ROOT = "tensor"  # the name of a tree that is a single leaf


class NamedLeafPath(NamedTuple):
    """The way from the root of a tree to a leaf."""

    written: str = ""  # as in Python: ['layers'][0].w
    dotted: str = ""  # as in state dicts: layers.0.w

    def child(self, entry: Any, attribute: bool, unnamed: str = "") -> NamedLeafPath:
        """Return the path of a child; an `unnamed` attribute is left out of dotted names."""
        written = self.written + (f".{entry}" if attribute else f"[{entry!r}]")
        if unnamed and entry == unnamed:
            return NamedLeafPath(written, self.dotted)
        return NamedLeafPath(written, f"{self.dotted}.{entry}" if self.dotted else f"{entry}")

    @property
    def title(self) -> str:
        """The path in messages."""
        return self.written or "the tree"


def leaf_names_are_attributes(data: Any) -> bool:
    """Whether the children of a node are attributes, in data of `serialize_described_tree`."""
    return data[0] == "namedtuple" or (data[0] == "registered" and _has_leaf_names(data[4]))


def _has_leaf_names(entries: Any) -> bool:
    return all(isinstance(e, str) for e in entries)


def named_leaf_paths(data: Any) -> dict[int, list[NamedLeafPath]]:
    """Return the paths of the numbered leaves in data of `serialize_described_tree`.

    A leaf has several if it is a tensor that occurs more than once.
    """
    found: dict[int, list[NamedLeafPath]] = {}
    for number, path in _leaf_paths_below(data, NamedLeafPath(), 0):
        found.setdefault(number, []).append(path)
    return found


def _leaf_paths_below(
    data: Any, path: NamedLeafPath, depth: int
) -> Iterator[tuple[int, NamedLeafPath]]:
    if isinstance(data, int):
        yield data, path
    elif data is not None:
        if depth >= DEEPEST:
            raise ArgumentError(f"save: containers are nested more than {DEEPEST} deep")
        attribute = leaf_names_are_attributes(data)
        unnamed = data[5] if data[0] == "registered" and len(data) > 5 else ""
        for entry, child in serialized_children(data).items():
            yield from _leaf_paths_below(child, path.child(entry, attribute, unnamed), depth + 1)


class UniqueLeafNames:
    """Names of tensors in a file, each of them once."""

    def __init__(self) -> None:
        self._taken = {METADATA}

    def unique(self, wanted: str) -> str:
        """Return a name, with a number if it is taken: {"a": {"b": x}, "a.b": y} is a tree."""
        wanted = wanted.encode(errors="replace").decode() or _ROOT
        name, number = wanted, 2
        while name in self._taken:
            name, number = f"{wanted}#{number}", number + 1
        self._taken.add(name)
        return name
