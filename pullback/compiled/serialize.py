"""Trees and plain values as JSON data: a saved file holds no Python objects.

Saved programs hold the structure of trees with numbered leaves. Files of `pb.save` hold more: the
names of children and classes, so that a tree can be rebuilt without the classes.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, dtype
from pullback.tree_constants import TreeConstant
from pullback.tree_nodes import (
    is_node,
    rebuild,
    registered_name,
    tree_node_children,
    tree_node_class,
    tree_node_entries,
    tree_node_name,
)

_NAMES = {"OptimizerState": "State"}  # classes that had another name when the format was made
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "deque": deque}
_OPAQUE = ["opaque"]  # static data that is no plain value

Leaf = Callable[[Any], int]  # remembers a leaf and returns its number


def serialize_tree(structure: Any) -> Any:
    """Return a tree's structure as data, with numbered leaves."""
    return _serialize_value(tree.unflatten(structure, range(structure.num_leaves)))


def deserialize_tree(data: Any) -> Any:
    """Undo `serialize_tree`."""
    return tree.flatten(_deserialize_value(data))[1]


def serialize_described_tree(node: Any, leaf: Leaf) -> Any:
    """Return a tree as data, with the names of children and classes; `leaf` numbers the leaves."""
    tree.flatten(node)  # registers dataclasses, and refuses a container that holds itself
    return _serialize_value(node, leaf)


def deserialize_described_tree(data: Any, leaves: Callable[[int], Any]) -> Any:
    """Undo `serialize_described_tree`. The children of an unknown class are in a dict."""
    return _deserialize_value(data, leaves)


def serialized_children(data: Any) -> dict[Any, Any]:
    """Return the children in data of `serialize_described_tree`, by key, name or number."""
    kind, parts, *more = data
    if kind in ("dict", "OrderedDict"):
        return {deserialize_plain_value(k): x for k, x in parts}
    if kind in _SEQUENCES:
        return dict(enumerate(parts))
    names = more[1] if kind == "namedtuple" else more[2]
    return dict(zip(names, parts, strict=True))


def _serialize_value(node: Any, leaf: Leaf | None = None) -> Any:
    kind = type(node)
    if node is None or (kind is int and leaf is None):
        return node
    if kind in (list, tuple):
        return [kind.__name__, [_serialize_value(x, leaf) for x in node]]
    if kind is deque:
        return ["deque", [_serialize_value(x, leaf) for x in node], node.maxlen]
    if kind in (dict, OrderedDict) or (leaf is not None and kind is defaultdict):
        title = "OrderedDict" if kind is OrderedDict else "dict"
        return [
            title,
            [[serialize_plain_value(k), _serialize_value(v, leaf)] for k, v in node.items()],
        ]
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        known_as = _NAMES.get(kind.__name__, kind.__name__)
        more = [] if leaf is None else [tree_node_name(kind)]
        items = [_serialize_value(x, leaf) for x in node]
        return ["namedtuple", items, known_as, list(node._fields), *more]
    if leaf is not None:
        return _serialize_instance(node, leaf) if is_node(kind) else leaf(node)
    name = registered_name(kind)
    if name is None:
        raise _cannot_serialize(f"a container of type {kind.__name__}")
    children, data = tree_node_children(node)
    return [
        "registered",
        [_serialize_value(x) for x in children],
        name,
        serialize_plain_value(data),
    ]


def _serialize_instance(node: Any, leaf: Leaf) -> Any:
    """Return an instance of a class as data, with the names of its children.

    That they are constants, as state and frozen parameters of a module, is none of a file's
    business.
    """
    if type(node) is TreeConstant:
        return _serialize_value(node.value, leaf)
    children, static = tree_node_children(node)
    try:
        data = serialize_plain_value(static)
    except ArgumentError:
        data = _OPAQUE
    items = [_serialize_value(x, leaf) for x in children]
    unnamed = getattr(type(node), "unnamed", "")  # an attribute that is left out of names
    more = [unnamed] if unnamed else []
    return ["registered", items, tree_node_name(type(node)), data, tree_node_entries(node), *more]


def _deserialize_value(data: Any, leaves: Callable[[int], Any] | None = None) -> Any:
    if data is None:
        return None
    if isinstance(data, int):
        return data if leaves is None else leaves(data)
    kind, parts, *more = data
    if kind in ("dict", "OrderedDict"):
        pairs = [(deserialize_plain_value(k), _deserialize_value(v, leaves)) for k, v in parts]
        return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
    items = [_deserialize_value(x, leaves) for x in parts]
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](items, *more)
    if kind == "namedtuple":
        name, fields, *known_as = more
        if len(fields) != len(items):
            raise ValueError(f"{name} has {len(fields)} fields and {len(items)} values")
        found = _deserialized_namedtuple(known_as[0], fields) if known_as else None
        return tuple.__new__(found or namedtuple(name, fields), items)  # type: ignore[misc]
    name, extra, *names = more
    if names and (extra == _OPAQUE or tree_node_class(name) is None):
        return dict(zip(names[0], items, strict=True))
    return rebuild(name, deserialize_plain_value(extra), items)


def _deserialized_namedtuple(name: str, fields: Any) -> type | None:
    """Return the named tuple of that name and those fields in a module that is imported."""
    module, _, attribute = name.rpartition(".")
    found = vars(sys.modules.get(module, object)).get(attribute)
    named = isinstance(found, type) and issubclass(found, tuple)
    return found if named and getattr(found, "_fields", None) == tuple(fields) else None


def serialize_plain_value(value: Any) -> Any:
    """Return a plain value with its type as data; floats keep their bits."""
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return ["int", str(value)]
    if kind is float:
        return ["float", value.hex()]
    if kind is complex:
        return ["complex", value.real.hex(), value.imag.hex()]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is tuple:
        return ["tuple", *map(serialize_plain_value, value)]
    if kind is frozenset:
        return ["frozenset", *sorted(map(serialize_plain_value, value), key=repr)]
    if isinstance(value, DType):
        return ["dtype", value.name]
    raise _cannot_serialize(f"a value of type {kind.__name__}")


def deserialize_plain_value(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    kind, *parts = data
    return _READERS[kind](*parts)


_READERS: dict[str, Any] = {
    "int": int, "float": float.fromhex, "bytes": bytes.fromhex, "dtype": dtype,
    "complex": lambda *parts: complex(*map(float.fromhex, parts)),
    "tuple": lambda *parts: tuple(map(deserialize_plain_value, parts)),
    "frozenset": lambda *parts: frozenset(map(deserialize_plain_value, parts)),
}  # fmt: skip


def _cannot_serialize(what: str) -> ArgumentError:
    return ArgumentError(
        f"save: {what} cannot be written to a file",
        hint="Save tensors and numbers, or functions of them, in lists, tuples, dicts, named\n"
        "tuples, dataclasses and classes registered with pb.tree.register; static values must\n"
        "be plain.",
    )  # fmt: skip
