"""Pytrees: nested containers of tensors, flattened and rebuilt."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import optree

_NAMESPACE = "pullback"


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree in order, and its structure. `None` is a node without leaves."""
    found, structure = optree.tree_flatten(tree, namespace=_NAMESPACE)
    return found, structure


def unflatten(structure: Any, values: Any) -> Any:
    return optree.tree_unflatten(structure, values)


def leaves(tree: Any) -> list[Any]:
    return optree.tree_leaves(tree, namespace=_NAMESPACE)


def map(f: Callable, tree: Any, *rest: Any) -> Any:
    """Apply `f` to the leaves of trees of one structure.

    >>> import pullback as pb
    >>> pb.tree.map(lambda x: x * 2, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (4, 6)}
    """
    found, structure = flatten(tree)
    columns = [structure.flatten_up_to(r) for r in rest]
    # called from here, `f` has no other package between itself and the user's line
    return unflatten(structure, [f(*xs) for xs in zip(found, *columns, strict=True)])


def paths(tree: Any) -> list[str]:
    """The path of each leaf, as a user would write it: `['layers'][0]`."""
    found, _, _ = optree.tree_flatten_with_path(tree, namespace=_NAMESPACE)[:3]
    return ["".join(f"[{part!r}]" for part in path) for path in found]


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """For each leaf of `tree` the entry of `prefix`, a tree that ends where it needs to; `None`
    counts as an entry. `None` as a result: it is not a prefix of the tree."""
    found: list[Any] = []

    def repeat(entry: Any, subtree: Any) -> None:
        found.extend([entry] * len(leaves(subtree)))

    try:
        optree.tree_map_(
            repeat, prefix, tree, is_leaf=lambda x: x is None, none_is_leaf=True,
            namespace=_NAMESPACE,
        )  # fmt: skip
    except (ValueError, TypeError):
        return None
    return found


def register(cls: type, flatten: Callable | None = None, unflatten: Callable | None = None) -> type:
    """Make a class a tree node: a dataclass by its fields, any other with two functions.

    `flatten(x)` gives the children and hashable static data; `unflatten(data, children)` rebuilds.
    """
    if flatten is None:
        names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]

        def flatten(x: Any) -> tuple:
            return [getattr(x, n) for n in names], None, names

        def unflatten(data: Any, children: Any) -> Any:
            made: Any = object.__new__(cls)
            for n, child in zip(names, children, strict=True):
                object.__setattr__(made, n, child)
            return made

    optree.register_pytree_node(cls, flatten, unflatten, namespace=_NAMESPACE)  # type: ignore[arg-type]
    return cls
