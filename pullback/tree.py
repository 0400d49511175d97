"""Pytrees: nested containers of tensors, flattened and rebuilt."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import optree

from pullback.errors import ArgumentError
from pullback.graph.interned import exact

NAMESPACE = "pullback"


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree in order, and its structure. `None` is a node without leaves."""
    found, structure = optree.tree_flatten(tree, namespace=NAMESPACE)
    return found, structure


def unflatten(structure: Any, values: Any) -> Any:
    return optree.tree_unflatten(structure, values)


def leaves(tree: Any) -> list[Any]:
    return optree.tree_leaves(tree, namespace=NAMESPACE)


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
    found, _, _ = optree.tree_flatten_with_path(tree, namespace=NAMESPACE)[:3]
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
            namespace=NAMESPACE,
        )  # fmt: skip
    except (ValueError, TypeError):
        return None
    return found


def register(cls: type, flatten: Callable | None = None, unflatten: Callable | None = None) -> type:
    """Make a class a tree node: a dataclass by its fields, any other with two functions.

    `flatten(x)` gives the children and hashable static data; `unflatten(data, children)` rebuilds.
    """
    split, join = (flatten, unflatten) if flatten is not None else _of_fields(cls)

    def taken_apart(x: Any) -> tuple:
        children, data, *entries = split(x)
        return (children, None if data is None else Static(data), *entries)

    def rebuilt(data: Any, children: Any) -> Any:
        return join(None if data is None else data.value, children)  # type: ignore[misc]

    optree.register_pytree_node(cls, taken_apart, rebuilt, namespace=NAMESPACE)  # type: ignore[arg-type]
    _registered[f"{cls.__module__}.{cls.__qualname__}"] = (cls, taken_apart, rebuilt)
    return cls


_registered: dict[str, tuple[type, Callable, Callable]] = {}


class Static:
    """Static data of a tree node, compared by type and bits: 0.0 is not -0.0, 1 is not True."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(exact(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and exact(self.value) == exact(other.value)

    def __repr__(self) -> str:
        return repr(self.value)


def _of_fields(cls: type) -> tuple[Callable, Callable]:
    names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def split(x: Any) -> tuple:
        return [getattr(x, n) for n in names], None, names

    def join(data: Any, children: Any) -> Any:
        made: Any = object.__new__(cls)
        for n, child in zip(names, children, strict=True):
            object.__setattr__(made, n, child)
        return made

    return split, join


def registered_name(cls: type) -> str | None:
    """The name of a class that was registered, to find it again in another process."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    return name if _registered.get(name, (None,))[0] is cls else None


def one_level(node: Any) -> tuple[list[Any], Any]:
    """The children and the static data of an instance of a registered class."""
    name = registered_name(type(node))
    assert name is not None
    children, data, *_ = _registered[name][1](node)
    return list(children), None if data is None else data.value


def rebuild(name: str, data: Any, children: Any) -> Any:
    """An instance of the class that is registered under a name."""
    if name not in _registered:
        raise ArgumentError(
            f"tree: the class {name} is not registered here",
            hint="Import the module that calls pb.tree.register for it.",
        )
    return _registered[name][2](None if data is None else Static(data), children)
