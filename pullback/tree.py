"""Pytrees: nested containers of tensors, public as `pb.tree`."""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import optree

from pullback.errors import ArgumentError
from pullback.graph.argument_checks import checked_function_argument
from pullback.graph.boundary import publish
from pullback.tree_constants import TreeConstant
from pullback.tree_nodes import (
    LEAF_TYPES,
    NAMESPACE,
    fields_of,
    has_tree_node_attributes,
    register_dataclass,
    register_dataclasses,
    register_node,
)

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor

__all__ = [
    "flatten", "leaves", "map", "map_with_path", "paths", "ravel", "reduce", "register",
    "structure", "unflatten",
]  # fmt: skip

T = TypeVar("T")

# Set by `functions/tree_ravel.py`: tensors are built on trees, and it is built on tensors.
ravel: Callable[[Any], tuple[Tensor, Callable[[Any], Any]]]

_NONE_GIVEN = object()


def __dir__() -> list[str]:
    return __all__


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree in order, and its structure. `None` has no leaves.

    Lists, tuples, dicts, named tuples and dataclasses are trees, and so are registered classes.

    >>> import pullback as pb
    >>> leaves, structure = pb.tree.flatten({"a": 1, "b": (2, None)})
    >>> leaves
    [1, 2]
    >>> pb.tree.unflatten(structure, [3, 4])
    {'a': 3, 'b': (4, None)}
    """
    try:
        found, structure = optree.tree_flatten(tree, namespace=NAMESPACE)
    except RecursionError:
        hint = (
            'Does a container hold itself? A field of a dataclass may be static: {"static": True}.'
        )
        raise ArgumentError("tree: containers are nested too deeply", hint=hint) from None
    if not LEAF_TYPES.issuperset(builtins.map(type, found)) and register_dataclasses(found):
        return flatten(tree)
    return found, structure


def unflatten(structure: Any, values: Iterable[Any]) -> Any:
    """Return the tree of a structure, as `flatten` returns it, with other leaves.

    >>> leaves, structure = pb.tree.flatten({"a": 1, "b": [2, 3]})
    >>> pb.tree.unflatten(structure, [10 * v for v in leaves])
    {'a': 10, 'b': [20, 30]}
    """
    try:
        return optree.tree_unflatten(structure, values)
    except ValueError as error:
        if "PyTreeSpec" not in str(error):  # it is from a function given to `register`
            raise
        count = f"{structure.num_leaves} leaves, got {'more' if 'many' in str(error) else 'fewer'}"
        raise ArgumentError(
            f"tree.unflatten: {show_tree_structure(structure)} needs {count}"
        ) from None


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree in order.

    >>> import pullback as pb
    >>> pb.tree.leaves({"a": 1, "b": [2, 3]})
    [1, 2, 3]
    """
    return flatten(tree)[0]


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `f` to the leaves of trees with the same structure.

    >>> import pullback as pb
    >>> pb.tree.map(lambda x: x * 2, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (4, 6)}
    """
    checked_function_argument("tree.map", f, "f")
    found, structure = flatten(tree)
    columns = [_matching_tree_leaves(structure, r) for r in rest]
    # Not optree's map: errors in `f` are located at the first line outside this package
    return unflatten(structure, [f(*xs) for xs in zip(found, *columns, strict=True)])


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `f` to the path of each leaf, as `paths` writes it, and to the leaves there.

    >>> import pullback as pb
    >>> pb.tree.map_with_path(lambda path, x: f"{path} is {x}", {"a": 1, "b": [2]})
    {'a': "['a'] is 1", 'b': ["['b'][0] is 2"]}
    """
    checked_function_argument("tree.map_with_path", f, "f")
    found, structure = flatten(tree)
    columns = [_matching_tree_leaves(structure, r, "map_with_path") for r in rest]
    rows = zip(paths(tree), found, *columns, strict=True)
    return unflatten(structure, [f(*row) for row in rows])


def reduce(f: Callable[[Any, Any], Any], tree: Any, initial: Any = _NONE_GIVEN) -> Any:
    """Combine the leaves of a tree from the first to the last: `f(f(initial, first), second)`.

    Without `initial`, the first leaf takes its place; a tree without leaves is then an error.

    >>> import pullback as pb
    >>> pb.tree.reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)})
    6
    """
    checked_function_argument("tree.reduce", f, "f")
    found = leaves(tree)
    if initial is not _NONE_GIVEN:
        return functools.reduce(f, found, initial)
    if not found:
        hint = "Pass the value for it: pb.tree.reduce(f, tree, initial)."
        raise ArgumentError("tree.reduce: the tree has no leaves", hint=hint)
    return functools.reduce(f, found)


