"""Find the formulas of fused ops in a program, and their gradients; put the fused ops in place.

A `Spelling` is a formula over its operands. It is written down as a small graph, the template, for
the types at hand, and the template is laid over the program: ops must be the same, operands of the
formula may be any nodes. What reverse mode makes of the formula is a second template, which nobody
has to write: its nodes start from the nodes that the first one was found at, and the cotangent.
Both are canonical, as the program is, so equal computations are equal nodes.

A formula is replaced only if nothing else uses its intermediate values: they would be computed
twice. Gradients of a value that has other uses are added up in some order; `_recognition_sum_with`
finds the sum that contains all addends of the template's gradient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from pullback.graph.canonical import canonicalise
from pullback.graph.graph import Graph, by_number
from pullback.graph.node import Node
from pullback.graph.op_kinds import InputSourceKind
from pullback.ops.fused.spelling import SPELLINGS, Operands, Spelling
from pullback.ops.prelude import TABLE
from pullback.transforms.call_rules import is_any_type_inexact
from pullback.transforms.replacement import with_replacements
from pullback.transforms.reverse import derive_in_reverse, reverse_reach

Binding = dict[Node, Node]  # from nodes of a template to nodes of the program
_DEEPEST = 32  # sums between the addends of a gradient and the sum that contains all of them


def recognised(graph: Graph, platform: str) -> tuple[Graph, dict[Node, Node]]:
    """Return the program with the platform's fused ops, and the old node of each that was kept."""
    origins: dict[Node, Node] = {}
    known = [s for s in SPELLINGS if platform in s.platforms]
    program = _RecognitionIndex(graph)
    for stage in sorted({s.stage for s in known}):
        graph, moved = _recognised_replaced(program, [s for s in known if s.stage == stage])
        if graph is not program.graph:
            program = _RecognitionIndex(graph)
        origins = {new: origins.get(old, old) for new, old in moved.items()} if moved else origins
    return graph, origins


def _recognised_replaced(
    program: _RecognitionIndex, spellings: Sequence[Spelling]
) -> tuple[Graph, dict[Node, Node]]:
    found: dict[Node, Node] = {}
    for spelling in spellings:
        for match in _recognition_matches(spelling, program):
            found |= match
    return with_replacements(program.graph, found) if found else (program.graph, {})


