"""Changes of all tensors of a module, and the choice of those that are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.graph.dtypes import DType
from pullback.graph.dtypes import dtype as as_dtype
from pullback.lazy.frozen import is_frozen
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.nn.module_tree import (
    STATE,
    frozen_module_tree_names,
    map_module_tree_items,
    module_tree_child_names,
)
from pullback.nn.module_walk import is_module_to_walk, walk_named_submodules, walk_named_values

if TYPE_CHECKING:
    from pullback.nn.module import Module


def map_module_tensors(x: Module, f: Callable[[Tensor], Tensor]) -> None:
    """Replace each tensor of a module, and of those in it, by `f` of it; one that is shared stays
    shared."""
    made: dict[int, Tensor] = {}
    kept: list[Tensor] = []  # so that an id stays that of one tensor

    def replaced(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        if id(leaf) not in made:
            kept.append(leaf)
            made[id(leaf)] = _replaced_module_tensor(f, leaf)
        return made[id(leaf)]

    for _, module in walk_named_submodules(x):
        own = module.__dict__
        for name in module_tree_child_names(module):
            own[name] = _mapped_module_tensors(replaced, own[name])


def _mapped_module_tensors(f: Callable[[Any], Any], value: Any) -> Any:
    """Map the leaves of a value, but not those of modules in it."""
    if is_module_to_walk(value):
        return value
    made = map_module_tree_items(lambda v, _: _mapped_module_tensors(f, v), value)
    return made if made is not value else tree.map(f, value)


def _replaced_module_tensor(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return `f(x)`; a leaf that requires a gradient, or is frozen, stays one."""
    with no_grad():
        new = f(x)
    if new is not x and is_frozen(x):
        new.requires_grad = False
    elif new is not x and x.requires_grad:
        new.requires_grad = True
    return new


def converted_module_tensor(x: Tensor, dtype: DType | str | None, device: str | None) -> Tensor:
    """Return a tensor of another dtype, if it holds floats, on another device."""
    if dtype is not None and x.dtype.is_float:
        x = x.astype(as_dtype(dtype))
    return x if device is None else x.to_device(device)


def trainable(x: Module) -> dict[str, Tensor]:
    """Return the parameters of a module that are not frozen, by their dotted names.

    >>> model = pb.nn.Linear(2, 3)
    >>> model.bias.requires_grad = False
    >>> list(pb.nn.trainable(model))
    ['weight']
    """
    found: dict[str, Tensor] = {}
    for prefix, module in walk_named_submodules(x):
        frozen = frozen_module_tree_names(module, module_tree_child_names(module))
        state = vars(module).get(STATE, ())
        for name, value in walk_named_values(module):
            kept = isinstance(value, Tensor) and value.dtype.is_inexact
            if kept and name not in frozen and name not in state:
                found[f"{prefix}.{name}" if prefix else name] = value
    return found
