"""Reverse mode: gradients of outputs with respect to targets, through each op's vjp rule.

A node's rule runs once, after all its consumers on a path to a target have run. Contributions to
one value meet in `accumulate`, the only place where gradients are reduced and added.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

from pullback.errors import PullbackError
from pullback.graph.graph import by_number
from pullback.graph.native import native
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_kinds import Detached, HigherOrderKind, SparseCotangentsKind
from pullback.ops.prelude import TABLE, laid_out, sum_to, zeros
from pullback.transforms.call_rules import (
    call_rule_from,
    calling_rules,
    check_called_rule_cotangent,
    check_called_rule_nodes,
    is_any_type_inexact,
    is_result_node,
    logging_called_rules,
    require_call_rule,
)
from pullback.transforms.gradient_cache import GradientKey, Source

Contribution = tuple[int, int, Node]  # (number of the consumer, position among its operands, g)
Watcher = Callable[[Node, Sequence[Node | None]], None]


def gradients(
    outputs: Sequence[Node], seeds: Sequence[Node | None], targets: Sequence[Node]
) -> list[Node | None]:
    """Return the gradient of each target, `None` where no output depends on it.

    `seeds` are the cotangents of the outputs. A target does not cut the graph: gradients flow to
    it and through it.
    """
    reached = reverse_reach(outputs, targets)
    key = GradientKey(reached, outputs, seeds, targets)
    found = key.cached_gradients()
    if found is None:
        with logging_called_rules() as rules:
            found, sources = derive_in_reverse(reached, outputs, seeds, targets)
        key.store(found, sources, rules)
    return found


def derive_in_reverse(
    reached: Sequence[Node], outputs: Sequence[Node], seeds: Sequence[Node | None],
    targets: Sequence[Node], watch: Watcher | None = None,
) -> tuple[list[Node | None], list[Source]]:  # fmt: skip
    """Compute the gradients by calling rules; also return the nodes whose rules ran.

    `watch` is called with each of these nodes and the cotangents of its operands.
    """
    active = reverse_between(reached, targets)
    consumers = count_reverse_consumers(active)
    arrived: dict[Node, list[Contribution]] = {}
    for i, (y, seed) in enumerate(zip(outputs, seeds, strict=True)):
        if seed is not None and y in active:  # a seed is added after what consumers contribute
            arrived.setdefault(y, []).append((y.number, i, seed))
    wanted = set(targets)
    found: dict[Node, Node | None] = {}
    sources: list[Source] = []
    # Leaves never enter the queue. What arrived at them is summed at the end, in the order of the
    # targets, so that the result does not depend on when a leaf was made.
    inner = {n for n in active if not active.keys().isdisjoint(n.inputs)}
    ready = [(-n.number, n) for n in inner if not consumers[n]]
    heapq.heapify(ready)
    with calling_rules():
        while ready:
            node = heapq.heappop(ready)[1]
            sources.append(call_rule_from(node, backward=True))
            contributions = arrived.pop(node, None)
            if node in wanted:
                g = found[node] = _reverse_gradient(node, contributions or [])
                contributions = None if g is None else [(0, 0, g)]
            if contributions:
                pulled = pull_back(node, contributions, active)
                if watch is not None:
                    watch(node, pulled)
                deliver_reverse_cotangents(node, pulled, arrived)
            for x in node.inputs:
                if x in inner:
                    consumers[x] -= 1
                    assert consumers[x] >= 0, "a node ran before one of its consumers"
                    if not consumers[x]:
                        heapq.heappush(ready, (-x.number, x))
        for target in targets:
            if target not in found:
                sources.append(call_rule_from(target, backward=True))
                found[target] = _reverse_gradient(target, arrived.get(target, []))
    return [found[t] for t in targets], sources


def deliver_reverse_cotangents(
    node: Node, cotangents: Sequence[Node | None], arrived: dict[Node, list[Contribution]]
) -> None:
    """Add the cotangents of a node's operands to what arrived at them."""
    for i, (x, g) in enumerate(zip(node.inputs, cotangents, strict=True)):
        if g is not None:
            # one result of several contributes to the op's node at its own position
            at = node.op.index if isinstance(x.type, tuple) else i  # type: ignore[attr-defined]
            arrived.setdefault(x, []).append((node.number, at, g))


def reverse_path(outputs: Sequence[Node], targets: Sequence[Node]) -> dict[Node, None]:
    """The nodes on a path from an output to a target, in the order of recording."""
    return reverse_between(reverse_reach(outputs, targets), targets)