class _RecognitionIndex:
    """A canonical program: who uses a node, and which nodes apply an op."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.outputs = graph, set(graph.outputs)
        self.users: dict[Node, list[Node]] = {}
        self.by_op: dict[object, list[Node]] = {}
        self.by_class: dict[type, list[Node]] = {}
        self.taken: set[Node] = set()  # intermediate values of formulas that are replaced
        for node in graph.nodes:
            self.by_op.setdefault(node.op, []).append(node)
            self.by_class.setdefault(type(node.op), []).append(node)
            for x in node.inputs:
                self.users.setdefault(x, []).append(node)

    def leaks(self, inner: set[Node], known: set[Node]) -> bool:
        """Whether a value of `inner` is needed by other nodes than the known ones."""
        return any(n in self.outputs or not known.issuperset(self.users.get(n, ())) for n in inner)


@dataclass
class _RecognitionTemplate:
    """A formula as a canonical graph, and what reverse mode makes of it."""

    operands: tuple[Node, ...]
    result: Node
    cotangent: Node | None = None
    gradients: list[Node | None] = field(default_factory=list)
    # Gradients of the cotangent alone, such as its sum. They occur in many programs, so they are
    # looked for once the cotangent is known.
    unspecific: set[int] = field(default_factory=set)


def _recognition_matches(
    spelling: Spelling, program: _RecognitionIndex
) -> Iterator[dict[Node, Node]]:
    """Yield replacements for each place at which the formula, and maybe its gradient, is found."""
    for found, node, template in _recognition_candidates(spelling, program):
        for bound in _recognition_embedded(template.result, node, {}):
            made = _recognition_replacement(found, template, bound, program)
            if made is not None:
                yield made
                break


def _recognition_candidates(
    spelling: Spelling, program: _RecognitionIndex
) -> Iterator[tuple[Spelling, Node, _RecognitionTemplate]]:
    for node in program.by_class.get(spelling.last, ()):
        for given in spelling.operands(node):
            found, types = given if isinstance(given[0], Spelling) else (spelling, given)
            template = _recognition_template(found, types)
            if template.result.op is node.op and node not in program.taken:
                yield found, node, template


@lru_cache(maxsize=256)
def _recognition_template(spelling: Spelling, types: Operands) -> _RecognitionTemplate:
    operands = [TABLE["Input"](f"x{i}", t.shape, t.dtype)() for i, t in enumerate(types)]
    result = spelling.formula(*operands)
    g = TABLE["Input"]("g", result.type.shape, result.type.dtype)()
    targets = _recognised_operands(spelling, operands, g)
    if not targets:
        made = _normalised_for_recognition(Graph(operands, [result]), spelling)
        return _RecognitionTemplate(made.inputs, made.outputs[0])
    pulled, _ = derive_in_reverse(reverse_reach([result], targets), [result], [g], targets)
    kept = [y for y in pulled if y is not None]
    made = _normalised_for_recognition(Graph([*operands, g], [result, *kept]), spelling)
    rest = iter(made.outputs[1:])
    by_target = {x: None if y is None else next(rest) for x, y in zip(targets, pulled, strict=True)}
    found = [by_target.get(x) for x in operands]
    formula = {made.outputs[0], *made.inputs[:-1]}
    unspecific = {
        i for i, y in enumerate(found) if y is not None and formula.isdisjoint(Graph([], [y]).nodes)
    }
    return _RecognitionTemplate(
        made.inputs[:-1], made.outputs[0], made.inputs[-1], found, unspecific
    )


def _recognised_operands(spelling: Spelling, operands: Sequence[Node], g: Node) -> list[Node]:
    """Return the operands that the fused op gives cotangents of.

    Others are left out of the template: with their gradients, formulas within it would not be
    found, since these do not give them either. A program that needs them keeps its formula.
    """
    able = [x for x in operands if is_any_type_inexact(x.type)]
    if spelling.pull is None or not able:
        return []
    fused = spelling.fused(*operands)
    if fused is None:  # for these nodes, but maybe not for those of a program
        return able
    pulled = spelling.pull(g, fused, *operands)
    return [x for x, y in zip(operands, pulled, strict=True) if x in able and y is not None]


def _normalised_for_recognition(graph: Graph, spelling: Spelling) -> Graph:
    """Return a template as programs are when they are searched for it."""
    graph = canonicalise(graph)
    earlier = [s for s in SPELLINGS if s.stage < spelling.stage]
    for stage in sorted({s.stage for s in earlier}):
        spellings = [s for s in earlier if s.stage == stage]
        graph = canonicalise(_recognised_replaced(_RecognitionIndex(graph), spellings)[0])
    return graph


def _recognition_embedded(t: Node, p: Node, bound: Binding) -> Iterator[Binding]:
    """Yield the ways to lay the template that ends in `t` over the program that ends in `p`."""
    if t in bound:
        if bound[t] is p:
            yield bound
    elif isinstance(t.op, InputSourceKind):
        if _recognised_alike(t, p):
            yield {**bound, t: p}
    elif t.op is p.op and len(t.inputs) == len(p.inputs) and _recognised_alike(t, p):
        yield from _recognition_all_embedded(t.inputs, p.inputs, {**bound, t: p})
        if t.op.commutative:
            yield from _recognition_all_embedded(t.inputs, p.inputs[::-1], {**bound, t: p})


def _recognition_all_embedded(
    ts: Sequence[Node], ps: Sequence[Node], bound: Binding
) -> Iterator[Binding]:
    if not ts:
        yield bound
        return
    for first in _recognition_embedded(ts[0], ps[0], bound):
        yield from _recognition_all_embedded(ts[1:], ps[1:], first)


def _recognised_alike(t: Node, p: Node) -> bool:
    """Whether two nodes have the same shapes and dtypes, on whatever devices."""
    return t.type is p.type or _recognised_types(t) == _recognised_types(p)


def _recognised_types(node: Node) -> object:
    types = node.type if isinstance(node.type, tuple) else (node.type,)
    return [(t.shape, t.dtype) for t in types]


def _recognised_above(t: Node, bound: Binding, program: _RecognitionIndex) -> Sequence[Node]:
    """Return the nodes that a node of a template may be found at.

    They are reached from a node that is already found and that `t` is computed from. Only if there
    is none are they all nodes of the program that apply the op: deep programs have many.
    """
    way = _recognition_way(t, bound, program)
    if way is None:
        return program.by_op.get(t.op, ())
    found = {bound[way[-1]]}
    for step in way[-2::-1]:
        found = {u for x in found for u in program.users.get(x, ()) if u.op is step.op}
    return sorted(found, key=by_number)


def _recognition_way(t: Node, bound: Binding, program: _RecognitionIndex) -> list[Node] | None:
    """Return the way from a node of a template to the found one with the fewest users."""
    above: dict[Node, Node] = {}
    seen, ends = [t], []
    for node in seen:  # grows while iterated
        if node in bound:
            ends.append(node)
            continue
        for x in node.inputs:
            if x not in above:
                above[x] = node
                seen.append(x)
    if not ends:
        return None
    way = [min(ends, key=lambda x: len(program.users.get(bound[x], ())))]
    while way[-1] is not t:
        way.append(above[way[-1]])
    return way[::-1]


def _recognition_replacement(
    spelling: Spelling, template: _RecognitionTemplate, bound: Binding, program: _RecognitionIndex
) -> dict[Node, Node] | None:
    """Return what replaces the formula's result and gradients; None if it should stay."""
    operands = [bound[x] for x in template.operands if x in bound]
    fused = spelling.fused(*operands) if len(operands) == len(template.operands) else None
    if fused is None:
        return None
    places = {bound[template.result]: fused}
    embedded, cotangents = set(bound.values()), set()
    for g, nodes, sums in _recognised_gradients(template, bound, program):
        assert spelling.pull is not None  # the template has gradients
        for y, total in zip(spelling.pull(g, fused, *operands), sums, strict=True):
            if total is not None:
                if y is None:
                    return None
                places[total.node] = total.with_addend(y)
                embedded |= {total.node, *total.between}
        embedded |= nodes
        cotangents.add(g)
    inner = {n for n in embedded.difference(operands, places, cotangents) if n.inputs}
    if program.leaks(inner, embedded) or not program.taken.isdisjoint(inner):
        return None
    program.taken |= inner | set(places)
    return places


