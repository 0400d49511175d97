"""Donation: an argument's buffer is handed to the program, which may write its results there.

The handle is given up. A buffer that anybody else can still see is copied first: another handle
or node, a computation that waits, an array of NumPy's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from pullback.errors import DonatedError
from pullback.graph.ambient import thread
from pullback.graph.dtypes import float32
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.pending import submit_pending
from pullback.lazy.runtime_checks import Failed
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import leaf

# A donated argument: its number among the leaves, and among the inputs of the program.
Donor = tuple[int, int]


class Donated(Failed):
    """In place of the value of a donated tensor."""

    def __init__(self, name: str, where: Any) -> None:
        self.name, self.where = name, where

    @property
    def error(self) -> DonatedError:  # type: ignore[override]
        return DonatedError(
            f"this tensor was donated to {self.name}, which may use its memory for its results",
            where=self.where,
            hint="Use what the function returned, or leave the argument out of donate_argnums.",
        )


def _referred(x: Tensor) -> tuple[int, int]:
    """How many refer to a tensor's node, and how many to its buffer."""
    node = x._node
    return getrefcount(node), getrefcount(node.value)


_NODE_ALONE, _BUFFER_ALONE = _referred(wrap(leaf(Type((), float32), np.zeros(()))))


def _shared(leaves: Sequence[Any], donors: Sequence[Donor]) -> list[int]:
    """The inputs whose buffers others see than the handle; a new tensor is made of anything else.

    It counts as `_referred` does, without a call for each.
    """
    found = []
    for i, place in donors:
        x = leaves[i]
        if type(x) is Tensor:
            node = x._node
            if getrefcount(node) != _NODE_ALONE or getrefcount(node.value) != _BUFFER_ALONE:
                found.append(place)
    return found


def seen_by_others(leaves: Sequence[Any], donors: Sequence[Donor]) -> list[int]:
    """The inputs whose buffers must be copied; what waits to read one is computed first."""
    found = _shared(leaves, donors)
    if found and thread.handles:
        submit_pending()
        found = _shared(leaves, donors)
    return found


def protect(buffers: list[Any], donors: Sequence[Donor], shared: list[int], engine: Any) -> None:
    """Put copies in place of buffers that others see, or that are given more than once."""
    if not shared and len(set(map(id, buffers))) == len(buffers):
        return
    times = Counter(map(id, buffers))
    for _, place in donors:
        if place in shared or times[id(buffers[place])] > 1:
            times[id(buffers[place])] -= 1
            buffers[place] = engine.copy(buffers[place])


def give_up(leaves: Sequence[Any], donated: Sequence[bool], name: str, where: Any) -> None:
    """The handles of donated arguments stand for nothing any more."""
    mark = Donated(name, where)
    dead: dict[Type, Node] = {}
    for x, gone in zip(leaves, donated):
        if gone and isinstance(x, Tensor):
            type = x._node.type
            if type not in dead:
                dead[type] = leaf(type, mark, where=where)
            x._node = dead[type]
