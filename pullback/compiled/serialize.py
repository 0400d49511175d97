"""Trees and plain values as JSON data: a saved program holds no Python objects."""

from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, dtype
from pullback.tree_nodes import one_level, rebuild, registered_name

_NAMES = {"OptimizerState": "State"}  # classes that had another name when the format was made
_SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "deque": deque}


def tree_to_data(structure: Any) -> Any:
    """Return a tree's structure as data, with numbered leaves."""
    return _serialize_value(tree.unflatten(structure, range(structure.num_leaves)))


def tree_from_data(data: Any) -> Any:
    """Undo `tree_to_data`."""
    return tree.flatten(_deserialize_value(data))[1]


def _serialize_value(node: Any) -> Any:
    kind = type(node)
    if kind is int or node is None:
        return node
    if kind in (list, tuple):
        return [kind.__name__, [_serialize_value(x) for x in node]]
    if kind is deque:
        return ["deque", [_serialize_value(x) for x in node], node.maxlen]
    if kind in (dict, OrderedDict):
        return [kind.__name__, [[value_to_data(k), _serialize_value(v)] for k, v in node.items()]]
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        known_as = _NAMES.get(kind.__name__, kind.__name__)
        return ["namedtuple", [_serialize_value(x) for x in node], known_as, list(node._fields)]
    name = registered_name(kind)
    if name is None:
        raise _cannot_serialize(f"a container of type {kind.__name__}")
    children, data = one_level(node)
    return ["registered", [_serialize_value(x) for x in children], name, value_to_data(data)]


def _deserialize_value(data: Any) -> Any:
    if data is None or isinstance(data, int):
        return data
    kind, parts, *more = data
    if kind in ("dict", "OrderedDict"):
        pairs = [(value_from_data(k), _deserialize_value(v)) for k, v in parts]
        return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
    items = [_deserialize_value(x) for x in parts]
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](items, *more)
    if kind == "namedtuple":
        return namedtuple(*more)(*items)  # type: ignore[misc]
    name, extra = more
    return rebuild(name, value_from_data(extra), items)


def value_to_data(value: Any) -> Any:
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
        return ["tuple", *map(value_to_data, value)]
    if isinstance(value, DType):
        return ["dtype", value.name]
    raise _cannot_serialize(f"a value of type {kind.__name__}")


def value_from_data(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    kind, *parts = data
    return _READERS[kind](*parts)


_READERS: dict[str, Any] = {
    "int": int, "float": float.fromhex, "bytes": bytes.fromhex, "dtype": dtype,
    "complex": lambda *parts: complex(*map(float.fromhex, parts)),
    "tuple": lambda *parts: tuple(map(value_from_data, parts)),
}  # fmt: skip


def _cannot_serialize(what: str) -> ArgumentError:
    return ArgumentError(
        f"save: {what} cannot be written to a file",
        hint="Save a function of tensors and numbers in lists, tuples, dicts, named tuples,\n"
        "dataclasses and classes registered with pb.tree.register; static values must be plain.",
    )  # fmt: skip
