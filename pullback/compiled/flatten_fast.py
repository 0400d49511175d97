"""Flatten arguments whose tree is known, faster than `pullback.tree` does.

Leaves come in the order of `pullback.tree`. The caller checks each of them, so that a container
is never taken for a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from pullback import tree

# Appends the leaves of an object to a list; returns false if it has another tree.
Reader = Callable[[Any, list[Any]], bool]


def make_flatten_reader(structure: Any) -> Reader | None:
    """Return a reader for a tree of lists, tuples, dicts and None; or None for other trees."""
    return _flatten_reader(tree.unflatten(structure, range(structure.num_leaves)))


def _flatten_reader(node: Any) -> Reader | None:
    kind = type(node)
    if kind is int:
        return _flatten_leaf
    if node is None:
        return lambda x, into: x is None
    if kind is dict and not node:
        return lambda x, into: type(x) is dict and not x
    if kind is dict:
        keys = sorted(node, key=lambda k: next(iter(tree.leaves(node[k])), -1))  # by first leaf
        return _flatten_dict(keys, [node[k] for k in keys])
    if kind is list or isinstance(node, tuple):
        return _flatten_sequence(kind, list(node))
    return None


def _flatten_leaf(x: Any, into: list[Any]) -> bool:
    into.append(x)
    return True


def _flatten_sequence(kind: type, parts: list[Any]) -> Reader | None:
    count, rest = len(parts), _flatten_parts(parts)
    if rest is None:
        return None

    def read(x: Any, into: list[Any]) -> bool:
        if type(x) is not kind or len(x) != count:  # type: ignore[arg-type]
            return False
        return rest(x, into)

    return read


def _flatten_dict(keys: list[Any], parts: list[Any]) -> Reader | None:
    count, rest = len(keys), _flatten_parts(parts)
    if rest is None:
        return None
    fetch = itemgetter(*keys) if count > 1 else lambda x: [x[k] for k in keys]

    def read(x: Any, into: list[Any]) -> bool:
        if type(x) is not dict or len(x) != count:
            return False
        try:
            values = fetch(x)
        except KeyError:
            return False
        return rest(values, into)

    return read


def _flatten_parts(parts: list[Any]) -> Reader | None:
    """Return a reader for the parts of a container, given in order."""
    if all(type(p) is int for p in parts):
        return _flatten_leaves
    readers = [reader for part in parts if (reader := _flatten_reader(part)) is not None]
    if len(readers) < len(parts):
        return None

    def read(xs: Any, into: list[Any]) -> bool:
        for one, x in zip(readers, xs):  # noqa: SIM110 (a generator takes three times as long)
            if not one(x, into):
                return False
        return True

    return read


def _flatten_leaves(xs: Any, into: list[Any]) -> bool:
    into.extend(xs)
    return True
