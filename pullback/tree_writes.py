"""Writes to the arguments of a function that has copies of them."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import compress, count
from operator import is_not
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError, InPlaceError
from pullback.tree_nodes import fields_of, tree_nodes_within, watched_tree_nodes


class LostWrites:
    """Refuses writes to dataclasses and modules among the arguments of a function.

    The function gets copies of them, so a write has no effect outside unless the function returns
    the copy, or the tensor that was changed.
    """

    def __init__(self, arguments: Any) -> None:
        self.before = [
            (x, _attributes_watched_for_writes(x)) for x in watched_tree_nodes(arguments)
        ]

    def refuse(self, name: str, result: Any) -> None:
        """Raise if an attribute was set since, a list or dict among them has other items, or a
        tensor was changed in place.
        """
        changed = [(x, before) for x, before in self.before if _tree_write_attribute(x, before, ())]
        if not changed:
            return
        # The node that was written to, or the tensor that was changed in place
        returned = set(map(id, [*tree_nodes_within(result), *tree.leaves(result)]))
        for x, before in changed:
            n = None if id(x) in returned else _tree_write_attribute(x, before, returned)
            if n is not None:
                what = f"{name}: the function changed {n!r} of {type(x).__name__}, an argument"
                hint = getattr(type(x), "lost_write_hint", _HINT)
                raise InPlaceError(what, hint=hint)


def refuse_shared_tree_writes(name: str, leaves: Sequence[Any], arguments: Any) -> None:
    """Raise if a module among the arguments holds a tensor twice.

    In the copy that a function gets they would be two tensors, each with its own gradient.
    """
    if len(set(map(id, leaves))) == len(leaves):
        return
    for module in watched_tree_nodes(arguments):
        if fields_of(type(module)) is None:
            seen: dict[int, str] = {}
            for x, path in zip(tree.leaves(module), tree.paths(module), strict=True):
                first = seen.setdefault(id(x), path)
                if first != path and hasattr(x, "_node"):
                    what = f"{type(module).__name__} holds one tensor twice, at {first} and {path}"
                    hint = "A copy would have two. Hold it once, and use it twice in `forward`."
                    raise ArgumentError(f"{name}: {what}", hint=hint)


_HINT = "It has a copy, so the write would be lost. Return the new value."
_ABSENT = (None, LostWrites)


def _tree_write_attribute(x: Any, before: dict[str, Any], returned: Container[int]) -> str | None:
    """Return the name of an attribute that has changed, other than in a tensor that is returned."""
    now = _attributes_watched_for_writes(x)
    for n in dict.fromkeys([*before, *now]):
        new, old = now.get(n, _ABSENT), before.get(n, _ABSENT)
        if len(new) != len(old):
            return n
        for i in compress(count(), map(is_not, new, old)):
            tensor = new[i - 1]  # its node has changed
            if not (i and new[i] is getattr(tensor, "_node", None) and id(tensor) in returned):
                return n
    return None


def _tree_write_parts(value: Any) -> tuple[Any, ...]:
    """Return a value and what it holds: the node of a tensor, the items of a container."""
    if isinstance(value, (list, tuple, dict, set)):
        items = [*value, *value.values()] if isinstance(value, dict) else value
        return (value, *[part for item in items for part in _tree_write_parts(item)])
    return value, getattr(value, "_node", None)


def _attributes_watched_for_writes(x: Any) -> dict[str, Any]:
    """Return the attributes of a node, with the nodes of tensors and the items of containers."""
    fields = fields_of(type(x))
    if fields is None:
        own = {n: v for n, v in vars(x).items() if n not in type(x).unwatched}
    else:
        names = [n for n in (*fields.children, *fields.static) if hasattr(x, n)]
        own = {n: getattr(x, n) for n in names} | dict(fields.more(x))
    return {n: _tree_write_parts(v) for n, v in own.items()}
