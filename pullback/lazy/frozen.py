"""Tensors whose `requires_grad` was switched off by the user: optimizers leave them alone."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor

# By id, because `==` compares elements
_frozen: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()


def any_frozen() -> bool:
    """Whether there is a tensor that the user froze."""
    return len(_frozen) > 0


def is_frozen(tensor: Tensor) -> bool:
    """Whether the user set `requires_grad` of a tensor to False."""
    return _frozen.get(id(tensor)) is tensor


def note_frozen(tensor: Tensor, on: bool) -> None:
    """Note what the user set `requires_grad` of a tensor to."""
    if on:
        _frozen.pop(id(tensor), None)
    else:
        _frozen[id(tensor)] = tensor
