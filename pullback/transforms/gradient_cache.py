"""Gradients that were derived before are written out again, without calling a rule.

What rules emit follows from what they look at: ops, types, and which operands are the same. A
`Question` gathers all of that into a key; a `Template` holds what was emitted for it, as numbers
into the question's nodes. Neither holds a node, so neither keeps a value alive.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.graph import table
from pullback.graph.graph import ancestors
from pullback.graph.node import Node, inherited
from pullback.transforms.call_rules import note

# Larger graphs are derived each time: their keys are long, and they seldom come again.
LARGEST = 5000
# What all templates together may hold, counted in parts of keys, nodes to write and their operands.
CAPACITY = 300_000

# Nodes numbered from here on were emitted for this forward node, and carry its line.
Source = tuple[int, Node]


class GradientKey:
    """What is differentiated, as far as rules can see it.

    `key` is the structure of the nodes that `reached` holds in the order of recording, those
    between outputs and targets; `index` numbers them, with the operands that they bring along.
    There is no key for large graphs, nor for ops whose rules may look at more than a key tells.
    """

    def __init__(
        self,
        reached: Sequence[Node],
        outputs: Sequence[Node],
        seeds: Sequence[Node | None],
        targets: Sequence[Node],
    ) -> None:
        self.key: tuple | None = None
        self.index: dict[Node, int] = {}
        if len(reached) > LARGEST:
            return
        index = self.index
        key: list[Any] = [table.version]
        for node in reached:
            if not node.op.predictable:
                return
            # Rules run only for nodes with an operand inside: nobody looks at other operands.
            xs = () if index.keys().isdisjoint(node.inputs) else node.inputs
            for x in xs:
                if x not in index:  # from outside: it is told before the node that uses it first
                    key += x.op, x.type
                    index[x] = len(index)
            # The tuple marks the node among the operands that were told with it.
            key += node.op, node.type, tuple([index[x] for x in xs])
            index[node] = len(index)
        for g in seeds:
            if g is not None and g not in index:
                key += g.op, g.type
                index[g] = len(index)
        for nodes in (seeds, outputs, targets):
            key.append(tuple([index.get(x) for x in nodes]))  # type: ignore[arg-type]
        self.key = tuple(key)

    def answer(self) -> list[Node | None] | None:
        """The gradients, written out from a template; `None` if there is none."""
        template = None if self.key is None else _known.find(self.key)
        return None if template is None else template.write(list(self.index))

    def remember(
        self, found: Sequence[Node | None], sources: Sequence[Source], names: Sequence[str]
    ) -> None:
        """The rules of `names` ran and gave `found`."""
        if self.key is not None:
            template = _template(self.index, found, sources, names)
            if template is not None:
                _known.keep(self.key, template)


# -- what was emitted -----------------------------------------------------------------------------


class TemplateNode(NamedTuple):
    """One node to write. Numbers count the question's nodes, then those written before."""

    op: Any
    operands: tuple[int, ...]
    type: Any
    line: Any  # the number of the node whose line it carries, or a line that an op's graph holds
    backward: bool | None  # None for a result, which takes all this from its op


class Template(NamedTuple):
    """Nodes to write, which of them are the gradients, and the ops whose rules ran."""

    entries: list[TemplateNode]
    found: list[int | None]
    names: tuple[str, ...]

    def write(self, nodes: list[Node]) -> list[Node | None]:
        """The gradients over a question's nodes."""
        note(self.names)
        for op, operands, type, line, backward in self.entries:
            inputs = tuple([nodes[i] for i in operands])
            if backward is None:
                x = inputs[0]
                made = Node(op, inputs, type, x.where, x.tokens, x.backward)
            else:
                where = nodes[line].where if line.__class__ is int else line
                made = Node(op, inputs, type, where, inherited(op, inputs), backward)
            nodes.append(made)
        return [None if i is None else nodes[i] for i in self.found]


def _template(
    index: dict[Node, int],
    found: Sequence[Node | None],
    sources: Sequence[Source],
    names: Sequence[str],
) -> Template | None:
    """What was emitted to find the gradients; `None` if it holds what a key does not tell."""
    start = sources[0][0] if sources else 0
    number, entries = dict(index), []
    remaining = [*reversed(sources)]
    emitted = ancestors(
        [g for g in found if g is not None], lambda n: n in index or n.number < start
    )
    for node in emitted:
        if node in number:
            continue
        if node.number < start or node.value is not None:
            return None  # a rule brought it from elsewhere
        while len(remaining) > 1 and remaining[-2][0] < node.number:
            remaining.pop()
        entries.append(_entry(node, number, remaining[-1][1]))
        number[node] = len(number)
    return Template(entries, [None if g is None else number[g] for g in found], tuple(names))


def _entry(node: Node, number: dict[Node, int], source: Node) -> TemplateNode:
    operands = tuple([number[x] for x in node.inputs])
    if node.inputs and isinstance(node.inputs[0].type, tuple):  # a result of an op with several
        return TemplateNode(node.op, operands, node.type, None, None)
    line = number[source] if node.where is source.where else node.where
    return TemplateNode(node.op, operands, node.type, line, node.backward)


# -- what is remembered ---------------------------------------------------------------------------


class GradientCache:
    """Templates by key; the least recently used go when there are too many parts."""

    def __init__(self) -> None:
        self._templates: OrderedDict[tuple, Template] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def find(self, key: tuple) -> Template | None:
        with self._lock:
            template = self._templates.get(key)
            if template is not None:
                self._templates.move_to_end(key)
            return template

    def keep(self, key: tuple, template: Template) -> None:
        with self._lock:
            if key not in self._templates:
                self._templates[key] = template
                self.size += _size(key, template)
            while self.size > CAPACITY:
                self.size -= _size(*self._templates.popitem(last=False))

    def clear(self) -> None:
        with self._lock:
            self._templates.clear()
            self.size = 0


def _size(key: tuple, template: Template) -> int:
    return len(key) + sum([1 + len(entry.operands) for entry in template.entries])


_known = GradientCache()
clear = _known.clear
