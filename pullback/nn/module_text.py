"""How modules are shown: the tree of layers with shapes and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.lazy.tensor import Tensor
from pullback.nn.module_tree import module_tree_attributes, module_tree_child_names
from pullback.nn.module_walk import is_module_to_walk, walk_named_values

if TYPE_CHECKING:
    from pullback.nn.module import Module

_INDENT = "  "


def show_module(x: Module) -> str:
    """Return the tree of a module: settings, the types of its tensors, and parameter counts."""
    count = x.num_parameters()
    return f"{_submodule_text(x, '')}  # {count:,} parameter{'' if count == 1 else 's'}"


def _submodule_text(x: Module, indent: str) -> str:
    found = walk_named_values(x)
    own = [f"{n} {v._node.type}" for n, v in found if isinstance(v, Tensor)]
    inner = [(n, v) for n, v in found if is_module_to_walk(v)]
    head = f"{type(x).__name__}({x.extra_repr()})"
    if own:
        head += f": {', '.join(own)}"
    if not inner:
        return head
    deeper = indent + _INDENT
    lines = [f"{deeper}{n}: {_submodule_text(v, deeper)}" for n, v in inner]
    return "\n".join([head, *lines])


def module_settings_text(x: Module) -> str:
    """Return the static attributes of a module, as they would be passed."""
    hidden = {"training", *module_tree_child_names(x)}
    shown = {n: v for n, v in module_tree_attributes(x).items() if n not in hidden and n[0] != "_"}
    return ", ".join([f"{n}={_module_value_text(v)}" for n, v in shown.items() if v is not None])


def _module_value_text(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)