@dataclass
class _RecognitionSum:
    """A sum of the program that contains the addends of a gradient, and maybe others."""

    node: Node
    others: list[Node]
    between: set[Node]  # sums of some of the addends

    def with_addend(self, y: Node) -> Node:
        for x in self.others:
            y = x + y
        return y


def _recognised_gradients(
    template: _RecognitionTemplate, bound: Binding, program: _RecognitionIndex
) -> Iterator[tuple[Node, set[Node], list[_RecognitionSum | None]]]:
    """Lay the gradients over the program, as far as it computes them: once for each cotangent."""
    seen: set[Node] = set()
    while template.cotangent is not None:
        made, sums = bound, list[_RecognitionSum | None]([None] * len(template.gradients))
        for i in sorted(range(len(sums)), key=lambda i: i in template.unspecific):
            gradient = template.gradients[i]
            if gradient is None or (i in template.unspecific and template.cotangent not in made):
                continue
            found = _recognition_sum(gradient, template.cotangent, made, seen, program)
            made, sums[i] = found or (made, None)
        g = made.get(template.cotangent)
        if g is None:
            return
        seen.add(g)
        yield g, set(made.values()), sums


def _recognition_sum(
    gradient: Node, cotangent: Node, bound: Binding, seen: set[Node], program: _RecognitionIndex
) -> tuple[Binding, _RecognitionSum] | None:
    """Find the addends of a gradient, of a cotangent not `seen`, and the sum that has them all."""
    # The cotangent may be a term itself; it is known once another term is found.
    addends = sorted(
        _recognition_addends(gradient), key=lambda x: isinstance(x.op, InputSourceKind)
    )
    for p in _recognised_above(addends[0], bound, program):
        for made in _recognition_embedded(addends[0], p, bound):
            if made.get(cotangent) in seen:
                continue
            everything = _all_recognised(addends[1:], made, program)
            if everything is None:
                continue
            total = _recognition_sum_with([everything[x] for x in addends], program)
            if total is not None:
                return everything, total
    return None


