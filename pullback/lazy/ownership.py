"""Ownership: which leaves nothing can read any more when pending work has been computed.

The memory of such a leaf may be overwritten by the program that computes the work. Whether it is
one is decided by counting references, as a garbage collector does. Python reaches the value of a
leaf in one of three ways only:

- through its node. A handle, a list, a closure, a frame of a traceback, another thread, another
  pending computation: each holds the node, or the handle of the node, or a node whose tuple of
  inputs contains it;
- through its buffer, the value of the node: an alias with the same value, a NumPy array or a
  capsule of DLPack with its memory;
- through memory that the buffer shares with something that does not refer to it. The engine knows
  these buffers (`Engine.made`).

So a leaf is dead if every reference to it comes from the work itself, its buffer has no other
reference, and the nodes in between will be gone: a computed node drops its inputs, unless a
derivative still needs them; an intermediate one dies, if the work alone refers to it. A reference
that is not accounted for, whatever holds it, keeps the leaf.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from operator import sub
from sys import getrefcount

from pullback.graph.native import native
from pullback.graph.node import Node
from pullback.lazy.collect import CollectedWork

# Without a global lock, Python does not count all references
COUNTS_ALL: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def owner_references(things: list) -> list[int]:
    """Return the numbers of references to things, including that of the list and one more."""
    return list(map(getrefcount, things))


ONE = owner_references([object()])[0]  # what an object that only the list refers to has


def leaves_without_owner(
    work: CollectedWork,
    candidates: Sequence[int],
    outputs: Iterable[int],
    held_in: Sequence[list[Node]],
) -> list[int]:
    """Return those of the leaves with given numbers that die when the outputs are computed.

    `held_in` are further lists of the nodes of the work that the caller will drop. They must
    really exist, and contain every node once: a reference from elsewhere would pass for theirs.
    """
    nodes, index = work.nodes, work.index
    lists = len({id(nodes), *map(id, held_in)})
    if native is not None:
        found: list[int] = native.leaves_without_owner(
            nodes, work.leaves, index, [*candidates], tuple(outputs), lists
        )
        return found
    operands = [n.inputs for n in nodes]
    inside = Counter(chain.from_iterable(operands))
    aliases = _owned_aliases(inside, index, operands)
    computed = {nodes[i] for i in outputs}
    # The node and `operands` refer to a tuple of inputs
    kept: list[Node] = []
    counts = owner_references(operands)
    if counts.count(ONE + 1) < len(counts):
        for inputs, count in zip(operands, counts, strict=True):
            if count != ONE + 1:
                kept += inputs
    # `index`, `inside` and the lists refer to a node, besides nodes that are inside
    kept += [n for n in _owned_elsewhere(nodes, inside, 2 + lists) if n not in computed]
    kept += _owned_elsewhere(aliases, inside, 2)
    for node in computed:
        if node.tokens and any(t.alive for t in node.tokens):
            kept += node.inputs
    reached = _owned_from(kept, computed)
    leaves = [work.leaves[i] for i in candidates]
    # `leaves`, `work.leaves`, `index` and `inside` refer to a leaf
    held = {*_owned_elsewhere(leaves, inside, 4), *reached}
    return [i for i, leaf in zip(candidates, leaves, strict=True) if leaf not in held]


def _owned_elsewhere(nodes: list[Node], inside: Counter[Node], ours: int) -> list[Node]:
    """Return the nodes with other references than `ours`, and those from nodes inside.

    A node that is not inside has one less of ours, that of `inside`.
    """
    rest = list(map(sub, owner_references(nodes), map(inside.get, nodes, repeat(-1))))
    wanted = ONE - 1 + ours
    if rest.count(wanted) == len(rest):
        return []
    return [n for n, count in zip(nodes, rest, strict=True) if count != wanted]


def _owned_aliases(inside: Counter[Node], index: dict[Node, int], operands: list) -> list[Node]:
    """Return the nodes that the work looks through; add their operands to those of the work."""
    aliases: list[Node] = []
    fresh = [x for x in inside if x not in index]
    while fresh:
        aliases += fresh
        added = [n.inputs for n in fresh]
        operands += added
        inside.update(chain.from_iterable(added))
        known = {*aliases}
        fresh = [x for x in chain.from_iterable(added) if x not in index and x not in known]
        fresh = [*dict.fromkeys(fresh)]
    return aliases


def _owned_from(kept: list[Node], computed: set[Node]) -> set[Node]:
    """Return the nodes that stay, and those that they keep: computed ones keep nothing."""
    reached: set[Node] = set()
    while kept:
        node = kept.pop()
        if node not in reached:
            reached.add(node)
            if node.value is None and node not in computed:
                kept += node.inputs
    return reached
