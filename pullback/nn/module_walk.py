"""The walk over a module: its parameters, state and submodules with their dotted names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.lazy.frozen import note_frozen
from pullback.lazy.tensor import Tensor
from pullback.nn.module_tree import FROZEN, STATE, UNSAVED, module_tree_child_names
from pullback.tree_nodes import is_node, register_dataclasses, tree_node_children, tree_node_entries

if TYPE_CHECKING:
    from pullback.nn.module import Module


class WalkedTensor(NamedTuple):
    """A tensor of a module: its dotted name, and whether it is state instead of a parameter."""

    name: str
    tensor: Tensor
    is_state: bool
    is_saved: bool = True  # whether it is a part of state dicts


def walk_named_submodules(x: Module, prefix: str = "") -> Iterator[tuple[str, Module]]:
    """Return a module and all modules in it, each once, with their dotted names."""
    seen: set[int] = set()
    queue = [(prefix, x)]
    while queue:
        name, module = queue.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield name, module
        found = [pair for pair in walk_named_values(module) if is_module_to_walk(pair[1])]
        queue += [(f"{name}.{n}" if name else n, child) for n, child in reversed(found)]


def walk_named_tensors(x: Module) -> list[WalkedTensor]:
    """Return the tensors of a module and of those in it, each once."""
    found: dict[int, WalkedTensor] = {}
    for prefix, module in walk_named_submodules(x):
        own = vars(module)
        state, unsaved, frozen = own.get(STATE, ()), own.get(UNSAVED, ()), own.get(FROZEN, ())
        for name, value in walk_named_values(module):
            if isinstance(value, Tensor) and id(value) not in found:
                whole = f"{prefix}.{name}" if prefix else name
                is_state = name in state or not value.dtype.is_inexact
                if name in frozen and not value.requires_grad:  # optimizers look at the tensor
                    note_frozen(value, False)
                found[id(value)] = WalkedTensor(whole, value, is_state, name not in unsaved)
    return list(found.values())


def walk_second_names(x: Module) -> dict[str, str]:
    """Return the further names of tensors that a module holds more than once, with the first."""
    first = {id(t.tensor): t.name for t in walk_named_tensors(x)}
    found: dict[str, str] = {}
    queue: list[tuple[str, Module, tuple[int, ...]]] = [("", x, ())]
    while queue:
        prefix, module, above = queue.pop()
        for name, value in walk_named_values(module):
            whole = f"{prefix}.{name}" if prefix else name
            if is_module_to_walk(value):
                queue += [] if id(value) in above else [(whole, value, (*above, id(value)))]
            elif first[id(value)] != whole:
                found[whole] = first[id(value)]
    return found


def walk_named_values(x: Module) -> list[tuple[str, Any]]:
    """Return the tensors and modules directly in a module, also those in its containers."""
    own, unnamed = vars(x), type(x).unnamed
    found = [
        (n, pair) for n in module_tree_child_names(x) for pair in _walk_module_values(own[n], n)
    ]
    return [(name.removeprefix(f"{n}.") if n == unnamed else name, v) for n, (name, v) in found]


def _walk_module_values(value: Any, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, Tensor) or is_module_to_walk(value):
        return [(name, value)]
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, (list, tuple)):
        items = list(enumerate(value))
    elif is_node(type(value)):
        register_dataclasses([value])
        items = list(zip(tree_node_entries(value), tree_node_children(value)[0]))
    else:
        items = []
    return [pair for key, item in items for pair in _walk_module_values(item, f"{name}.{key}")]


def is_module_to_walk(value: Any) -> bool:
    return hasattr(type(value), "named_parameters")