def reverse_reach(outputs: Sequence[Node], targets: Sequence[Node]) -> list[Node]:
    """The nodes that outputs depend on, in the order of recording.

    The walk stops at nodes recorded before the first target: they cannot depend on a target.
    """
    if native is not None:
        return native.reach([*outputs], [*targets])
    first = min([t.number for t in targets], default=math.inf)
    stack = [y for y in dict.fromkeys(outputs) if y.number >= first]
    seen = set(stack)
    for node in stack:  # grows while it is walked
        for x in node.inputs:
            if x.number >= first and x not in seen:
                seen.add(x)
                stack.append(x)
    return sorted(stack, key=by_number)


def reverse_between(reached: Sequence[Node], targets: Sequence[Node]) -> dict[Node, None]:
    """The nodes among `reached` through which a derivative flows to a target."""
    active: dict[Node, None] = {}
    goals = set(targets)
    for node in reached:
        if isinstance(node.op, Detached) and node not in goals:
            continue
        reaches = node in goals or not active.keys().isdisjoint(node.inputs)
        if reaches and is_any_type_inexact(node.type):
            active[node] = None
    return active


def count_reverse_consumers(active: dict[Node, None]) -> dict[Node, int]:
    """The number of edges from active nodes to each active node; `x + x` counts two."""
    counts = dict.fromkeys(active, 0)
    for node in active:
        for x in node.inputs:
            if x in counts:
                counts[x] += 1
    return counts


def accumulate(x: Node, contributions: list[Contribution]) -> Node | None:
    """The sum of what arrived at `x`, reduced to its shape.

    It is added in the order of the consumers, so that the result is reproducible.
    """
    total: Node | None = None
    if len(contributions) > 1:
        contributions = sorted(contributions, key=lambda c: (-c[0], c[1]))
    for _, _, g in contributions:
        if g.type is not x.type:
            g = sum_to(g, x.type)
        total = g if total is None else total + g
    return total


def _reverse_gradient(target: Node, contributions: list[Contribution]) -> Node | None:
    """The sum of what arrived at a target, in the target's layout on its mesh."""
    g = accumulate(target, contributions)
    return None if g is None else laid_out(g, target.type)


def pull_back(
    node: Node, contributions: list[Contribution], active: dict[Node, None]
) -> Sequence[Node | None]:
    """Call the node's vjp rule: one cotangent per operand, `None` where it is not needed."""
    if is_result_node(node):
        return [accumulate(node, contributions)]
    require_call_rule(node, "reverse-mode")
    need = [x in active for x in node.inputs]
    out: Any = node
    g: Any
    if isinstance(node.type, tuple):
        out = result_nodes(node)
        arrived = [[c for c in contributions if c[1] == i] for i in range(len(out))]
        found = [accumulate(r, cs) for r, cs in zip(out, arrived, strict=True)]
        if node.op.vjp is not None and not isinstance(node.op, SparseCotangentsKind):
            found = [zeros(r.type) if g is None else g for r, g in zip(out, found, strict=True)]
        g = tuple(found)
    else:
        g = accumulate(node, contributions)
    try:
        pulled = _apply_reverse_rule(node, g, out, need)
        check_called_rule_nodes(node, pulled, len(node.inputs), "cotangents", "operands")
        kept = [c if n else None for n, c in zip(need, pulled, strict=True)]
        for x, c in zip(node.inputs, kept, strict=True):
            if c is not None:
                check_called_rule_cotangent(node, x, c)
    except PullbackError as error:
        error.values["node"] = node  # lets callers say where in their program it is
        raise error.at(None, node.where) from None
    return kept


def _apply_reverse_rule(node: Node, g: Any, out: Any, need: list[bool]) -> Sequence[Node | None]:
    rule = node.op.vjp
    if rule is not None:
        transforms = (gradients,) if isinstance(node.op, HigherOrderKind) else ()
        return rule(g, out, node.inputs, need, *transforms)
    # A composite without a rule of its own: differentiate its expansion.
    xs = [TABLE["Alias"]()(x) for x in node.inputs]
    made = node.op.expand(*xs)  # type: ignore[attr-defined]
    ys = made if isinstance(made, tuple) else (made,)
    gs = g if isinstance(g, tuple) else (g,)
    pulled = iter(gradients(ys, gs, [x for x, n in zip(xs, need, strict=True) if n]))
    return [next(pulled) if n else None for n in need]
