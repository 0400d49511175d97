"""Classes whose instances are nodes of trees: registered ones, and dataclasses."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import optree

from pullback.errors import ArgumentError
from pullback.graph.interned import exact_key

NAMESPACE = "pullback"

LEAF_TYPES: set[type] = set()  # types of leaves that were seen and are no dataclasses
_MOST_LEAF_TYPES = 4096


# Returns the children of an instance, or None if its tree is another one
ChildReader = Callable[[Any], Sequence[Any] | None]


class TreeNodeRegistration(NamedTuple):
    """How instances of a class are taken apart and rebuilt."""

    flattened: Callable
    rebuilt: Callable
    fields: TreeNodeFields | None  # of a dataclass without functions of its own
    attributes: bool  # whether the children are attributes of the instance
    # From an instance whose leaves are numbered to its children, and a faster way to get those of
    # instances with the same tree; None where there is none
    reader: Callable[[Any], tuple[list[Any], ChildReader] | None] | None


_lock = threading.RLock()
_registered: dict[type, TreeNodeRegistration] = {}
_named: dict[str, type] = {}
_watched: set[type] = set()  # registered classes whose children are attributes


def register_node(
    cls: type, split: Callable, join: Callable, fields: TreeNodeFields | None = None,
    attributes: bool = False,
    reader: Callable[[Any], tuple[list[Any], ChildReader] | None] | None = None,
) -> None:  # fmt: skip
    """Register a class with functions that take an instance apart and rebuild it.

    The children are `attributes` of the instance if it has `fields`, or if the caller says so.
    """

    def flattened(x: Any) -> tuple:
        children, data, *entries = split(x)
        return (children, None if data is None else TreeNodeData(data), *entries)

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
        attributes = attributes or fields is not None
        _registered[cls] = TreeNodeRegistration(flattened, rebuilt, fields, attributes, reader)
        if attributes:
            _watched.add(cls)
        _named[tree_node_name(cls)] = cls


def register_dataclass(cls: type) -> None:
    """Register a dataclass, with its fields as children or static data."""
    fields = TreeNodeFields.of(cls)
    register_node(cls, fields.split, fields.join_into(cls), fields)


def register_dataclasses(leaves: Sequence[Any]) -> bool:
    """Register the classes of leaves that are dataclasses; return whether there are any."""
    new = set(map(type, leaves)) - LEAF_TYPES
    nodes = {cls for cls in new if _is_rebuildable_node(cls)}
    for cls in nodes:
        register_dataclass(cls)
    if len(LEAF_TYPES) > _MOST_LEAF_TYPES:  # classes made in a loop are not kept alive
        LEAF_TYPES.clear()
    LEAF_TYPES.update(new - nodes)
    return bool(nodes)


def _is_rebuildable_node(cls: type) -> bool:
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
    return cls in _registered or _is_rebuildable_node(cls)


class TreeNodeFields(NamedTuple):
    """The fields of a dataclass: those that are children, and those that are static.

    `known` has all fields and the cached properties. What an instance holds besides is static.
    """

    children: tuple[str, ...]
    static: tuple[str, ...]
    known: frozenset[str]

    @staticmethod
    def of(cls: Any) -> TreeNodeFields:
        fields = dataclasses.fields(cls)
        static = tuple([f.name for f in fields if f.metadata.get("static", False)])
        cached = [
            n for b in cls.__mro__ for n, x in vars(b).items() if isinstance(x, cached_property)
        ]
        known = frozenset([*cached, *(f.name for f in fields), "__orig_class__"])
        return TreeNodeFields(
            tuple([f.name for f in fields if f.name not in static]), static, known
        )

    def split(self, x: Any) -> tuple:
        """Return the children, static data and names of the children.

        Static data are the values of static fields, the names of unset fields, and the attributes
        that are no fields; or None.
        """
        more = self.more(x)
        try:
            children = [getattr(x, n) for n in self.children]
            static = tuple([getattr(x, n) for n in self.static])
        except AttributeError:  # a field without a default that `__init__` does not set
            unset = tuple([n for n in (*self.children, *self.static) if not hasattr(x, n)])
            names = tuple([n for n in self.children if n not in unset])
            static = tuple([getattr(x, n) for n in self.static if n not in unset])
            return [getattr(x, n) for n in names], (static, unset, more), names
        return children, (static, (), more) if static or more else None, self.children

    def more(self, x: Any) -> tuple[tuple[str, Any], ...]:
        """Return the attributes of an instance that are no fields."""
        own: Any = getattr(x, "__dict__", ())
        if self.known.issuperset(own):
            return ()
        return tuple([(n, v) for n, v in sorted(own.items()) if n not in self.known])

    def join_into(self, cls: type) -> Callable:
        """Return the function that rebuilds an instance of the dataclass."""

        def join(data: Any, children: Any) -> Any:
            static, unset, more = ((), (), ()) if data is None else data
            names = (*self.children, *self.static)
            if unset:
                names = tuple([n for n in names if n not in unset])
            made: Any = object.__new__(cls)
            for n, value in (*zip(names, (*children, *static), strict=True), *more):
                object.__setattr__(made, n, value)
            return made

        return join


@dataclasses.dataclass(slots=True, eq=False)
class TreeNodeData:
    """Static data of a tree node, compared by type and bits: 0.0 is not -0.0, nor 1 True."""

    value: Any

    @property
    def key(self) -> Any:
        """What is compared. It must be hashable, so that it cannot change."""
        key = exact_key(self.value)
        try:
            hash(key)
        except TypeError as error:
            hint = "Use a tuple for a list; make a field that holds an array a child."
            raise ArgumentError(f"tree: static data must be hashable, {error}", hint=hint) from None
        return key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeNodeData) and self.key == other.key

    def __repr__(self) -> str:
        return repr(self.value)


def tree_nodes_within(tree: Any) -> list[Any]:
    """Return the instances of registered classes in a tree."""
    found: list[Any] = []

    def visit(node: Any) -> bool:
        if type(node) in _registered:
            found.append(node)
        return False

    optree.tree_flatten(tree, is_leaf=visit, namespace=NAMESPACE)
    return found


def static_tree_node_values(tree: Any) -> list[tuple[str, Any]]:
    """Return the static values of all nodes of a tree, with a name for each.

    Raise if some are not hashable, or are tensors.
    """
    found: list[tuple[str, Any]] = []
    for node in tree_nodes_within(tree):
        cls, known = type(node).__name__, _registered[type(node)]
        if known.fields is not None:
            names = [n for n in known.fields.static if hasattr(node, n)]
            own = [*((n, getattr(node, n)) for n in names), *known.fields.more(node)]
            found += [(f"{cls}.{n}", value) for n, value in own]
        elif (data := known.flattened(node)[1]) is not None:
            found.append((f"static data of {cls}", data.value))
    for name, value in found:
        hash(TreeNodeData(value))
        if hasattr(value, "__dlpack__"):
            hint = "Its value would be frozen in the program. Make it a field that is a child."
            raise ArgumentError(f"tree: {name} is static and holds a tensor or array", hint=hint)
    return found


def has_tree_node_attributes(cls: type) -> bool:
    """Whether the children of a node of this class are attributes."""
    known = _registered.get(cls)
    return known is not None and known.attributes


def watched_tree_nodes(tree: Any) -> list[Any]:
    """Return the nodes of a tree whose children are attributes, which code may set."""
    return [x for x in tree_nodes_within(tree) if type(x) in _watched] if _watched else []


def fields_of(cls: type) -> TreeNodeFields | None:
    """Return the fields of a dataclass that is a node by its fields, else None."""
    known = _registered.get(cls)
    return None if known is None else known.fields


def tree_node_reader(node: Any) -> tuple[list[Any], ChildReader] | None:
    """Return the children of an instance of a registered class whose leaves are numbered, and the
    function that fetches those of instances with the same tree; None if there is no such function.
    """
    known = _registered.get(type(node))
    return None if known is None or known.reader is None else known.reader(node)


def registered_name(cls: type) -> str | None:
    """Return the name of a registered class, which another process can find it by, or None."""
    return tree_node_name(cls) if _named.get(tree_node_name(cls)) is cls else None


def tree_node_name(cls: type) -> str:
    """Return the name that a class is found by in another process."""
    return f"{cls.__module__}.{cls.__qualname__}"


def tree_node_children(node: Any) -> tuple[list[Any], Any]:
    """Return the children and the static data of an instance of a registered class."""
    children, data, *_ = _registered[type(node)].flattened(node)
    return list(children), None if data is None else data.value


def tree_node_entries(node: Any) -> list[Any]:
    """Return the names of the children of a node; their numbers if they have none."""
    children, _, *entries = _registered[type(node)].flattened(node)
    named = entries and all(type(name) is str for name in entries[0])
    return list(entries[0]) if named else list(range(len(list(children))))


def tree_node_class(name: str) -> type | None:
    """Return the class that is registered under a name, or a dataclass that is imported."""
    return _named.get(name) or _imported_dataclass_node(name)


def rebuild(name: str, data: Any, children: Iterable[Any]) -> Any:
    """Return an instance of the class that is registered under a name, or a dataclass."""
    cls = tree_node_class(name)
    if cls is None:
        hint = "Import the module that defines it; one that is no dataclass calls pb.tree.register."
        raise ArgumentError(f"tree: the class {name} is not registered here", hint=hint)
    return _registered[cls].rebuilt(None if data is None else TreeNodeData(data), children)


def _imported_dataclass_node(name: str) -> type | None:
    """Return the dataclass of that name in a module that is already imported, as a node."""
    for module in [m for m in list(sys.modules) if name.startswith(f"{m}.")]:
        found: Any = sys.modules[module]
        for part in name.removeprefix(f"{module}.").split("."):
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
        named = isinstance(found, type) and tree_node_name(found) == name
        # A file must not choose the fields of an object that acts when it is dropped
        if named and _is_rebuildable_node(found) and not hasattr(found, "__del__"):
            register_dataclass(found)
            return found
    return None


def register_node_hint(x: object) -> str | None:
    """What to do with an object that is an argument but no tree, for the hint of an error."""
    cls = type(x)
    if cls.__module__ in ("builtins", "numpy"):
        return None
    name = cls.__name__
    return (
        f"Make {name} a dataclass, or register it with pb.tree.register({name}, flatten, "
        "unflatten):\nits tensors are then the leaves of the argument."
    )
