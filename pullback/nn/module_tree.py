"""Modules as nodes of trees.

The children of a module are its attributes that hold tensors or modules; all other attributes are
static data. State and frozen parameters are constant subtrees: derivatives leave them alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.types import Type
from pullback.lazy.frozen import is_frozen
from pullback.lazy.tensor import Tensor
from pullback.tree_constants import TreeConstant
from pullback.tree_nodes import fields_of, is_node, register_dataclasses, register_node

if TYPE_CHECKING:
    from pullback.nn.module import Module

# Attributes of a module for its own use
STATE = "_state"  # the names of attributes that are state
UNSAVED = "_unsaved"  # the names of those among them that are no part of a state dict
FROZEN = "_frozen"  # the names of parameters that are frozen, dotted in containers
CHILDREN = "_children"  # of a rebuilt module: the names of its children, whatever they hold now

_WITHOUT_TENSORS = frozenset({bool, int, float, str, type(None), frozenset})  # the usual ones
_NO_NAMES: frozenset[str] = frozenset()


def register_module_tree(cls: type[Module]) -> None:
    """Enter a class of modules into the table of tree nodes."""
    from pullback.nn.module_reader import module_reader

    register_node(
        cls, split_module_tree, _join_module_tree(cls), attributes=True, reader=module_reader
    )


def split_module_tree(x: Module) -> tuple[list[Any], Any, tuple[str, ...]]:
    """Return the children of a module, its static data, and the names of the children."""
    own = vars(x)
    names = module_tree_child_names(x)
    frozen = frozen_module_tree_names(x, names)
    state = own.get(STATE, _NO_NAMES)
    children = [_module_tree_child(own[n], n, n in state, frozen) for n in names]
    rest = {n: v for n, v in own.items() if n not in names and n != CHILDREN}
    if frozen:
        rest[FROZEN] = frozen
    static = tuple([(n, hashable_in_module_tree(rest[n], x)) for n in sorted(rest)])
    return children, (names, static), names


def _module_tree_child(value: Any, path: str, is_state: bool, frozen: frozenset[str]) -> Any:
    """Return a child of a module, with state and frozen parameters as constants."""
    if is_state or path in frozen:
        return TreeConstant(value, is_state)
    if not frozen:
        return value
    return map_module_tree_items(lambda v, p: _module_tree_child(v, p, False, frozen), value, path)


def module_tree_without_constants(child: Any) -> Any:
    """Return a child of a module as the module holds it."""
    if type(child) is TreeConstant:
        return child.value
    return map_module_tree_items(lambda v, _: module_tree_without_constants(v), child)


def _module_tree_items(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the items of a list, tuple, dict or dataclass with their keys, else None."""
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    kind = type(value)
    if kind is Tensor or hasattr(kind, "named_parameters") or not is_node(kind):
        return None
    register_dataclasses([value])
    fields = fields_of(kind)
    return None if fields is None else [(n, getattr(value, n)) for n in fields.children]


def map_module_tree_items(f: Callable[[Any, str], Any], value: Any, path: str = "") -> Any:
    """Return a container with `f` of its items and their paths; other values as they are."""
    items = _module_tree_items(value)
    if items is None:
        return value
    new = {k: f(v, f"{path}.{k}") for k, v in items}
    if isinstance(value, (list, tuple)):
        values = new.values()
        return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
    made = copy(value)
    for k, v in new.items():
        made.__setitem__(k, v) if isinstance(value, dict) else object.__setattr__(made, k, v)
    return made


def _join_module_tree(cls: type[Module]) -> Callable[[Any, Any], Module]:
    def join(data: Any, children: Any) -> Module:
        names, static = data
        made: Any = object.__new__(cls)
        own = made.__dict__
        nested = any(n == FROZEN for n, _ in static)  # constants may be in containers
        for name, child in zip(names, children, strict=True):
            if type(child) is TreeConstant:
                child = child.value
            own[name] = module_tree_without_constants(child) if nested else child
        own.update([(n, _thawed_module_tree(v, made)) for n, v in static])
        if not all(module_tree_holds_tensors(own[n]) for n in names):
            own[CHILDREN] = frozenset(names)
        return made

    return join


