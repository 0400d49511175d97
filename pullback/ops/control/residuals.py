"""What a forward pass keeps for its backward pass: the smallest sufficient set of values."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from pullback.graph.graph import ancestors, by_number
from pullback.graph.kinds import Distinct
from pullback.graph.node import Node

_ENDLESS = 1 << 62


def residuals(
    outputs: Sequence[Node],
    seeds: Sequence[Node],
    known: Sequence[Node],
    cost: Callable[[Node], int],
) -> list[Node]:
    """The forward values from which `outputs` can be computed, given `seeds` and what is `known`.

    Backward is what depends on a seed. Forward values that it uses are kept, or computed again
    from others where that is cheap: a minimal cut of the graph, by `cost`, decides which.
    """
    given = set(known)
    needed = [x for x in _used_by_backward(outputs, set(seeds)) if not _given(x, given)]
    kept = [x for x in needed if not _again(x)]  # there is no choice
    rest = _Network([x for x in needed if _again(x)], given.union(kept), cost).cut()
    return sorted([*kept, *rest], key=by_number)


def _used_by_backward(outputs: Sequence[Node], seeds: set[Node]) -> list[Node]:
    backward: set[Node] = set()
    needed: dict[Node, None] = {}
    nodes = ancestors(outputs)
    for node in nodes:
        if node in seeds or any(x in backward for x in node.inputs):
            backward.add(node)
    for node in nodes:
        if node in backward:
            needed.update((x, None) for x in node.inputs if x not in backward)
    needed.update((y, None) for y in outputs if y not in backward)
    return list(needed)


class _Network:
    """A flow from values that must be kept to those that are needed, through cheap ops.

    Each value is two vertices; the edge between them has its cost as capacity. The cut nearest to
    the end computes the least again.
    """

    def __init__(
        self, needed: Sequence[Node], known: set[Node], cost: Callable[[Node], int]
    ) -> None:
        self.edges: list[dict[int, int]] = [{}, {}]  # the source is 0, the end 1
        self.index: dict[Node, int] = {}
        queue = deque(needed)
        for node in queue:
            self._connect(self._vertex(node, cost) + 1, 1)
        entered = set(queue)
        while queue:
            node = queue.popleft()
            at = self._vertex(node, cost)
            if not _again(node):
                self._connect(0, at)
                continue
            for x in node.inputs:
                if not _given(x, known):
                    self._connect(self._vertex(x, cost) + 1, at)
                    if x not in entered:
                        entered.add(x)
                        queue.append(x)

    def _vertex(self, node: Node, cost: Callable[[Node], int]) -> int:
        if node not in self.index:
            at = self.index[node] = len(self.edges)
            self.edges += [{at + 1: cost(node)}, {at: 0}]
        return self.index[node]

    def _connect(self, tail: int, head: int) -> None:
        self.edges[tail][head] = _ENDLESS
        self.edges[head].setdefault(tail, 0)

    def cut(self) -> list[Node]:
        while path := self._path():
            amount = min(self.edges[a][b] for a, b in path)
            for a, b in path:
                self.edges[a][b] -= amount
                self.edges[b][a] += amount
        reaches = self._reaches_end()
        return [n for n, at in self.index.items() if at not in reaches and at + 1 in reaches]

    def _path(self) -> list[tuple[int, int]]:
        """A shortest path from the source to the end with room on it."""
        came: dict[int, int] = {0: 0}
        queue = deque([0])
        while queue and 1 not in came:
            a = queue.popleft()
            for b, room in self.edges[a].items():
                if room and b not in came:
                    came[b] = a
                    queue.append(b)
        if 1 not in came:
            return []
        path, b = [], 1
        while b:
            path.append((came[b], b))
            b = came[b]
        return path

    def _reaches_end(self) -> set[int]:
        found = {1}
        queue = deque([1])
        while queue:
            b = queue.popleft()
            for a in self.edges[b]:
                if a not in found and self.edges[a].get(b, 0):
                    found.add(a)
                    queue.append(a)
        return found


def _given(node: Node, known: set[Node]) -> bool:
    return node in known or (not node.inputs and not isinstance(node.op, Distinct))


def _again(node: Node) -> bool:
    """Whether a value may be computed once more."""
    return node.op.cheap and not node.op.fallible


def size_in_bytes(node: Node) -> int:
    return max(1, node.type.size * node.type.dtype.numpy.itemsize)
