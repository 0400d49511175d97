"""A cache of derived gradients, which writes them out again without calling a rule.

What rules emit follows from what they look at: ops, types, and which operands are the same. A
`GradientKey` gathers all of that; a `GradientTemplate` holds the nodes that were emitted, with
operands given as numbers of the key's nodes. Neither holds a node, so neither keeps a value alive.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from pullback.graph import op_table
from pullback.graph.ambient import PENDING_LIMIT, thread
from pullback.graph.graph import graph_ancestors
from pullback.graph.native import native
from pullback.graph.node import Node, next_number, tokens_of_new_node
from pullback.graph.op_kinds import Detached
from pullback.ops.prelude import Op
from pullback.transforms.call_rules import is_result_node, log_called_rules

# Larger graphs are derived each time; they are computed in pieces anyway.
LARGEST = PENDING_LIMIT
# The size of all templates together: parts of keys, nodes, and operands of nodes.
CAPACITY = 600_000

# Nodes with at least this number were emitted for this forward node, and carry its line.
Source = tuple[int, Node]


class GradientKey:
    """Everything about a graph and its targets that rules can see.

    `parts` describes the nodes of `reached` (those between outputs and targets, in the order of
    recording), with `nodes`, these and their operands, as numbers. `parts` is `None`, and nothing
    is cached, for large graphs and for ops whose rules may look at more than the key contains.
    """

    def __init__(
        self, reached: Sequence[Node], outputs: Sequence[Node], seeds: Sequence[Node | None],
        targets: Sequence[Node],
    ) -> None:  # fmt: skip
        self.parts: tuple | None = None
        self.nodes: list[Node] = []
        if len(reached) <= LARGEST:
            write = _write_gradient_key if native is None else native.gradient_key
            found = write([*reached], [*outputs], [*seeds], [*targets], op_table.version)
            if found is not None:
                self.parts, self.nodes = found

    def cached_gradients(self) -> list[Node | None] | None:
        """The gradients, written out from a template; `None` if there is no template."""
        template = None if self.parts is None else _cache.find(self.parts)
        return None if template is None else template.instantiate([*self.nodes])

    def store(
        self, gradients: Sequence[Node | None], sources: Sequence[Source], rules: Sequence[str]
    ) -> None:
        """Cache the gradients that the rules of the ops named in `rules` gave."""
        if self.parts is not None:
            index = {node: i for i, node in enumerate(self.nodes)}
            template = _make_gradient_template(index, gradients, sources, rules)
            if template is not None:
                _cache.add(self.parts, template)


def _write_gradient_key(
    reached: Sequence[Node], outputs: Sequence[Node], seeds: Sequence[Node | None],
    targets: Sequence[Node], version: int,
) -> tuple[tuple, list[Node]] | None:  # fmt: skip
    """Return the parts of a key and the nodes that it numbers, or `None`."""
    index: dict[Node, int] = {}
    find = index.get
    parts: list[Any] = [version]
    for node in reached:
        op, xs = node.op, node.inputs
        if not op.predictable:
            return None
        numbers = tuple(map(find, xs))
        if None in numbers:
            # Rules run only for nodes with an operand inside; operands of others do not matter
            if numbers.count(None) == len(numbers):
                numbers = ()
            else:
                for x in xs:
                    if x not in index:  # an operand from outside comes before its consumer
                        parts += x.op, x.type
                        index[x] = len(index)
                numbers = tuple(map(find, xs))
        # The tuple tells a node from the operands that come before it
        parts += op, node.type, numbers
        index[node] = len(index)
    for g in seeds:
        if g is not None and g not in index:
            parts += g.op, g.type
            index[g] = len(index)
    for nodes in (seeds, outputs, targets):
        parts.append(tuple([index.get(x) for x in nodes]))  # type: ignore[arg-type]
    return tuple(parts), list(index)


class GradientTemplateNode(NamedTuple):
    """A node to write. Operands are numbers: of the key's nodes, then of template nodes."""

    op: Op
    operands: tuple[int, ...]
    fetch: Callable[[list[Node]], tuple[Node, ...]] | None  # several operands, from all nodes
    type: Any
    line: Any  # the number of the node whose line it carries, or a line from inside an op's graph
    forward_op: str  # the name of the op whose rule emitted it
    selects: bool  # whether it is one result of an op with several, and like that otherwise
    detached: bool  # whether it counts as a constant


