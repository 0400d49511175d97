"""Trees and plain values as data that JSON can hold: a saved program names no Python objects."""

from __future__ import annotations

from collections import OrderedDict, deque, namedtuple
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.dtypes import DType, dtype

_NAMES = {"OptimizerState": "State"}  # classes that had another name when the format was made


def written_tree(structure: Any) -> Any:
    """A tree's structure; leaves are numbered."""
    return _write(tree.unflatten(structure, range(structure.num_leaves)))


def read_tree(data: Any) -> Any:
    """The structure that `written_tree` wrote."""
    return tree.flatten(_read(data))[1]


def _write(node: Any) -> Any:
    kind = type(node)
    if kind is int or node is None:
        return node
    if kind in (list, tuple):
        return [kind.__name__, [_write(x) for x in node]]
    if kind is deque:
        return ["deque", [_write(x) for x in node], node.maxlen]
    if kind in (dict, OrderedDict):
        return [kind.__name__, [[written_value(k), _write(v)] for k, v in node.items()]]
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        written = _NAMES.get(kind.__name__, kind.__name__)
        return ["namedtuple", [_write(x) for x in node], written, list(node._fields)]
    name = tree.registered_name(kind)
    if name is None:
        raise _cannot(f"a container of type {kind.__name__}")
    children, data = tree.one_level(node)
    return ["registered", [_write(x) for x in children], name, written_value(data)]


def _read(data: Any) -> Any:
    if data is None or isinstance(data, int):
        return data
    kind, parts, *more = data
    if kind in ("list", "tuple", "deque"):
        items = [_read(x) for x in parts]
        return (
            deque(items, *more) if kind == "deque" else {"list": list, "tuple": tuple}[kind](items)
        )
    if kind in ("dict", "OrderedDict"):
        pairs = [(read_value(k), _read(v)) for k, v in parts]
        return OrderedDict(pairs) if kind == "OrderedDict" else dict(pairs)
    items = [_read(x) for x in parts]
    if kind == "namedtuple":
        return namedtuple(*more)(*items)  # type: ignore[misc]
    name, extra = more
    return tree.rebuild(name, read_value(extra), items)


# -- plain values ---------------------------------------------------------------------------------


def written_value(value: Any) -> Any:
    """A plain value, with its type: floats by their bits."""
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
        return ["tuple", *map(written_value, value)]
    if isinstance(value, DType):
        return ["dtype", value.name]
    raise _cannot(f"a value of type {kind.__name__}")


def read_value(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    kind, *parts = data
    if kind == "tuple":
        return tuple(map(read_value, parts))
    if kind == "complex":
        return complex(*map(float.fromhex, parts))
    (part,) = parts
    readers: dict[str, Any] = {
        "int": int, "float": float.fromhex, "bytes": bytes.fromhex, "dtype": dtype,
    }  # fmt: skip
    return readers[kind](part)


def _cannot(what: str) -> ArgumentError:
    return ArgumentError(
        f"save: {what} cannot be written to a file",
        hint="Save a function of tensors and numbers in lists, tuples, dicts, named tuples and\n"
        "classes registered with pb.tree.register; static values must be plain.",
    )  # fmt: skip
