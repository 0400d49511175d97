"""Classes whose instances are nodes of trees: registered ones, and dataclasses."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import optree

from pullback.errors import ArgumentError
from pullback.graph.interned import exact

NAMESPACE = "pullback"

LEAF_TYPES: set[type] = set()  # types of leaves that were seen and are no dataclasses
_MOST_LEAF_TYPES = 4096


class Registration(NamedTuple):
    """How instances of a class are taken apart and rebuilt."""

    flattened: Callable
    rebuilt: Callable
    fields: FieldNames | None  # of a dataclass without functions of its own


_lock = threading.RLock()
_registered: dict[type, Registration] = {}
_named: dict[str, type] = {}


def register_node(
    cls: type, split: Callable, join: Callable, fields: FieldNames | None = None
) -> None:
    """Register a class with functions that take an instance apart and rebuild it."""

    def flattened(x: Any) -> tuple:
        children, data, *entries = split(x)
        return (children, None if data is None else Static(data), *entries)

    def rebuilt(data: Any, children: Any) -> Any:
        return join(None if data is None else data.value, children)

    with _lock:
        if cls in _registered:
            if fields is not None and _registered[cls].fields is not None:
                return  # nothing changes
            hint = "Register a class once, directly after its definition."
            what = f"{cls.__name__} is registered already, or an instance was used as a tree"
            raise ArgumentError(f"tree.register: {what}", hint=hint)
        optree.register_pytree_node(cls, flattened, rebuilt, namespace=NAMESPACE)  # type: ignore[arg-type]
        _registered[cls] = Registration(flattened, rebuilt, fields)
        _named[_name(cls)] = cls


def register_dataclass(cls: type) -> None:
    """Register a dataclass, with its fields as children or static data."""
    fields = FieldNames.of(cls)
    register_node(cls, fields.split, fields.join_into(cls), fields)


def register_dataclasses(leaves: Sequence[Any]) -> bool:
    """Register the classes of leaves that are dataclasses; return whether there are any."""
    new = set(map(type, leaves)) - LEAF_TYPES
    nodes = {cls for cls in new if _is_rebuildable_dataclass(cls)}
    for cls in nodes:
        register_dataclass(cls)
    if len(LEAF_TYPES) > _MOST_LEAF_TYPES:  # classes made in a loop are not kept alive
        LEAF_TYPES.clear()
    LEAF_TYPES.update(new - nodes)
    return bool(nodes)


def _is_rebuildable_dataclass(cls: type) -> bool:
    """Whether a class is a user's dataclass whose instances consist of their fields.

    A subclass of a dataclass that is none itself may hold more, as may one of `dict` or of an
    exception. Pullback's own dataclasses are values, and so are arrays.
    """
    if "__dataclass_fields__" not in vars(cls) or str(cls.__module__).startswith("pullback."):
        return False
    if hasattr(cls, "__array__") or hasattr(cls, "__dlpack__"):
        return False
    try:
        object.__new__(cls)
    except TypeError:
        return False
    return True


def is_node(cls: type) -> bool:
    """Whether instances of a class are nodes of trees."""
    return cls in _registered or _is_rebuildable_dataclass(cls)


class FieldNames(NamedTuple):
    """The fields of a dataclass: those that are children, and those that are static."""

    children: tuple[str, ...]
    static: tuple[str, ...]

    @staticmethod
    def of(cls: Any) -> FieldNames:
        fields = dataclasses.fields(cls)
        static = tuple([f.name for f in fields if f.metadata.get("static", False)])
        return FieldNames(tuple([f.name for f in fields if f.name not in static]), static)

    def split(self, x: Any) -> tuple:
        """Return the children, static data (values, and names of unset fields), and the names."""
        try:
            children = [getattr(x, n) for n in self.children]
            static = tuple([getattr(x, n) for n in self.static])
        except AttributeError:  # a field without a default that `__init__` does not set
            unset = tuple([n for n in (*self.children, *self.static) if not hasattr(x, n)])
            names = tuple([n for n in self.children if n not in unset])
            static = tuple([getattr(x, n) for n in self.static if n not in unset])
            return [getattr(x, n) for n in names], (static, unset), names
        return children, (static, ()) if static else None, self.children

    def join_into(self, cls: type) -> Callable:
        """Return the function that rebuilds an instance of the dataclass."""

        def join(data: Any, children: Any) -> Any:
            static, unset = ((), ()) if data is None else data
            names = (*self.children, *self.static)
            if unset:
                names = tuple([n for n in names if n not in unset])
            made: Any = object.__new__(cls)
            for n, value in zip(names, (*children, *static), strict=True):
                object.__setattr__(made, n, value)
            return made

        return join


@dataclasses.dataclass(slots=True, eq=False)
class Static:
    """Static data of a tree node, compared by type and bits: 0.0 is not -0.0, nor 1 True."""

    value: Any

    @property
    def key(self) -> Any:
        """What is compared. It must be hashable, so that it cannot change."""
        key = exact(self.value)
        try:
            hash(key)
        except TypeError as error:
            hint = "Use a tuple for a list; make a field that holds an array a child."
            raise ArgumentError(f"tree: static data must be hashable, {error}", hint=hint) from None
        return key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __repr__(self) -> str:
        return repr(self.value)


def static_values(tree: Any) -> list[tuple[str, Any]]:
    """Return the static values of all nodes of a tree, with a name for each.

    Raise if some are not hashable, or are tensors.
    """
    nodes: list[Any] = []

    def visit(node: Any) -> bool:
        if type(node) in _registered:
            nodes.append(node)
        return False

    optree.tree_flatten(tree, is_leaf=visit, namespace=NAMESPACE)
    found: list[tuple[str, Any]] = []
    for node in nodes:
        cls, known = type(node).__name__, _registered[type(node)]
        if known.fields is not None:
            names = [n for n in known.fields.static if hasattr(node, n)]
            found += [(f"{cls}.{n}", getattr(node, n)) for n in names]
        elif (data := known.flattened(node)[1]) is not None:
            found.append((f"static data of {cls}", data.value))
    for name, value in found:
        hash(Static(value))
        if hasattr(value, "__dlpack__"):
            hint = "Its value would be frozen in the program. Make the field a child."
            raise ArgumentError(f"tree: {name} is static and holds a tensor or array", hint=hint)
    return found


def fields_of(cls: type) -> FieldNames | None:
    """Return the fields of a dataclass that is a node by its fields, else None."""
    known = _registered.get(cls)
    return None if known is None else known.fields


def registered_name(cls: type) -> str | None:
    """Return the name of a registered class, which another process can find it by, or None."""
    return _name(cls) if _named.get(_name(cls)) is cls else None


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def one_level(node: Any) -> tuple[list[Any], Any]:
    """Return the children and the static data of an instance of a registered class."""
    children, data, *_ = _registered[type(node)].flattened(node)
    return list(children), None if data is None else data.value


def rebuild(name: str, data: Any, children: Iterable[Any]) -> Any:
    """Return an instance of the class that is registered under a name, or a dataclass."""
    cls = _named.get(name) or _imported_dataclass(name)
    if cls is None:
        hint = "Import the module that defines it; one that is no dataclass calls pb.tree.register."
        raise ArgumentError(f"tree: the class {name} is not registered here", hint=hint)
    return _registered[cls].rebuilt(None if data is None else Static(data), children)


def _imported_dataclass(name: str) -> type | None:
    """Return the dataclass of that name in a module that is already imported, as a node."""
    for module in [m for m in list(sys.modules) if name.startswith(f"{m}.")]:
        found: Any = sys.modules[module]
        for part in name.removeprefix(f"{module}.").split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        if isinstance(found, type) and _name(found) == name and _is_rebuildable_dataclass(found):
            register_dataclass(found)
            return found
    return None