def _all_recognised(
    ts: Sequence[Node], bound: Binding, program: _RecognitionIndex
) -> Binding | None:
    """Find nodes for the other addends, once operands and cotangent are known."""
    for t in ts:
        if t in bound:
            continue
        found = None
        for p in _recognised_above(t, bound, program):
            found = next(_recognition_embedded(t, p, bound), None)
            if found is not None:
                break
        if found is None:
            return None
        bound = found
    return bound


def _recognition_addends(node: Node, since: int = 0, whole: Collection[Node] = ()) -> list[Node]:
    """Return the terms of a sum; other nodes are a sum of one term, and so are earlier sums.

    Sums from before the number `since` have no later terms. Many layers may have added to them. The
    `whole` terms may be sums themselves.
    """
    terms, stack = [], [node]
    while stack:
        x = stack.pop()
        if x.number >= since and _is_recognition_sum(x) and x not in whole:
            stack.extend(reversed(x.inputs))
        else:
            terms.append(x)
    return terms


def _is_recognition_sum(node: Node) -> bool:
    return type(node.op) is TABLE["Add"] and all(x.type == node.type for x in node.inputs)


def _recognition_sum_with(terms: list[Node], program: _RecognitionIndex) -> _RecognitionSum | None:
    """Return the smallest sum that contains all terms, each as often as it occurs among them."""
    if len(terms) == 1:
        return _RecognitionSum(terms[0], [], set())
    found = (_recognition_sum_above(x, terms, program) for x in dict.fromkeys(terms))
    return next((total for total in found if total is not None), None)


def _recognition_sum_above(
    node: Node, terms: list[Node], program: _RecognitionIndex
) -> _RecognitionSum | None:
    """Follow a term to the sum of all terms, as long as one sum uses it."""
    since = min([t.number for t in terms])
    for _ in range(_DEEPEST):
        users = [u for u in program.users.get(node, ()) if _is_recognition_sum(u)]
        if len(set(users)) != 1:
            return None
        node = users[0]
        present = _recognition_addends(node, since, terms)
        if all(present.count(t) >= terms.count(t) for t in terms):
            return _recognised_apart(node, terms)
    return None


def _recognised_apart(node: Node, terms: list[Node]) -> _RecognitionSum:
    """Split a sum into the terms and what it adds to them. Sums without any of them stay whole."""
    left, made, stack = list(terms), _RecognitionSum(node, [], set()), [node]
    since = min([t.number for t in terms])
    while stack:
        x = stack.pop()
        if x in left:
            left.remove(x)
        elif _is_recognition_sum(x) and not set(terms).isdisjoint(
            _recognition_addends(x, since, terms)
        ):
            made.between.add(x)
            stack.extend(reversed(x.inputs))
        else:
            made.others.append(x)
    return made
