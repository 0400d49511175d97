"""Collect pending work: the nodes that a set of targets needs, and their structural key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.errors import HostReadError
from pullback.graph.graph import by_number
from pullback.graph.native import native
from pullback.graph.node import Node
from pullback.graph.op_kinds import RunsAs, Transparent
from pullback.ops.op import Op
from pullback.ops.sources import SCALAR, Input
from pullback.ops.traits import trait_position


def collected_base(node: Node) -> Node:
    """Return the node behind aliases, which derivatives see and programs do not."""
    while node.value is None and isinstance(node.op, Transparent):
        node = node.inputs[0]
    return node


def collect_pending_ancestors(targets: Iterable[Node]) -> list[Node]:
    """Return the targets and the nodes they depend on that have no value, in recording order."""
    stack = [t for t in targets if t.value is None]
    seen = set(stack)
    for node in stack:  # grows while iterated
        for x in node.inputs:
            if x.value is None:
                if isinstance(x.op, Transparent):
                    x = collected_base(x)
                    if x.value is not None:
                        continue
                if x not in seen:
                    seen.add(x)
                    stack.append(x)
    return sorted(stack, key=by_number)


def collect_related(targets: list[Node], candidates: list[Node]) -> tuple[list[Node], list[Node]]:
    """Return the candidates that share pending work or an input with the targets, and all nodes
    that have to be computed for both, in recording order.

    The new parameters and the loss of a training step share the old parameters, so that reading
    the loss computes the whole step in one program.
    """
    if native is not None:
        return native.collect_related(targets, candidates)
    work: set[Node] = set()
    inputs: set[Node] = set()
    for target in targets:
        _explore_to_collect(target, work, inputs, always=True)
    chosen: set[Node] = set()
    grown = True
    while grown:  # a candidate may share work with another one
        grown = False
        for candidate in candidates:
            if candidate not in chosen and _explore_to_collect(candidate, work, inputs):
                chosen.add(candidate)
                grown = True
    return [c for c in candidates if c in chosen], sorted(work, key=by_number)


def _explore_to_collect(
    target: Node, work: set[Node], inputs: set[Node], always: bool = False
) -> bool:
    """Return whether `target` shares work or inputs; if so, or if `always`, add its own to them."""
    if target in work:
        return True
    if len(target.inputs) == 1 and target.inputs[0] in work:
        work.add(target)  # mostly further results of an op
        return True
    touches = always
    seen, stack = {target}, [target]
    leaves: set[Node] = set()
    for node in stack:  # grows while iterated
        for x in node.inputs:
            if x in seen:
                continue
            if x.value is None:
                if x in work:
                    touches = True
                    continue
                if not isinstance(x.op, Transparent):
                    seen.add(x)
                    stack.append(x)
                    continue
                x = collected_base(x)
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


class CollectedWork:
    """Pending nodes in recording order, their leaves, and their structural key.

    The key holds, for each node, its op and the numbers of its operands, and for each leaf its
    type at its first occurrence. Ops and types are interned, so that comparing keys compares
    parameters by type and bits.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.leaves: list[Node] = []
        self.scalars: list[Node] = []
        self.index: dict[Node, int] = {}
        key = None
        if native is not None:  # None also if there is an error, which is raised below
            key = native.work_key(nodes, self.leaves, self.scalars, self.index)
        self.key: tuple = self._key() if key is None else key

    def _key(self) -> tuple:
        index = self.index
        for found in (index, self.leaves, self.scalars):
            found.clear()  # type: ignore[attr-defined]
        find = index.get
        key: list[Any] = []
        for number, node in enumerate(self.nodes):
            op, inputs = node.op, node.inputs
            if isinstance(op, RunsAs):
                op = op.executed or op
            if len(inputs) == 2:  # the most frequent cases come first, without loops
                i, j = find(inputs[0]), find(inputs[1])
                if i is None or j is None:
                    key.append(op)
                    key += self._key_of_operands(inputs)
                else:
                    key += (op, i, j)
            elif len(inputs) == 1 and (i := find(inputs[0])) is not None:
                key += (op, i)
            else:
                key.append(op)
                key += self._key_of_operands(inputs)
            index[node] = number
            if not inputs and type(node.op) is Input:
                raise _collect_without_value(node)
        return tuple(key)

    def _key_of_operands(self, inputs: tuple[Node, ...]) -> list[Any]:
        """Return the numbers of operands; before that of a new leaf comes its type."""
        index, leaves, scalars = self.index, self.leaves, self.scalars
        key: list[Any] = []
        for x in inputs:
            i = index.get(x)
            if i is None and x.value is None:
                x = collected_base(x)
                i = index.get(x)
            if i is None:
                if x.value is None:
                    raise _collect_without_value(x)
                if x.op is SCALAR:
                    i = ~(2 * len(scalars) + 1)
                    scalars.append(x)
                else:
                    i = ~(2 * len(leaves))
                    leaves.append(x)
                index[x] = i
                key.append(x.type)
            key.append(i)
        return key

    def anywhere(self) -> tuple:
        """Return the key without the positions of ops; `()` if there are none, or on a mesh."""
        if any(x.type.sharding is not None for x in self.leaves):
            return ()
        if not any(trait_position(n.op) for n in self.nodes):
            return ()
        nodes = iter(self.nodes)
        key: list[Any] = [CollectedWork.anywhere]  # differs from every key with positions
        for part in self.key:
            node = next(nodes) if isinstance(part, Op) else None
            key += (type(part), node.type) if node and trait_position(part) else (part,)
        return tuple(key)

    def positions(self) -> list[int]:
        """Return the positions that a program for any position takes, in the order of the nodes."""
        return [i for n in self.nodes for i in trait_position(n.op)]


def _collect_without_value(node: Node) -> HostReadError:
    return HostReadError(
        f"the value of a placeholder {node.type} was read, but it has none yet",
        hint="The function is being traced: it runs once, on placeholders, and values exist only "
        "when the\ncompiled program runs. Return the tensor and read it outside.",
    )
