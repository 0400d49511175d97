"""Cut a program that repeats itself into segments, so that equal segments are compiled once.

A model of many equal layers, written as a Python loop, repeats the same nodes: in the forward
pass, the backward pass and the optimizer. Cut at the boundaries of its layers, a model of 64
layers has as few different segments as a model of 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pullback.graph.canonical import canonicalise_with_map
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node
from pullback.graph.op_kinds import (
    DistinctKind,
    RearrangementKind,
    ResultSourceKind,
    UnpackedScalarKind,
)
from pullback.graph.op_table import TABLE

SHORTEST = 24  # nodes in a segment: starting a shorter one is not worth it
FEWEST = 4  # repetitions: fewer are compiled together, which runs a little faster
GOOD = 250  # nodes in a segment of several repetitions: starts and compiling both cost
LONGEST = 1000  # nodes in a segment: compile time grows faster than its size
# Nodes of a program that is compiled whole on GPUs. Pieces cost more there than on CPUs: a step of
# a transformer of 12 layers took 1.13 times as long.
WHOLE_ON_GPU = 10_000
_MANY = 16  # operands: a node with more counts as that many
_WINDOW = 12  # nodes that must agree before two positions are compared further


class CompileSplitSegment:
    """A part of a program: `graph` computes `gives` from `takes`, nodes of the whole program.

    Its scalars are packed into its last input; `words` are their positions among the scalars of
    the program. `stands_for` maps each of its nodes to a node of the program.
    """

    def __init__(
        self, nodes: Sequence[Node], used: set[Node], free: set[Node], behind: dict[Node, Node]
    ) -> None:
        own = set(nodes)
        self.gives = [n for n in nodes if n in used and not isinstance(n.type, tuple)]
        outside = [behind.get(x, x) for n in nodes for x in n.inputs if x not in own]
        self.takes = list(dict.fromkeys(x for x in outside if x not in free))
        new: dict[Node, Node] = {}
        for i, x in enumerate(self.takes):
            new[x] = TABLE["Input"](f"x{i}", x.type.shape, x.type.dtype)()
        inputs = [new[x] for x in self.takes]
        scalars = list(dict.fromkeys(x for x in outside if _is_compile_split_scalar(x)))
        self.words = [w for s in scalars for w in s.op.words]  # type: ignore[attr-defined]
        if scalars:
            inputs.append(_pack_compile_split_scalars(scalars, len(self.words), new))
        for node in nodes:
            _copy_into_compile_split(node, new)
        copy = Graph(inputs, [new[y] for y in self.gives])
        # The order of commutative operands may depend on nodes outside the segment
        self.graph, places = canonicalise_with_map(copy)
        self.stands_for: dict[Node, Node] = {}
        for old, made in new.items():
            if made in places:
                self.stands_for.setdefault(places[made], old)


def _is_compile_split_scalar(n: Node) -> bool:
    return isinstance(n.op, UnpackedScalarKind)


def _pack_compile_split_scalars(scalars: list[Node], count: int, new: dict[Node, Node]) -> Node:
    """Return an input for the scalars of a segment; add the nodes that unpack it to `new`."""
    packed = TABLE["Input"]("scalars", (count,), scalars[0].inputs[0].type.dtype)()
    word = 0
    for s in scalars:
        new[s] = TABLE["Unpack"](word, s.type.dtype)(packed)
        word += len(s.op.words)  # type: ignore[attr-defined]
    return packed


def _copy_into_compile_split(node: Node, new: dict[Node, Node]) -> None:
    """Add a copy of a node to `new`, and of what the segment computes itself of its operands."""
    stack = [node]
    while stack:
        n = stack[-1]
        missing = [x for x in n.inputs if x not in new]
        if missing:
            stack.extend(missing)
        elif stack.pop() not in new:
            xs = tuple([new[x] for x in n.inputs])
            new[n] = Node(n.op, xs, n.type, n.where, (), n.forward_op)


def segments_for_platform(graph: Graph, platform: str) -> list[CompileSplitSegment]:
    """Return the segments that an engine compiles; none if the program stays whole."""
    whole = platform != "cpu" and len(graph.nodes) <= WHOLE_ON_GPU
    return [] if whole else split_into_segments(graph)


def split_into_segments(graph: Graph) -> list[CompileSplitSegment]:
    """Return the segments of a program in the order they run; none if it does not repeat itself."""
    nodes = graph.nodes[len(graph.inputs) :]
    if sum(map(_compile_split_weight, nodes)) < SHORTEST * FEWEST:
        return []
    free = _copied_by_compile_split(nodes)
    order = [n for n in nodes if n not in free]
    cuts = _compile_split_cuts(order)
    if not cuts:
        return []
    parts = [order[a:b] for a, b in zip([0, *cuts], [*cuts, len(order)])]
    return _compile_split_segments(graph, parts, free)


def split_after_results(graph: Graph, results: Iterable[Node]) -> list[CompileSplitSegment]:
    """Return two segments, the first of which computes some results and what they depend on;
    none if that is everything."""
    nodes = graph.nodes[len(graph.inputs) :]
    free = _copied_by_compile_split(nodes)
    early = set(graph_ancestors(results))
    first, rest = ([n for n in nodes if n not in free and (n in early) is e] for e in (True, False))
    # Results of one op stay together, so there may be nothing left
    segments = _compile_split_segments(graph, [first, rest], free) if first else []
    return segments if len(segments) == 2 else []


def _compile_split_segments(
    graph: Graph, parts: list[list[Node]], free: set[Node]
) -> list[CompileSplitSegment]:
    parts = _compile_split_with_results(parts)
    # The last segment computes outputs that are constant
    parts[-1] = [*parts[-1], *dict.fromkeys(y for y in graph.outputs if y in free)]
    used: set[Node] = set(graph.outputs)
    behind = _handed_instead(parts, used)
    made = []
    for part in reversed(parts):
        made.append(CompileSplitSegment(part, used, free, behind))
        used.update(made[-1].takes)
    return made[::-1]


def _compile_split_with_results(parts: list[list[Node]]) -> list[list[Node]]:
    """Move the results of ops with several to the part of their op, wherever they stand: only they
    can pass between parts. The order is still one in which nodes can be computed."""
    part_of = {n: i for i, part in enumerate(parts) for n in part}
    moved: list[list[Node]] = [[] for _ in parts]
    for i, part in enumerate(parts):
        for n in part:
            home = part_of.get(n.inputs[0], i) if isinstance(n.op, ResultSourceKind) else i
            moved[home].append(n)
    return [part for part in moved if part]


def _handed_instead(parts: list[list[Node]], outputs: set[Node]) -> dict[Node, Node]:
    """Return the values that pass between parts instead of rearrangements of them.

    A rearrangement that is handed over is written to memory; computed again by the part that reads
    it, it costs nothing. Views of a larger value stay, unless they are half of it together.
    """
    part_of = {n: i for i, part in enumerate(parts) for n in part}
    passing = {
        x: None for i, part in enumerate(parts) for n in part for x in n.inputs
        if part_of.get(x, i) != i
    }  # fmt: skip
    views: dict[Node, list[Node]] = {}
    for x in [x for x in passing if x not in outputs]:
        views.setdefault(_before_rearrangements(x), []).append(x)
    found = {}
    for source, rearranged in views.items():
        known = source in outputs or source not in part_of or source in rearranged
        if known or 2 * sum([x.type.nbytes for x in rearranged]) >= source.type.nbytes:
            found.update(dict.fromkeys(rearranged, source))
    return found


def _before_rearrangements(x: Node) -> Node:
    while isinstance(x.op, RearrangementKind):
        x = x.inputs[0]
    return x


def _copied_by_compile_split(nodes: Iterable[Node]) -> set[Node]:
    """Return the nodes that each segment copies: scalars, and what depends on no input."""
    found: set[Node] = set()
    for n in nodes:
        fixed = all(x in found and not _is_compile_split_scalar(x) for x in n.inputs)
        if _is_compile_split_scalar(n) or (fixed and not isinstance(n.op, DistinctKind)):
            found.add(n)
    return found


def _compile_split_cuts(order: list[Node]) -> list[int]:
    """Return where to cut: between repetitions, and within parts that are too long."""
    numbers: dict[tuple, int] = {}
    # Operands as a set: the order of commutative operands may differ between repetitions
    kinds = [(n.op, frozenset([x.type for x in n.inputs])) for n in order]
    tokens = [numbers.setdefault(kind, len(numbers)) for kind in kinds]
    cuts: list[int] = []
    for start, stop, period in _repeated_compile_split(
        tokens, list(map(_compile_split_weight, order))
    ):
        first = _first_compile_split_cut(order, start, stop, period)
        cuts += range(first, stop + 1, period)
    return _bounded_compile_split(sorted(set(cuts) - {0, len(order)}), order)


def _compile_split_weight(n: Node) -> int:
    """Return how much a node costs to compile: XLA emits code for each operand of a join."""
    return len(n.inputs) if len(n.inputs) > _MANY else 1


def _bounded_compile_split(cuts: list[int], order: list[Node]) -> list[int]:
    """Add cuts to the parts without repetition that are too long."""
    made, before = [], 0
    for cut in [*cuts, len(order)]:
        while cut - before > LONGEST:
            before += LONGEST
            while before < len(order) and isinstance(order[before].op, ResultSourceKind):
                before += 1  # results stay with their op
            made.append(before)
        made.append(cut)
        before = cut
    return made[:-1]


def _repeated_compile_split(
    tokens: list[int], weights: list[int]
) -> Iterable[tuple[int, int, int]]:
    """Yield the ranges (start, stop, period) in which the tokens repeat often enough."""
    following, count = _next_similar_compile_split(tokens), len(tokens)
    i = done = 0  # `done` is the end of the last range
    while i < count:
        j = following[i]
        if not j:
            i += 1
            continue
        period, start = j - i, i
        stop = next((k for k in range(j, count) if tokens[k] != tokens[k - period]), count)
        while start > done and tokens[start - 1] == tokens[start - 1 + period]:
            start -= 1
        together = _repetitions_per_compile_split(sum(weights[i:j]), (stop - start) // period)
        if together:
            yield start, stop, period * together
            i = done = stop
        else:
            i += 1


def _repetitions_per_compile_split(period: int, rounds: int) -> int:
    """Return how many repetitions make a segment, preferring divisors; 0 if it is not worth it."""
    fewest, most = -(-SHORTEST // period), max(1, rounds // FEWEST)
    if fewest > most or rounds < FEWEST:
        return 0
    if period < SHORTEST and period * rounds <= GOOD:
        return 0  # all of it is one good segment: an update of a hundred parameters
    count = max(fewest, min(most, GOOD // period))
    divisors = (c for c in range(count, max(fewest, count // 2) - 1, -1) if rounds % c == 0)
    return next(divisors, count)


def _next_similar_compile_split(tokens: list[int]) -> list[int]:
    """Return, for each position, the next one where the same tokens follow; 0 for none."""
    seen: dict[tuple[int, ...], int] = {}
    found = [0] * len(tokens)
    for i in range(len(tokens) - _WINDOW, -1, -1):
        key = tuple(tokens[i : i + _WINDOW])
        found[i] = seen.get(key, 0)
        seen[key] = i
    return found


def _first_compile_split_cut(order: list[Node], start: int, stop: int, period: int) -> int:
    """Return the first cut of a range: where the fewest values pass between repetitions."""
    rounds = (stop - start) // period
    best, chosen = None, start
    for cut in range(start, min(start + period, stop - period * (FEWEST - 1))):
        middle = cut + period * max(1, (rounds - 1) // 2)
        if isinstance(order[middle].op, ResultSourceKind):
            continue
        before = set(order[max(0, middle - period) : middle])
        after = order[middle : middle + period]
        passing = len({x for n in after for x in n.inputs if x in before})
        if best is None or passing < best:
            best, chosen = passing, cut
    return chosen
