"""Loading by names: from files of other libraries, or of models that were written differently."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError
from pullback.functions import asarray
from pullback.functions.sharding import shard
from pullback.graph.argument_checks import shown_argument
from pullback.io.leaf_names import NamedLeafPath
from pullback.io.like import (
    is_like_tree_leaf,
    like_tree_children,
    like_tree_type,
    mismatch_with_like,
    remade_like,
    value_like,
    with_like_tree_gradient,
)
from pullback.io.placed_values import read_placed_value
from pullback.io.saved_file import SavedFile, SavedFileValue, SavedLeaf
from pullback.tree_constants import TreeConstant

Key: TypeAlias = "str | tuple[str | tuple[str, ...], Callable[..., Any]] | None"
KeyMap: TypeAlias = "Mapping[str, Key] | Callable[[str], Key]"


def load_by_key_map(file: SavedFile, like: Any, keys: KeyMap | None) -> Any:
    """Return `like` with the values that a file has under the names of its leaves."""
    if keys is not None and not (isinstance(keys, Mapping) or callable(keys)):
        raise ArgumentError(f"load: keys must be a dict or a function, got {shown_argument(keys)}")
    tree.flatten(like)  # registers dataclasses
    names = KeyMappedValues(file, keys)
    made = names.load(like, NamedLeafPath())
    if keys is None:
        names.refuse_unused()
    elif isinstance(keys, Mapping):
        names.refuse_unknown(keys)
    return made


class KeyMappedValues:
    """The tensors of a file by name, and which of them were used."""

    def __init__(self, file: SavedFile, keys: KeyMap | None) -> None:
        self._file, self._found = file, file.by_name()
        self._keys = keys
        self._used: set[str] = set()
        self._ours: set[str] = set()
        self._made: dict[tuple[str, int], Any] = {}

    def load(self, like: Any, path: NamedLeafPath) -> Any:
        if type(like) is TreeConstant:
            return TreeConstant(self.load(like.value, path), like.state)
        if not is_like_tree_leaf(like):
            children = like_tree_children(like, path)
            return remade_like(like, {k: self.load(x, at) for k, (x, at) in children.items()})
        return self._leaf(like, path)

    def _leaf(self, like: Any, path: NamedLeafPath) -> Any:
        ours = path.dotted
        self._ours.add(ours)
        key: Any = ours
        if isinstance(self._keys, Mapping):
            key = self._keys.get(ours, ours)
        elif self._keys is not None:
            key = self._keys(ours)
        if key is None or (like_tree_type(like) is None and key not in self._found):
            return like
        if isinstance(key, str):
            if (key, id(like)) not in self._made:  # a tensor that occurs twice is loaded once
                self._made[key, id(like)] = value_like(self._saved(key, path), like, path)
            return self._made[key, id(like)]
        if not (isinstance(key, tuple) and len(key) == 2 and callable(key[1])):
            what = (
                f"keys must give a name, a name with a function, or None, got {shown_argument(key)}"
            )
            raise ArgumentError(f"load: {path.title}: {what}")
        given = key[0] if isinstance(key[0], tuple) else (key[0],)
        values = [_key_mapped_value(self._saved(name, path)) for name in given]
        return _key_mapped_result(key[1](*values), like, path)

    def _saved(self, name: str, path: NamedLeafPath) -> SavedLeaf:
        if name not in self._found:
            close = difflib.get_close_matches(str(name), self._found, 3)
            hint = f"Close to it: {', '.join(close)}." if close else None
            what = f"{path.title}: the file has no tensor {name!r}"
            raise ArgumentError(f"load: {what}", hint=hint)
        self._used.add(name)
        return self._found[name]

    def refuse_unused(self) -> None:
        """Raise if the file has tensors that belong nowhere."""
        unused = [name for name in self._found if name not in self._used]
        if unused:
            more = f" and {len(unused) - 6} more" if len(unused) > 6 else ""
            hint = "Pass keys={} to leave out tensors that like does not have."
            what = f"like has no place for {', '.join(unused[:6])}{more} of the file"
            raise ArgumentError(f"load: {what}", hint=hint)

    def refuse_unknown(self, keys: Mapping[str, Key]) -> None:
        """Raise if a key map has a name that no leaf has: it is probably misspelt."""
        for name in keys:
            if name not in self._ours:
                close = difflib.get_close_matches(str(name), self._ours, 3)
                hint = f"Close to it: {', '.join(close)}." if close else None
                raise ArgumentError(f"load: keys has {name!r}, which like does not have", hint=hint)


def _key_mapped_value(saved: SavedLeaf) -> Any:
    return saved.value if isinstance(saved, SavedFileValue) else read_placed_value(saved)


def _key_mapped_result(value: Any, like: Any, path: NamedLeafPath) -> Any:
    """Return what a function made of tensors of the file, with the sharding of `like`."""
    wanted = like_tree_type(like)
    if wanted is None:
        return value
    made = asarray(value)
    if made._node.type.plain is not wanted.plain:
        raise mismatch_with_like(path, f"{made._node.type} after the function of keys", wanted)
    if isinstance(like, (np.ndarray, np.generic)):
        return made.numpy()
    if wanted.sharding is not None:
        return with_like_tree_gradient(
            shard(made, wanted.sharding.mesh, wanted.sharding.spec), like
        )
    return with_like_tree_gradient(made.detach(), like)
