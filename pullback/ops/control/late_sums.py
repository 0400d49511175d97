"""Sums over the iterations of a loop that nothing inside it reads: they are formed after it.

The gradient of a matrix that every iteration uses is such a sum, of one product of few rows for
each iteration. The loop returns the operands of these products as rows instead, and one product
over all rows follows. Only the lowering does this: a loop that users see has its sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pullback.graph.graph import Graph
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.ops.control.holder import hold, stacked_held_type
from pullback.ops.prelude import TABLE, Axis, Node, result_nodes
from pullback.ops.shape.movement import Transpose
from pullback.ops.sources import placeholder
from pullback.ops.traits import HasSumOverRows

if TYPE_CHECKING:
    from pullback.ops.control.scan import Scan


class LateSums(NamedTuple):
    """A loop without some of its sums, and the graph that forms them."""

    loop: Scan
    states: list[int]  # those that are left in the loop, by their positions among all
    sums: Graph  # from stacked rows to a sum for each of `summed`
    summed: list[int]  # states
    operands: list[int]  # rows that are operands of the loop, by position: the first inputs
    results: list[int]  # rows that are results of the loop, by position: the other inputs


def with_late_sums(op: Scan, xs: Sequence[Node]) -> list[Node] | None:
    """Return the results of a loop whose sums are formed after it; None if it has none."""
    plan: LateSums | None = op.derived("late sums", lambda: _plan_late_sums(op))
    if plan is None:
        return None
    kept, n = plan.states, op.carries
    made = result_nodes(plan.loop(*[xs[i] for i in kept], *xs[n:]))
    rows = [*[xs[i] for i in plan.operands], *[made[i] for i in plan.results]]
    totals = dict(zip(plan.summed, plan.sums(*rows), strict=True))
    found = dict(zip(kept, made, strict=False))
    states = [found.get(i, xs[i]) for i in range(n)]
    states = [x + totals[i] if i in totals else x for i, x in enumerate(states)]
    return [*states, *made[len(kept) : len(kept) + len(op.body.outputs) - n]]


def accumulated_terms(body: Graph, count: int) -> dict[int, list[Node]]:
    """Return what an iteration adds to those of `count` states that it uses for nothing else."""
    users: defaultdict[Node, list[Node | None]] = defaultdict(list)
    for node in body.nodes:
        for x in node.inputs:
            users[x].append(node)
    for y in body.outputs:
        users[y].append(None)
    found = {}
    for i in range(count):
        node, terms = body.inputs[i], []
        while len(users[node]) == 1 and (user := users[node][0]) and user.op is TABLE["Add"]():
            terms += [x for x in user.inputs if x is not node]
            node = user
        alone = node is body.outputs[i] and users[node] == [None]
        if terms and alone and all(t.type.plain is node.type.plain for t in terms):
            found[i] = terms
    return found


def _plan_late_sums(op: Scan) -> LateSums | None:
    body, n, m = op.body, op.carries, op.carries + op.scanned
    given = set(body.inputs[n:m])
    terms = {i: _addends(found) for i, found in accumulated_terms(body, n).items()}
    products = {
        i: found
        for i, found in terms.items()
        if all(isinstance(t.op, SumOfProductsKind) and _is_late_term(t, body, m) for t in found)
    }
    factors = [x for found in products.values() for t in found for x in t.inputs]
    rows = dict.fromkeys([_row_behind_view(x, given) for x in factors])
    new = [x for x in rows if x not in given and x not in body.outputs[n:]]
    if op.length < 2 or not _is_worthwhile(new, [body.outputs[i] for i in products], given):
        return None
    late = dict(products)
    for i, found in terms.items():  # of what is at hand then, other sums cost nothing
        at_hand = all(_row_behind_view(x, given) in rows for t in found for x in t.inputs)
        if i not in late and at_hand and all(_is_late_term(t, body, m) for t in found):
            late[i] = found
    return _late_sums(op, late, new, given)


def _addends(terms: Sequence[Node]) -> list[Node]:
    """Return the terms, and those of sums among them."""
    found: list[Node] = []
    stack = list(reversed(terms))
    while stack:
        t = stack.pop()
        if t.op is TABLE["Add"]() and all(x.type is t.type for x in t.inputs):
            stack += reversed(t.inputs)
        else:
            found.append(t)
    return found


def _is_late_term(term: Node, body: Graph, m: int) -> bool:
    """Whether terms can be summed over all iterations at once: each operand may be another row."""
    return isinstance(term.op, HasSumOverRows) and not set(body.inputs[m:]) & set(term.inputs)


def _is_worthwhile(new: Sequence[Node], sums: Sequence[Node], given: set[Node]) -> bool:
    """Writing new rows must cost less than adding to the sums, and not double the loop's memory."""
    rows = sum([x.type.nbytes for x in new])
    limits = sum([y.type.nbytes for y in sums]), sum([x.type.nbytes for x in given])
    return bool(sums) and rows <= min(limits)


def _late_sums(
    op: Scan, late: dict[int, list[Node]], new: Sequence[Node], given: set[Node]
) -> LateSums:
    body, n = op.body, op.carries
    states = [i for i in range(n) if i not in late]
    dropped = [x for i, x in enumerate(body.inputs) if i not in late]
    outputs = [*[body.outputs[i] for i in states], *body.outputs[n:], *new]
    loop = op.with_body(hold(dropped, outputs), len(states), op.scanned)
    stacks: dict[Node, Node] = {}

    def stacked(x: Node) -> Node:
        row = _row_behind_view(x, given)
        if row not in stacks:
            stacks[row] = placeholder("rows", stacked_held_type(row.type, op.length))
        return _views_of_all(x, row, stacks[row], Axis(op.length))

    totals = []
    for found in late.values():
        sums = [t.op.sum_over_rows(*map(stacked, t.inputs)) for t in found]  # type: ignore[attr-defined]
        totals.append(sum(sums[1:], sums[0]))
    operands = [i for i, x in enumerate(body.inputs) if x in given and x in stacks]
    made = [x for x in stacks if x not in given]
    inputs = [*[stacks[body.inputs[i]] for i in operands], *[stacks[x] for x in made]]
    results = [outputs.index(x, len(states)) for x in made]
    return LateSums(loop, states, hold(inputs, totals), list(late), operands, results)


def _row_behind_view(x: Node, given: set[Node]) -> Node:
    """Return the row that `x` is a transpose of, if it is one of the loop's operands; else `x`."""
    row = x
    while isinstance(row.op, Transpose):
        row = row.inputs[0]
    return row if row in given else x


def _views_of_all(x: Node, row: Node, stack: Node, axis: Axis) -> Node:
    """Return the rows of `stack` seen as `x` is of `row`."""
    if x is row:
        return stack
    return x.op.batch(axis, (_views_of_all(x.inputs[0], row, stack, axis),), [True])
