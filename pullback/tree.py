"""Pytrees: nested containers of tensors, public as `pb.tree`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import optree

from pullback.errors import ArgumentError
from pullback.graph.interned import exact_key

__all__ = ["flatten", "leaves", "map", "paths", "register", "unflatten"]

NAMESPACE = "pullback"
T = TypeVar("T")


def __dir__() -> list[str]:
    return __all__


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree in order, and its structure. `None` has no leaves.

    >>> import pullback as pb
    >>> leaves, structure = pb.tree.flatten({"a": 1, "b": (2, None)})
    >>> leaves
    [1, 2]
    >>> pb.tree.unflatten(structure, [3, 4])
    {'a': 3, 'b': (4, None)}
    """
    found, structure = optree.tree_flatten(tree, namespace=NAMESPACE)
    return found, structure


def unflatten(structure: Any, values: Iterable[Any]) -> Any:
    """Return the tree of a structure, as `flatten` returns it, with other leaves."""
    try:
        return optree.tree_unflatten(structure, values)
    except ValueError as error:
        if "PyTreeSpec" not in str(error):  # it is from a function given to `register`
            raise
        count = f"{structure.num_leaves} leaves, got {'more' if 'many' in str(error) else 'fewer'}"
        raise ArgumentError(f"tree.unflatten: {show(structure)} needs {count}") from None


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree in order.

    >>> import pullback as pb
    >>> pb.tree.leaves({"a": 1, "b": [2, 3]})
    [1, 2, 3]
    """
    return optree.tree_leaves(tree, namespace=NAMESPACE)


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `f` to the leaves of trees with the same structure.

    >>> import pullback as pb
    >>> pb.tree.map(lambda x: x * 2, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (4, 6)}
    """
    found, structure = flatten(tree)
    columns = [_leaves_like(structure, r) for r in rest]
    # Not optree's map: errors in `f` are located at the first line outside this package
    return unflatten(structure, [f(*xs) for xs in zip(found, *columns, strict=True)])


def _leaves_like(structure: Any, tree: Any) -> list[Any]:
    """The parts of a tree at the leaves of a structure."""
    try:
        return structure.flatten_up_to(tree)
    except ValueError:
        expected, got = show(structure), show(flatten(tree)[1])
        raise ArgumentError(f"tree.map: trees must agree, expected {expected}, got {got}") from None


def show(structure: Any) -> str:
    """Return a structure as nested Python containers, with `*` for the leaves.

    >>> show(flatten({"a": 1, "b": (2, [3, None])})[1])
    "{'a': *, 'b': (*, [*, None])}"
    """
    kind, entries = structure.type, structure.entries()
    if kind is None:
        return "*"
    if kind is type(None):
        return "None"
    parts = [show(child) for child in structure.children()]
    if kind is list:
        return f"[{', '.join(parts)}]"
    if kind is tuple:
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    if issubclass(kind, dict):
        return f"{{{', '.join(f'{k!r}: {part}' for k, part in zip(entries, parts))}}}"
    names = getattr(kind, "_fields", entries)
    named = [f"{k}={part}" if isinstance(k, str) else part for k, part in zip(names, parts)]
    return f"{kind.__name__}({', '.join(named)})"


def paths(tree: Any) -> list[str]:
    """Return the path of each leaf as it is written in Python.

    >>> import pullback as pb
    >>> pb.tree.paths({"layers": [1, 2]})
    ["['layers'][0]", "['layers'][1]"]
    """
    found = optree.tree_paths(tree, namespace=NAMESPACE)
    return ["".join(f"[{part!r}]" for part in path) for path in found]


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """Return the leaf, or None, of `prefix` above each leaf of `tree`; None if it is no prefix."""
    found: list[Any] = []

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
    """Register a class as a tree node: a dataclass by its fields, others with two functions.

    `flatten(x)` returns the children and hashable static data; `unflatten(data, children)` returns
    the instance.

    >>> import pullback as pb
    >>> from dataclasses import dataclass
    >>> @pb.tree.register
    ... @dataclass
    ... class Layer:
    ...     w: object
    ...     b: object
    >>> pb.tree.map(lambda x: 2 * x, Layer(1, 2))
    Layer(w=2, b=4)
    """
    split, join = (flatten, unflatten) if flatten is not None else _of_fields(cls)

    def flattened(x: Any) -> tuple:
        children, data, *entries = split(x)
        return (children, None if data is None else Static(data), *entries)

    def rebuilt(data: Any, children: Any) -> Any:
        return join(None if data is None else data.value, children)  # type: ignore[misc]

    optree.register_pytree_node(cls, flattened, rebuilt, namespace=NAMESPACE)  # type: ignore[arg-type]
    _registered[f"{cls.__module__}.{cls.__qualname__}"] = (cls, flattened, rebuilt)
    return cls


_registered: dict[str, tuple[type, Callable, Callable]] = {}


@dataclasses.dataclass(slots=True, eq=False)
class Static:
    """Static data of a tree node, compared by type and bits: 0.0 is not -0.0, nor 1 True."""

    value: Any

    def __hash__(self) -> int:
        return hash(exact_key(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and exact_key(self.value) == exact_key(other.value)

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
    """Return the name of a registered class, which another process can find it by, or None."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    return name if _registered.get(name, (None,))[0] is cls else None


def one_level(node: Any) -> tuple[list[Any], Any]:
    """Return the children and the static data of an instance of a registered class."""
    name = registered_name(type(node))
    assert name is not None
    children, data, *_ = _registered[name][1](node)
    return list(children), None if data is None else data.value


def rebuild(name: str, data: Any, children: Any) -> Any:
    """Return an instance of the class that is registered under a name."""
    if name not in _registered:
        hint = "Import the module that calls pb.tree.register for it."
        raise ArgumentError(f"tree: the class {name} is not registered here", hint=hint)
    return _registered[name][2](None if data is None else Static(data), children)
