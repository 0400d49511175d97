"""Donation: a program may write its results into the buffers of donated arguments.

The donated tensor cannot be used again. A buffer that is visible elsewhere is copied first: by
another tensor or node, a pending computation, or a NumPy array.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from pullback.engines.protocols import Engine
from pullback.errors import DonatedError
from pullback.graph.ambient import thread
from pullback.graph.dtypes import float32
from pullback.graph.node import Node
from pullback.graph.source_lines import SourceLine
from pullback.graph.types import Type
from pullback.lazy.pending import submit_pending
from pullback.lazy.runtime_checks import RuntimeFailure
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.sources import leaf_source

# A donated argument: its number among the leaves, and among the inputs of the program.
Donor = tuple[int, int]


class Donated(RuntimeFailure):
    """The value of a tensor that was donated."""

    def __init__(self, name: str, where: SourceLine | None) -> None:
        self.name, self.where = name, where

    def error(self) -> DonatedError:
        return DonatedError(
            f"this tensor was donated to {self.name}, which may use its memory for its results",
            where=self.where,
            hint="Use what the function returned, or leave the argument out of donate_argnums.",
        )


def _donated_references(x: Tensor) -> tuple[int, int]:
    """Return the reference counts of a tensor's node and of its buffer."""
    node = x._node
    return getrefcount(node), getrefcount(node.value)


_NODE_ALONE, _BUFFER_ALONE = _donated_references(wrap(leaf_source(Type((), float32), np.zeros(()))))


def _shared_donated(leaves: Sequence[Any], donors: Sequence[Donor]) -> list[int]:
    """Return the inputs whose buffers are visible elsewhere: see `_donated_references`."""
    found = []
    for i, place in donors:
        x = leaves[i]
        if type(x) is Tensor:
            node = x._node
            if getrefcount(node) != _NODE_ALONE or getrefcount(node.value) != _BUFFER_ALONE:
                found.append(place)
    return found


def donated_seen_by_others(leaves: Sequence[Any], donors: Sequence[Donor]) -> list[int]:
    """Return the inputs whose buffers must be copied, after computing what is pending on them."""
    found = _shared_donated(leaves, donors)
    if found and thread.handles:
        submit_pending()
        found = _shared_donated(leaves, donors)
    return found


def protect_from_donation(
    buffers: list[Any], donors: Sequence[Donor], shared: list[int], engine: Engine
) -> None:
    """Replace buffers that are visible elsewhere, or passed more than once, by copies."""
    if not shared and len(set(map(id, buffers))) == len(buffers):
        return
    times = Counter(map(id, buffers))
    for _, place in donors:
        if place in shared or times[id(buffers[place])] > 1:
            times[id(buffers[place])] -= 1
            buffers[place] = engine.copy(buffers[place])


def mark_donated(
    leaves: Sequence[Any], donated: Sequence[bool], name: str, where: SourceLine | None
) -> None:
    """Let donated tensors raise when they are used."""
    mark = Donated(name, where)
    dead: dict[Type, Node] = {}
    for x, is_donated in zip(leaves, donated):
        if is_donated and isinstance(x, Tensor):
            type = x._node.type
            if type not in dead:
                dead[type] = leaf_source(type, mark, where=where)
            x._node = dead[type]
