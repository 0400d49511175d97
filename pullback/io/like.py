"""Loading into a tree like the saved one: names, shapes and dtypes must agree."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any

import numpy as np
import optree

from pullback import tree
from pullback.compiled.serialize import serialized_children
from pullback.errors import ArgumentError
from pullback.graph.dtypes import dtype
from pullback.graph.types import Type
from pullback.io.leaf_names import NamedLeafPath
from pullback.io.placed_values import read_placed_tensor
from pullback.io.saved_file import SavedFile, SavedFileValue, SavedLeaf, SavedTensor
from pullback.lazy.frozen import is_frozen
from pullback.lazy.tensor import Tensor
from pullback.tree_constants import TreeConstant
from pullback.tree_nodes import NAMESPACE, is_node, tree_node_children, tree_node_entries

_FEW = 6  # names in a message


def load_like(file: SavedFile, like: Any) -> Any:
    """Return the tree of a file with the classes, shardings and static data of another one."""
    tree.flatten(like)  # registers dataclasses
    return LikeTree(file).load(file.tree, like, NamedLeafPath())


def is_like_tree_leaf(like: Any) -> bool:
    """Whether a part of `like` has no children; None stands for a value that may be there."""
    return like is None or optree.tree_is_leaf(like, namespace=NAMESPACE)


def like_tree_children(like: Any, path: NamedLeafPath) -> dict[Any, tuple[Any, NamedLeafPath]]:
    """Return the children of a node and their paths, by key, name or number."""
    attributes = False
    if isinstance(like, dict):
        found = dict(like)
    elif is_node(type(like)):
        children, names = tree_node_children(like)[0], tree_node_entries(like)
        found = dict(zip(names, children, strict=True))
        attributes = bool(names) and isinstance(names[0], str)
    elif hasattr(like, "_fields"):
        found, attributes = dict(zip(like._fields, like, strict=True)), True
    else:
        found = dict(enumerate(like))
    unnamed = getattr(type(like), "unnamed", "")
    return {k: (x, path.child(k, attributes, unnamed)) for k, x in found.items()}


def remade_like(like: Any, children: dict[Any, Any]) -> Any:
    """Return a node with other children."""
    if isinstance(like, dict):
        pairs = [(k, children[k]) for k in like]
        if type(like) is defaultdict:
            return defaultdict(like.default_factory, pairs)
        return OrderedDict(pairs) if isinstance(like, OrderedDict) else dict(pairs)
    _, metadata, _, unflatten = optree.tree_flatten_one_level(like, namespace=NAMESPACE)
    return unflatten(metadata, tuple(children.values()))


class LikeTree:
    """Loads values into the places of a tree; a tensor that occurs twice is loaded once."""

    def __init__(self, file: SavedFile) -> None:
        self._file = file
        self._made: dict[tuple[int, int], Any] = {}

    def load(self, data: Any, like: Any, path: NamedLeafPath) -> Any:
        """Return a subtree, for what the file has there and the part of `like`."""
        if type(like) is TreeConstant:
            return TreeConstant(self.load(data, like.value, path), like.state)
        if is_like_tree_leaf(like):
            if isinstance(data, list):
                raise mismatch_with_like(
                    path,
                    f"a node with {_few_names_unlike(serialized_children(data))}",
                    _shown_leaf_like(like),
                )
            saved = SavedFileValue(None) if data is None else self._file.leaves[data]
            key = (-1 if data is None else data, id(like))
            if key not in self._made:
                self._made[key] = value_like(saved, like, path)
            return self._made[key]
        children = like_tree_children(like, path)
        if not isinstance(data, list):
            found = "None" if data is None else describe_for_like(self._file.leaves[data])
            raise mismatch_with_like(path, found, f"a {type(like).__name__}")
        there = serialized_children(data)
        if there.keys() != children.keys():
            _refuse_names_unlike(path, list(there), list(children), type(like).__name__)
        made = {k: self.load(there[k], child, at) for k, (child, at) in children.items()}
        return remade_like(like, made)


def value_like(saved: SavedLeaf, like: Any, path: NamedLeafPath) -> Any:
    """Return a saved leaf as a value of the kind of another one, which it must agree with."""
    if isinstance(saved, SavedTensor):
        wanted = like_tree_type(like)
        if wanted is None:
            raise mismatch_with_like(path, describe_for_like(saved), _shown_leaf_like(like))
        if wanted.plain is not saved.type:
            raise mismatch_with_like(path, saved.type, wanted)
        if isinstance(like, (np.ndarray, np.generic)):
            array = saved.whole()
            return array if isinstance(like, np.ndarray) else array[()]
        return with_like_tree_gradient(read_placed_tensor(saved, wanted.sharding), like)
    if like_tree_type(like) is not None:
        raise mismatch_with_like(path, describe_for_like(saved), _shown_leaf_like(like))
    return saved.value


def with_like_tree_gradient(made: Tensor, like: Any) -> Tensor:
    """Let a new tensor require a gradient, or be frozen, if another one does or is."""
    if isinstance(like, Tensor) and (like.requires_grad or is_frozen(like)):
        made.requires_grad = like.requires_grad
    return made


def like_tree_type(like: Any) -> Type | None:
    """Return the type that a leaf must have in the file; None if it is no tensor."""
    if isinstance(like, Type):
        return like
    if isinstance(like, Tensor):
        return like._node.type
    if isinstance(like, (np.ndarray, np.generic)):
        return Type(like.shape, dtype(like.dtype))
    return None


def describe_for_like(saved: SavedLeaf) -> str:
    return _shown_leaf_like(saved.value) if isinstance(saved, SavedFileValue) else str(saved.type)


def _shown_leaf_like(like: Any) -> str:
    wanted = like_tree_type(like)
    if wanted is not None:
        return str(wanted)
    return "None" if like is None else f"{type(like).__name__} {str(like)[:40]!r}"


def mismatch_with_like(path: NamedLeafPath, found: Any, wanted: Any) -> ArgumentError:
    what = f"{path.title}: the file has {found}, like has {wanted}"
    return ArgumentError(f"load: {what}")


def _refuse_names_unlike(
    path: NamedLeafPath, found: list[Any], wanted: list[Any], kind: str
) -> None:
    if kind in ("list", "tuple", "deque") and all(isinstance(n, int) for n in found):
        raise mismatch_with_like(path, f"{len(found)} items", f"a {kind} of {len(wanted)}")
    lacks, more = [n for n in wanted if n not in found], [n for n in found if n not in wanted]
    parts = [f"lacks {_few_names_unlike(lacks)}"] * bool(lacks) + [
        f"has {_few_names_unlike(more)}"
    ] * bool(more)
    what = f"{path.title}: the file {' and '.join(parts)}, unlike like"
    hint = "Names that differ can be mapped: pb.load(path, like=like, keys={our_name: their_name})."
    raise ArgumentError(f"load: {what}", hint=hint)


def _few_names_unlike(names: Any) -> str:
    shown = [repr(n) for n in names]
    return ", ".join(shown[:_FEW]) + (f" and {len(shown) - _FEW} more" if len(shown) > _FEW else "")
