"""Fetch the children of modules whose tree is known, as compiled functions do at each call.

It returns what `split_module` would, and notices all that would make it return something else: a
static attribute that changed, a new attribute, a parameter that was frozen or replaced by None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_not, itemgetter
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

from pullback.graph.dtypes import DType
from pullback.lazy.frozen import any_frozen
from pullback.lazy.tensor import Tensor
from pullback.nn.module_tree import (
    CHILDREN,
    FROZEN,
    frozen_module_tree_names,
    hashable_in_module_tree,
    module_tree_holds_tensors,
    module_tree_without_constants,
    split_module_tree,
)
from pullback.tree_nodes import ChildReader, TreeNodeData

if TYPE_CHECKING:
    from pullback.nn.module import Module

_NONE: frozenset[str] = frozenset()
# Types of values that cannot change, so that one that is the same object is equal
_FIXED = (str, int, float, complex, bytes, frozenset, DType, type(None), type, FunctionType,
          BuiltinFunctionType)  # fmt: skip

_PLAIN = (str, int, bool, frozenset)  # equal values are the same


def module_reader(example: Module) -> tuple[list[Any], ChildReader]:
    """Return the children of a module whose leaves are numbered, and the function that fetches
    those of a module with the same tree: it returns None for others."""
    children, (names, static), _ = split_module_tree(example)
    frozen = vars(example).get(FROZEN, _NONE)
    parts = [module_tree_without_constants(c) for c in children]
    rest = {n: v for n, v in static if n != FROZEN}
    return parts, _read_module_children(type(example), names, parts, rest, frozen)


def _read_module_children(
    kind: Any, names: tuple[str, ...], parts: list[Any], rest: dict[str, Any],
    frozen: frozenset[str],
) -> ChildReader:  # fmt: skip
    get_children, get_static = _read_module_items(names), _read_module_items(tuple(rest))
    wanted = tuple(rest.values())
    known = frozenset(names)
    # Whether modules with these attributes, in this order, have the names: by the attributes
    layouts: dict[tuple[str, ...], bool] = {}
    changeable = [i for i, v in enumerate(wanted) if not _is_fixed_for_reader(v)]
    tensors = [i for i, p in enumerate(parts) if type(p) is int]
    others = [i for i, p in enumerate(parts) if not hasattr(type(p), "named_parameters")]
    others = [i for i in others if i not in tensors]

    def fetch(x: Any) -> Sequence[Any] | None:
        if type(x) is not kind:
            return None
        own = x.__dict__
        layout = tuple(own)
        fits = layouts.get(layout)
        if fits is None:
            fits = layouts[layout] = _reader_has_names(layout, names, rest)
        if not fits:
            return None
        values = get_static(own)
        if any(map(is_not, values, wanted)) and not _module_reader_has_static(values, wanted, x):
            return None
        for i in changeable:
            if module_tree_holds_tensors(values[i]):
                return None
        if (frozen or any_frozen() or FROZEN in own) and frozen_module_tree_names(
            x, names
        ) != frozen:
            return None
        found = get_children(own)
        if CHILDREN in own:
            return found if own[CHILDREN] == known else None
        for i in tensors:
            if type(found[i]) is not Tensor:
                return None
        for i in others:
            if not module_tree_holds_tensors(found[i]):
                return None
        return found

    return fetch


def _read_module_items(names: tuple[str, ...]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    if len(names) > 1:
        return itemgetter(*names)
    return (lambda own: (own[names[0]],)) if names else lambda own: ()


def _reader_has_names(
    layout: tuple[str, ...], names: tuple[str, ...], rest: dict[str, Any]
) -> bool:
    """Whether the attributes are the children, in their order, and the static ones."""
    own = {n for n in layout if n not in (FROZEN, CHILDREN)}
    return own == {*names, *rest} and tuple([n for n in layout if n in names]) == names


def _module_reader_has_static(values: tuple[Any, ...], wanted: tuple[Any, ...], x: Module) -> bool:
    for v, w in zip(values, wanted):
        if v is w or (type(v) is type(w) and type(v) in _PLAIN and v == w):
            continue
        if module_tree_holds_tensors(v) or TreeNodeData(
            hashable_in_module_tree(v, x)
        ) != TreeNodeData(w):
            return False
    return True


def _is_fixed_for_reader(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_fixed_for_reader, value))
    return isinstance(value, _FIXED)