def structure(tree: Any) -> Any:
    """Return the structure of a tree: equal for trees that differ only in their leaves.

    >>> import pullback as pb
    >>> pb.tree.structure([1, (2, 3)]) == pb.tree.structure([0.5, ("a", "b")])
    True
    """
    return flatten(tree)[1]


def _matching_tree_leaves(structure: Any, tree: Any, name: str = "map") -> list[Any]:
    """The parts of a tree at the leaves of a structure."""
    try:
        return structure.flatten_up_to(tree)
    except ArgumentError:
        raise
    except ValueError:
        expected, got = show_tree_structure(structure), show_tree_structure(flatten(tree)[1])
        message = f"tree.{name}: trees must agree, expected {expected}, got {got}"
        raise ArgumentError(message) from None


def show_tree_structure(structure: Any) -> str:
    """Return a structure as nested Python containers, with `*` for the leaves.

    >>> show_tree_structure(flatten({"a": 1, "b": (2, [3, None])})[1])
    "{'a': *, 'b': (*, [*, None])}"
    """
    kind, entries = structure.type, structure.entries()
    if kind is None:
        return "*"
    if kind is type(None):
        return "None"
    parts = [show_tree_structure(child) for child in structure.children()]
    if kind is list:
        return f"[{', '.join(parts)}]"
    if kind is tuple:
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if issubclass(kind, dict):
        return f"{{{', '.join(f'{k!r}: {part}' for k, part in zip(entries, parts))}}}"
    names = getattr(kind, "_fields", entries)
    named = [f"{k}={part}" if isinstance(k, str) else part for k, part in zip(names, parts)]
    fields = fields_of(kind)
    if fields is not None and fields.static:
        node = unflatten(structure, range(structure.num_leaves))
        named += [f"{k}={getattr(node, k)!r}" for k in fields.static if hasattr(node, k)]
    return f"{kind.__name__}({', '.join(named)})"


def paths(tree: Any) -> list[str]:
    """Return the path of each leaf as it is written in Python.

    >>> import pullback as pb
    >>> pb.tree.paths({"layers": [1, 2]})
    ["['layers'][0]", "['layers'][1]"]
    """
    found = flatten(tree)[1].accessors()
    return ["".join(builtins.map(_tree_path_step, accessor)) for accessor in found]


def _tree_path_step(part: optree.PyTreeEntry) -> str:
    """One step of a path: an attribute of a dataclass or module, or an item."""
    if part.type is TreeConstant:
        return ""
    return f".{part.entry}" if has_tree_node_attributes(part.type) else f"[{part.entry!r}]"


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """Return the leaf, or None, of `prefix` above each leaf of `tree`; None if it is no prefix."""
    found: list[Any] = []
    leaves(prefix)  # registers dataclasses

    def repeat(entry: Any, subtree: Any) -> None:
        found.extend([entry] * len(leaves(subtree)))

    options: Any = {"is_leaf": lambda x: x is None, "none_is_leaf": True}
    try:
        optree.tree_map_(repeat, prefix, tree, **options, namespace=NAMESPACE)
    except (ValueError, TypeError):
        return None
    return found


def register(
    cls: type[T], flatten: Callable | None = None, unflatten: Callable | None = None
) -> type[T]:
    """Register a class as a tree node, with two functions.

    `flatten(x)` returns the children and hashable static data; `unflatten(data, children)` returns
    the instance. A dataclass needs no registration: its fields are the children, except those with
    `metadata={"static": True}`. Instances are rebuilt from their fields, without `__init__`.

    >>> import pullback as pb
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> _ = pb.tree.register(Pair, lambda p: ((p.x, p.y), None), lambda _, xy: Pair(*xy))
    >>> pb.tree.map(lambda x: 2 * x, Pair(1, 2)).y
    4
    """
    if flatten is not None:
        register_node(cls, flatten, unflatten)  # type: ignore[arg-type]
    elif dataclasses.is_dataclass(cls):
        register_dataclass(cls)
    else:
        what = f"{cls.__name__} is not a dataclass, so two functions are needed"
        hint = "Write pb.tree.register(cls, flatten, unflatten)."
        raise ArgumentError(f"tree.register: {what}", hint=hint)
    return cls


publish(__name__)
