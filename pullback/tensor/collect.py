"""Collecting pending work: which nodes a set of targets needs, and the structural key of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.ir.errors import HostReadError
from pullback.ir.graph import by_number
from pullback.ir.node import Node
from pullback.ir.where import user_line
from pullback.ops.structure import SCALAR, Input


def base(node: Node) -> Node:
    """The node behind aliases: they are visible to derivatives, not to programs."""
    while node.value is None and node.op.transparent:
        node = node.inputs[0]
    return node


def pending_ancestors(targets: Iterable[Node]) -> set[Node]:
    """The nodes without a value that the targets (themselves included) depend on."""
    stack = [t for t in targets if t.value is None]
    seen = set(stack)
    for node in stack:  # grows while it is walked
        for x in node.inputs:
            if x.value is None:
                if x.op.transparent:
                    x = base(x)
                    if x.value is not None:
                        continue
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
    return seen


def related(targets: list[Node], candidates: list[Node]) -> list[Node]:
    """The candidates that share unevaluated work or an input with the targets, in record order.

    The new parameters of a training step share the old ones with its loss, so that reading the
    loss computes the whole step in one program.
    """
    work: set[Node] = set()
    inputs: set[Node] = set()
    for target in targets:
        _explore(target, work, inputs)
    chosen = dict.fromkeys(candidates, False)
    grown = True
    while grown:
        grown = False
        for candidate, is_chosen in chosen.items():
            if is_chosen:
                continue
            if candidate not in work:
                nodes: set[Node] = set()
                leaves: set[Node] = set()
                _explore(candidate, nodes, leaves)
                if work.isdisjoint(nodes) and inputs.isdisjoint(leaves):
                    continue
                grown = not nodes <= work or not leaves <= inputs
                work |= nodes
                inputs |= leaves
            chosen[candidate] = True
    return [c for c, is_chosen in chosen.items() if is_chosen]


def _explore(target: Node, work: set[Node], inputs: set[Node]) -> None:
    """Add the pending nodes behind `target` to `work`, and the tensors they use to `inputs`."""
    if target in work:
        return
    work.add(target)
    stack = [target]
    for node in stack:
        for x in node.inputs:
            if x.value is None and x.op.transparent:
                x = base(x)
            if x.value is not None:
                if x.op is not SCALAR:
                    inputs.add(x)
            elif x not in work:
                work.add(x)
                stack.append(x)


class Work:
    """A set of pending nodes in record order, its leaves, and its structural key.

    The key holds, node by node, the op and for each operand its number; a leaf brings its type
    where it occurs first, so which leaf is which is part of the key. Ops and types are interned:
    comparing keys compares everything, by type and bits.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = sorted(nodes, key=by_number)
        self.leaves: list[Node] = []
        self.scalars: list[Node] = []
        self.index: dict[Node, int] = {}
        self.key = self._key()

    def _key(self) -> tuple:
        index, leaves, scalars = self.index, self.leaves, self.scalars
        key: list[Any] = []
        for number, node in enumerate(self.nodes):
            key.append(node.op)
            for x in node.inputs:
                i = index.get(x)
                if i is None:
                    if x.value is None:
                        x = base(x)
                        i = index.get(x)
                    if i is None:
                        if x.value is None:
                            raise _no_value(x)
                        if x.op is SCALAR:
                            i = ~(2 * len(scalars) + 1)
                            scalars.append(x)
                        else:
                            i = ~(2 * len(leaves))
                            leaves.append(x)
                        index[x] = i
                        key.append(x.type)
                key.append(i)
            index[node] = number
            if not node.inputs and type(node.op) is Input:
                raise _no_value(node)
        return tuple(key)


def _no_value(node: Node) -> HostReadError:
    return HostReadError(
        f"the value of a placeholder {node.type} was asked for, and it has none yet",
        where=user_line(),
        hint="The function is being traced: it runs once, on placeholders, and its values exist "
        "only when the\ncompiled program runs. Return the tensor, and read it outside.",
    )


__all__ = ["Work", "base", "pending_ancestors", "related"]
