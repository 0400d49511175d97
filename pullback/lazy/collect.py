"""Collecting pending work: which nodes a set of targets needs, and the structural key of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.errors import HostReadError
from pullback.graph.graph import by_number
from pullback.graph.kinds import RunsAs, Transparent
from pullback.graph.node import Node
from pullback.ops.op import Op
from pullback.ops.sources import SCALAR, Input
from pullback.ops.traits import position


def base(node: Node) -> Node:
    """The node behind aliases: they are visible to derivatives, not to programs."""
    while node.value is None and isinstance(node.op, Transparent):
        node = node.inputs[0]
    return node


def pending_ancestors(targets: Iterable[Node]) -> list[Node]:
    """The nodes without a value that the targets depend on, and themselves, in record order."""
    stack = [t for t in targets if t.value is None]
    seen = set(stack)
    for node in stack:  # grows while it is walked
        for x in node.inputs:
            if x.value is None:
                if isinstance(x.op, Transparent):
                    x = base(x)
                    if x.value is not None:
                        continue
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
    return sorted(stack, key=by_number)


def related(targets: list[Node], candidates: list[Node]) -> tuple[list[Node], list[Node]]:
    """The candidates that share unevaluated work or an input with the targets, in record order,
    and all the nodes that have to be computed for both.

    The new parameters of a training step share the old ones with its loss, so that reading the
    loss computes the whole step in one program.
    """
    work: set[Node] = set()
    inputs: set[Node] = set()
    for target in targets:
        _explore(target, work, inputs, always=True)
    chosen: set[Node] = set()
    grown = True
    while grown:  # what one candidate brings in may be shared by another
        grown = False
        for candidate in candidates:
            if candidate not in chosen and _explore(candidate, work, inputs):
                chosen.add(candidate)
                grown = True
    return [c for c in candidates if c in chosen], sorted(work, key=by_number)


def _explore(target: Node, work: set[Node], inputs: set[Node], always: bool = False) -> bool:
    """Whether `target` touches work or inputs; if so, or `always`, its own are added to them."""
    if target in work:
        return True
    if len(target.inputs) == 1 and target.inputs[0] in work:
        work.add(target)  # the other results of an op, most often
        return True
    touches = always
    seen, stack = {target}, [target]
    leaves: set[Node] = set()
    for node in stack:
        for x in node.inputs:
            if x.value is None and isinstance(x.op, Transparent):
                x = base(x)
            if x.value is not None:
                if x.op is not SCALAR:
                    leaves.add(x)
            elif x in work:
                touches = True
            elif x not in seen:
                seen.add(x)
                stack.append(x)
    if touches or not inputs.isdisjoint(leaves):
        work |= seen
        inputs |= leaves
        return True
    return False


class Work:
    """A set of pending nodes in record order, its leaves, and its structural key.

    The key holds, node by node, the op and for each operand its number; a leaf brings its type
    where it occurs first, so which leaf is which is part of the key. Ops and types are interned:
    comparing keys compares everything, by type and bits.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.leaves: list[Node] = []
        self.scalars: list[Node] = []
        self.index: dict[Node, int] = {}
        self.key = self._key()

    def _key(self) -> tuple:
        index, leaves, scalars = self.index, self.leaves, self.scalars
        key: list[Any] = []
        for number, node in enumerate(self.nodes):
            op = node.op
            key.append(op if not isinstance(op, RunsAs) else op.executed or op)
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
            if not node.inputs and type(op) is Input:
                raise _no_value(node)
        return tuple(key)

    def anywhere(self) -> tuple:
        """The key of the same work at any position: ops that have one count by kind and result.

        Nothing, if no op has a position, or values are on a mesh, whose devices have parts.
        """
        if any(x.type.sharding is not None for x in self.leaves):
            return ()
        if not any(position(n.op) for n in self.nodes):
            return ()
        nodes = iter(self.nodes)
        key: list[Any] = [Work.anywhere]  # unlike that of any work at its own position
        for part in self.key:
            node = next(nodes) if isinstance(part, Op) else None
            key += (type(part), node.type) if node and position(part) else (part,)
        return tuple(key)

    def positions(self) -> list[int]:
        """The positions that a program for any of them is given, in the order of the nodes."""
        return [i for n in self.nodes for i in position(n.op)]


def _no_value(node: Node) -> HostReadError:
    return HostReadError(
        f"the value of a placeholder {node.type} was asked for, and it has none yet",
        hint="The function is being traced: it runs once, on placeholders, and its values exist "
        "only when the\ncompiled program runs. Return the tensor, and read it outside.",
    )


__all__ = ["Work", "base", "pending_ancestors", "related"]