class GradientTemplate(NamedTuple):
    """The nodes to write, the numbers of the gradients, and the ops whose rules ran."""

    nodes: list[GradientTemplateNode]
    gradients: list[int | None]
    rules: tuple[str, ...]

    def instantiate(self, nodes: list[Node]) -> list[Node | None]:
        """Write the nodes after those of a key; return the gradients."""
        log_called_rules(self.rules)
        write = _write_cached_gradient if native is None else native.write_template
        write(self.nodes, nodes, _gradient_template_tokens(nodes), tokens_of_new_node)
        return [None if i is None else nodes[i] for i in self.gradients]


def _write_cached_gradient(
    entries: list[GradientTemplateNode], nodes: list[Node], common: tuple | None,
    find_tokens: Callable[[Op, tuple[Node, ...]], tuple],
) -> None:  # fmt: skip
    """Append the nodes of a template; `common` are their tokens, if they are the same for all."""
    new, node_class, append = object.__new__, Node, nodes.append
    for op, operands, fetch, type, line, forward_op, selects, detached in entries:
        inputs = tuple([nodes[i] for i in operands]) if fetch is None else fetch(nodes)
        made = new(node_class)  # an inlined constructor: there are thousands of nodes
        made.op = op
        made.inputs = inputs
        made.type = type
        made.value = made.checked = None
        made.number = next_number()
        append(made)
        if selects:
            x = inputs[0]
            made.where, made.tokens, made.forward_op = x.where, x.tokens, x.forward_op
            continue
        made.where = nodes[line].where if line.__class__ is int else line
        made.forward_op = forward_op
        tokens: tuple = ()
        for x in inputs:
            if x.tokens:
                tokens = find_tokens(op, inputs) if common is None or detached else common
                break
        made.tokens = tokens


def _gradient_template_tokens(nodes: Sequence[Node]) -> tuple | None:
    """Return the tokens of every node that a rule emits from these, if an operand has tokens.

    None if they are not the same for all.
    """
    if native is None:
        found = list({id(x.tokens): x.tokens for x in nodes if x.tokens}.values())
    else:
        found = native.distinct_tokens(nodes)
    if not thread.leaf_tokens:
        return () if all(t.leaf for tokens in found for t in tokens) else None
    return found[0] if len(found) == 1 else None


def _make_gradient_template(
    index: dict[Node, int], gradients: Sequence[Node | None], sources: Sequence[Source],
    rules: Sequence[str],
) -> GradientTemplate | None:  # fmt: skip
    """A template of all that was emitted for `gradients`.

    `None` if a rule used a node that is not part of the key.
    """
    start = sources[0][0] if sources else 0
    number, entries = dict(index), []
    remaining = [*reversed(sources)]
    found = [g for g in gradients if g is not None]
    for node in graph_ancestors(found, lambda n: n in index or n.number < start):
        if node in number:
            continue
        if node.number < start or node.value is not None:
            return None
        while len(remaining) > 1 and remaining[-2][0] < node.number:
            remaining.pop()
        entries.append(_gradient_template_node(node, number, remaining[-1][1]))
        number[node] = len(number)
    return GradientTemplate(
        entries, [None if g is None else number[g] for g in gradients], tuple(rules)
    )


def _gradient_template_node(
    node: Node, number: dict[Node, int], source: Node
) -> GradientTemplateNode:
    operands = tuple([number[x] for x in node.inputs])
    fetch: Any = itemgetter(*operands) if len(operands) > 1 else None
    if is_result_node(node):
        return GradientTemplateNode(node.op, operands, fetch, node.type, None, "", True, False)
    line = number[source] if node.where is source.where else node.where
    detached = isinstance(node.op, Detached)
    made = node.op, operands, fetch, node.type, line, node.forward_op
    return GradientTemplateNode(*made, selects=False, detached=detached)


class GradientCache:
    """Templates by key; the least recently used are dropped when `size` exceeds `CAPACITY`."""

    def __init__(self) -> None:
        self._templates: OrderedDict[tuple, GradientTemplate] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def find(self, key: tuple) -> GradientTemplate | None:
        with self._lock:
            template = self._templates.get(key)
            if template is not None:
                self._templates.move_to_end(key)
            return template

    def add(self, key: tuple, template: GradientTemplate) -> None:
        with self._lock:
            if key not in self._templates:
                self._templates[key] = template
                self.size += _gradient_cache_size(key, template)
            while self.size > CAPACITY:
                self.size -= _gradient_cache_size(*self._templates.popitem(last=False))

    def clear(self) -> None:
        with self._lock:
            self._templates.clear()
            self.size = 0


def _gradient_cache_size(key: tuple, template: GradientTemplate) -> int:
    return len(key) + sum([1 + len(node.operands) for node in template.nodes])


_cache = GradientCache()
clear = _cache.clear
