"""Modules as nodes of trees.

The children of a module are its attributes that hold tensors or modules; all other attributes are
static data. State and frozen parameters are constant subtrees: derivatives leave them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback import tree
from pullback.graph.types import Type
from pullback.lazy.frozen import is_frozen
from pullback.lazy.tensor import Tensor
from pullback.tree_constants import Constant
from pullback.tree_nodes import is_node, register_node

if TYPE_CHECKING:
    from pullback.nn.module import Module

# Attributes of a module for its own use
STATE = "_state"  # the names of attributes that are state
UNSAVED = "_unsaved"  # the names of those among them that are no part of a state dict
FROZEN = "_frozen"  # the names of parameters that are frozen
CHILDREN = "_children"  # of a rebuilt module: the names of its children, whatever they hold now

_WITHOUT_TENSORS = frozenset({bool, int, float, str, type(None), frozenset})  # the usual ones
_NO_NAMES: frozenset[str] = frozenset()


def register_module(cls: type[Module]) -> None:
    """Enter a class of modules into the table of tree nodes."""
    from pullback.nn.module_reader import module_reader

    register_node(cls, split_module, _join_into_module(cls), attributes=True, reader=module_reader)


def split_module(x: Module) -> tuple[list[Any], Any, tuple[str, ...]]:
    """Return the children of a module, its static data, and the names of the children."""
    own = vars(x)
    names = child_names(x)
    frozen = frozen_names(x, names)
    state = own.get(STATE, _NO_NAMES)
    children = [_child(own[n], n in state, n in frozen) for n in names]
    rest = {n: v for n, v in own.items() if n not in names and n != CHILDREN}
    if frozen:
        rest[FROZEN] = frozen
    static = tuple([(n, hashable(rest[n])) for n in sorted(rest)])
    return children, (names, static), names


def _child(value: Any, is_state: bool, frozen: bool) -> Any:
    constant = is_state or frozen or isinstance(value, np.ndarray)
    return Constant(value, is_state) if constant else value


def _join_into_module(cls: type[Module]) -> Callable[[Any, Any], Module]:
    def join(data: Any, children: Any) -> Module:
        names, static = data
        made: Any = object.__new__(cls)
        own = made.__dict__
        for name, child in zip(names, children, strict=True):
            own[name] = child.value if type(child) is Constant else child
        own.update([(n, _thawed(v)) for n, v in static])
        if not all(holds_tensors(own[n]) for n in names):
            own[CHILDREN] = frozenset(names)
        return made

    return join


def child_names(x: Module) -> tuple[str, ...]:
    """Return the names of the attributes that hold tensors or modules, in order."""
    own = vars(x)
    known = own.get(CHILDREN, _NO_NAMES)
    return tuple([n for n, v in own.items() if n in known or holds_tensors(v)])


def frozen_names(x: Module, names: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the parameters that derivatives leave alone, and of NumPy arrays."""
    own = vars(x)
    found = [n for n in names if _is_frozen_value(own[n])]
    return own.get(FROZEN, _NO_NAMES) | frozenset(found)


def _is_frozen_value(value: Any) -> bool:
    if type(value) is Tensor:
        return is_frozen(value)
    if type(value) is np.ndarray:
        return True
    if isinstance(value, (list, tuple, dict)):
        found = tensors_directly_in(value)
        return bool(found) and all(map(is_frozen, found))
    return False


def tensors_directly_in(value: Any) -> list[Tensor]:
    """Return the tensors of a container that belong to no module inside it."""
    if type(value) is Tensor:
        return [value]
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return [t for item in items for t in tensors_directly_in(item)]
    return []


def holds_tensors(value: Any) -> bool:
    """Whether a value is a tensor, an array or a module, or a container of such values."""
    kind = type(value)
    if kind is Tensor or kind is np.ndarray:
        return True
    if kind in _WITHOUT_TENSORS:
        return False
    if isinstance(value, (list, tuple)):
        return any(map(holds_tensors, value))
    if isinstance(value, dict):
        return any(map(holds_tensors, value.values()))
    if isinstance(value, (str, int, float, Type)) or value is None:
        return False
    if hasattr(kind, "named_parameters"):  # a module
        return True
    return is_node(kind) and any(map(holds_tensors, tree.leaves(value)))


class _FrozenContainer(tuple):
    """A list, dict or set among the static data, as its type and contents."""

    __slots__ = ()


def hashable(value: Any) -> Any:
    """Return static data in a form that can be hashed."""
    if type(value) in (list, set):
        return _FrozenContainer((type(value), tuple(map(hashable, value))))
    if type(value) is dict:
        return _FrozenContainer((dict, tuple([(k, hashable(v)) for k, v in value.items()])))
    return value


def _thawed(value: Any) -> Any:
    if type(value) is not _FrozenContainer:
        return value
    kind, items = value
    if kind is dict:
        return {k: _thawed(v) for k, v in items}
    return kind(map(_thawed, items))


def attributes_of(x: Module) -> Mapping[str, Any]:
    """Return the attributes of a module that users set."""
    return {n: v for n, v in vars(x).items() if n not in (STATE, UNSAVED, FROZEN, CHILDREN)}
