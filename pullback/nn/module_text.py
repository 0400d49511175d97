"""How modules are shown: the tree of layers with shapes and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.lazy.tensor import Tensor
from pullback.nn.module_tree import attributes_of, child_names
from pullback.nn.module_walk import is_module, named_values

if TYPE_CHECKING:
    from pullback.nn.module import Module

_INDENT = "  "


def show_module(x: Module) -> str:
    """Return the tree of a module: settings, the types of its tensors, and parameter counts."""
    count = x.num_parameters()
    return f"{_shown(x, '')}  # {count:,} parameter{'' if count == 1 else 's'}"


def _shown(x: Module, indent: str) -> str:
    found = named_values(x)
    own = [f"{n} {v._node.type}" for n, v in found if isinstance(v, Tensor)]
    inner = [(n, v) for n, v in found if is_module(v)]
    head = f"{type(x).__name__}({x.extra_repr()})"
    if own:
        head += f": {', '.join(own)}"
    if not inner:
        return head
    deeper = indent + _INDENT
    lines = [f"{deeper}{n}: {_shown(v, deeper)}" for n, v in inner]
    return "\n".join([head, *lines])


def show_settings(x: Module) -> str:
    """Return the static attributes of a module, as they would be passed."""
    hidden = {"training", *child_names(x)}
    shown = {n: v for n, v in attributes_of(x).items() if n not in hidden and n[0] != "_"}
    return ", ".join([f"{n}={_show_value(v)}" for n, v in shown.items() if v is not None])


def _show_value(value: Any) -> str:
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return repr(value)