def module_tree_child_names(x: Module) -> tuple[str, ...]:
    """Return the names of the attributes that hold tensors or modules, in order."""
    own = vars(x)
    known = own.get(CHILDREN, _NO_NAMES)
    return tuple([n for n, v in own.items() if n in known or module_tree_holds_tensors(v)])


def frozen_module_tree_names(x: Module, names: tuple[str, ...]) -> frozenset[str]:
    """Return the names of the parameters that derivatives leave alone, and of NumPy arrays.

    That of an item of a list or dict is dotted.
    """
    own = vars(x)
    known = own.get(FROZEN, _NO_NAMES)  # the tensors of a copy are not marked themselves
    return frozenset([path for n in names for path in _frozen_module_tree_paths(own[n], n, known)])


def _frozen_module_tree_paths(value: Any, path: str, known: frozenset[str]) -> list[str]:
    if type(value) is Tensor:
        frozen = is_frozen(value) or (path in known and value._token is None)
        return [path] if frozen else []
    items = _module_tree_items(value)
    if items is not None:
        return [p for k, v in items for p in _frozen_module_tree_paths(v, f"{path}.{k}", known)]
    return [path] if type(value) is np.ndarray or path in known else []


def module_tree_holds_tensors(value: Any) -> bool:
    """Whether a value is a tensor, an array or a module, or a container of such values."""
    kind = type(value)
    if kind is Tensor or kind is np.ndarray:
        return True
    if kind in _WITHOUT_TENSORS:
        return False
    if isinstance(value, (list, tuple)):
        return any(map(module_tree_holds_tensors, value))
    if isinstance(value, dict):
        return any(map(module_tree_holds_tensors, value.values()))
    if isinstance(value, (str, int, float, Type)) or value is None:
        return False
    if hasattr(kind, "named_parameters"):  # a module
        return True
    return is_node(kind) and any(map(module_tree_holds_tensors, tree.leaves(value)))


class _ModuleTreeContainer(tuple):
    """A list, dict or set among the static data, as its type and contents."""

    __slots__ = ()


@dataclass(frozen=True)
class _ModuleTreeMethod:
    """A bound method of a module among its static data; a copy of the module has its own."""

    function: Any


def hashable_in_module_tree(value: Any, owner: Module) -> Any:
    """Return static data of a module in a form that can be hashed."""
    kind = type(value)
    if kind in (list, set):
        return _ModuleTreeContainer(
            (kind, tuple([hashable_in_module_tree(v, owner) for v in value]))
        )
    if kind is dict:
        return _ModuleTreeContainer(
            (dict, tuple([(k, hashable_in_module_tree(v, owner)) for k, v in value.items()]))
        )
    if kind is MethodType and value.__self__ is owner:
        return _ModuleTreeMethod(value.__func__)
    if (kind is FunctionType and value.__closure__) or kind is partial:
        _refuse_function_in_module_tree(value, owner)
    return value


def _refuse_function_in_module_tree(function: Any, owner: Module) -> None:
    """Refuse a function that refers to the module that holds it."""
    if isinstance(function, partial):
        inside = [getattr(function.func, "__self__", None), *function.args]
    else:
        inside = list(inspect.getclosurevars(function).nonlocals.values())
    if any(x is owner for x in inside):
        name = type(owner).__name__
        raise ArgumentError(
            f"{name}: a function among the attributes refers to the module that holds it",
            hint="That of a copy would call the original, without a gradient. Make it a method.",
        )


def _thawed_module_tree(value: Any, made: Module) -> Any:
    if type(value) is _ModuleTreeMethod:
        return MethodType(value.function, made)
    if type(value) is not _ModuleTreeContainer:
        return value
    kind, items = value
    if kind is dict:
        return {k: _thawed_module_tree(v, made) for k, v in items}
    return kind([_thawed_module_tree(v, made) for v in items])


def module_tree_attributes(x: Module) -> Mapping[str, Any]:
    """Return the attributes of a module that users set."""
    return {n: v for n, v in vars(x).items() if n not in (STATE, UNSAVED, FROZEN, CHILDREN)}
