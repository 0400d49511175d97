"""Derivatives and batching of a scan: each is a scan of a transformed body.

Reverse mode runs the loop backward. Cotangents of constants are carried like the state, so that
their contributions are summed by the same code as all gradients. Values that the backward loop
needs are further stacked results of the forward loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.graph.graph import Graph, graph_ancestors
from pullback.ops.control.dependence import (
    dependence_active_inputs,
    dependence_bits,
    dependence_live_outputs,
    dependence_members,
    dependence_sources,
    derivative_dependence,
)
from pullback.ops.control.holder import (
    canonical_holder_graph,
    held_captured_values,
    hold,
    holder_at_positions,
    interleave_held,
    pull_held,
    push_through_holder,
)
from pullback.ops.control.residuals import residual_bytes, residuals
from pullback.ops.control.varying import varying_axes_of, varying_stable_body
from pullback.ops.prelude import TABLE, Axis, Node, result_nodes, spread, zeros

if TYPE_CHECKING:
    from pullback.ops.control.scan import Scan


class ScanBackward(NamedTuple):
    """The reverse mode of a scan, by positions of operands that get a cotangent (`state`, `rows`,
    `constants`) and of row results that have one (`emitted`)."""

    state: list[int]
    rows: list[int]
    constants: list[int]
    emitted: list[int]
    forward: Scan  # with the values to keep among its results
    extra: list[Node]  # its last operands: values that rules captured
    kept: list[int]  # results of `forward` that are rows of the backward loop
    hoisted: Graph | None  # from the constants to values that are the same in every iteration
    used: list[int]  # rows and constants that the backward loop needs
    backward: Scan


def scan_vjp(
    op: Scan, g: Any, out: Any, xs: Sequence[Node], need: Sequence[bool], gradients: Callable
) -> list[Node | None]:
    live = tuple([ct is not None for ct in g])
    need = tuple(need)
    key = ("vjp", need, live)
    plan: ScanBackward | None = op.derived(key, lambda: _plan_scan_rule(op, need, live, gradients))
    if plan is None:
        return [None] * len(xs)
    made = out if plan.forward is op else result_nodes(plan.forward(*xs, *plan.extra))
    hoisted = plan.hoisted(*op.split(xs)[2]) if plan.hoisted is not None else ()
    operands = [
        *[zeros(xs[i].type) if g[i] is None else g[i] for i in plan.state],
        *[zeros(xs[i].type) for i in plan.constants],
        *[g[i] for i in plan.emitted],
        *[made[i] for i in plan.kept],
        *[xs[i] for i in plan.used],
        *hoisted,
    ]
    wanted = [*plan.state, *plan.constants, *plan.rows]
    return holder_at_positions(len(xs), wanted, result_nodes(plan.backward(*operands)))


def _plan_scan_rule(
    op: Scan, need: Sequence[bool], live: Sequence[bool], gradients: Callable
) -> ScanBackward | None:
    body, n, m = op.body, op.carries, op.carries + op.scanned
    depends = derivative_dependence(body)
    active = dependence_active_inputs(depends, n, dependence_bits(need))
    seeded = dependence_live_outputs(depends, n, dependence_bits(live)) & dependence_bits(
        mask & active for mask in depends
    )
    reached = dependence_sources(depends, seeded)
    # A state has a cotangent after an iteration or before one, perhaps only before the first.
    state = [i for i in dependence_members(seeded | active & reached) if i < n]
    wanted = [i for i in dependence_members(reached) if i >= n and need[i]]
    rows, constants = [i for i in wanted if i < m], [i for i in wanted if i >= m]
    emitted = [i for i in dependence_members(seeded) if i >= n]
    if not state and not wanted:
        return None

    outputs = [
        *[body.outputs[i] for i in state],
        *[body.inputs[i] for i in constants],
        *[body.outputs[i] for i in emitted],
    ]
    targets = [body.inputs[i] for i in [*state, *constants, *rows]]
    seeds, cotangents = pull_held(outputs, targets, gradients)
    stacked, constant, used = _kept_by_scan_rule(op, cotangents, seeds)
    # A value that is a result already is not kept a second time.
    made = [*body.outputs, *[x for x in stacked if x not in body.outputs[n:]]]
    kept = [made.index(x, n) for x in stacked]
    forward, extra = op, held_captured_values(made, body.inputs)
    if len(made) > len(body.outputs):
        forward = op.with_body(hold([*body.inputs, *extra], made), n, op.scanned)
    inputs = [*seeds, *stacked, *[body.inputs[i] for i in used], *constant]
    scanned = len(emitted) + len(stacked) + sum(i < m for i in used)
    carries = len(state) + len(constants)
    backward = op.with_body(hold(inputs, cotangents), carries, scanned, flip=True)
    hoisted = hold(body.inputs[m:], constant) if constant else None
    return ScanBackward(
        state, rows, constants, emitted, forward, extra, kept, hoisted, used, backward
    )


def _kept_by_scan_rule(
    op: Scan, cotangents: Sequence[Node], seeds: Sequence[Node]
) -> tuple[list[Node], list[Node], list[int]]:
    """Return what the backward loop needs: values of each iteration, values that are the same in
    all, and positions of rows and constants."""
    body, n = op.body, op.carries
    known = body.inputs[n:]
    changing = set(body.inputs[: n + op.scanned])
    for node in graph_ancestors([*cotangents, *body.outputs]):
        if not changing.isdisjoint(node.inputs):
            changing.add(node)
    kept = residuals(cotangents, seeds, known, lambda x: residual_bytes(x) if x in changing else 1)
    boundary = {*seeds, *kept, *known}
    reached = set(graph_ancestors(cotangents, boundary.__contains__))
    used = [i for i, x in enumerate(body.inputs) if i >= n and x in reached]
    return [x for x in kept if x in changing], [x for x in kept if x not in changing], used


def scan_jvp(
    op: Scan, out: Any, xs: Sequence[Node], ts: Sequence[Node | None], tangents: Callable
) -> tuple[Node | None, ...]:
    """Compute values and tangents in one loop."""
    given = tuple([t is not None for t in ts])
    forward = op.derived(("jvp", given), lambda: _scan_forward(op, given, tangents))
    active, moving, loop, extra = forward
    pushed = {i: ts[i] or zeros(xs[i].type) for i in active}
    both = interleave_held(xs, pushed, op.carries, op.carries + op.scanned)
    made = result_nodes(loop(*both, *extra))
    # The results are interleaved as well: states, their tangents, rows, their tangents.
    n, count = op.carries, len(op.body.outputs)
    found = [made[n + k] if i < n else made[count + k] for k, i in enumerate(moving)]
    return tuple(holder_at_positions(count, moving, found))


def _scan_forward(
    op: Scan, given: Sequence[bool], tangents: Callable
) -> tuple[list[int], list[int], Scan, list[Node]]:
    """Return the inputs and outputs of the body that have tangents, the loop over both, and the
    values that rules captured, its last operands."""
    body, n, m = op.body, op.carries, op.carries + op.scanned
    depends = derivative_dependence(body)
    mask = dependence_active_inputs(depends, n, dependence_bits(given))
    active = dependence_members(mask)
    # A state has a tangent before an iteration if and only if it has one after it.
    moving = [i for i, on in enumerate(depends) if (i in active if i < n else on & mask)]
    ts, made = push_through_holder(body, active, moving, tangents)
    carries = n + sum(i < n for i in active)
    scanned = op.scanned + sum(n <= i < m for i in active)
    inputs = interleave_held(body.inputs, ts, n, m)
    outputs = interleave_held(body.outputs, made, n)
    extra = held_captured_values(outputs, inputs)
    both = hold([*inputs, *extra], outputs)
    return active, moving, op.with_body(both, carries, scanned), extra


def batch_scan(
    op: Scan, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool], batched_graph: Callable
) -> tuple[Node, ...]:
    """Run all examples in each iteration; a state mapped in any iteration is mapped in all."""
    key = ("batch", axis, tuple(mapped))
    loop, has_axis, flags = op.derived(key, lambda: _batched_scan(op, axis, mapped, batched_graph))
    n, m = op.carries, op.carries + op.scanned
    operands = []
    for i, (x, had, has) in enumerate(zip(xs, mapped, has_axis, strict=True)):
        x = spread(x, axis) if has and not had else x
        operands.append(_scan_axes_swapped(x) if has and n <= i < m else x)
    made = result_nodes(loop(*operands))
    pairs = enumerate(zip(made, flags, strict=True))
    return tuple([_scan_axes_swapped(y) if has and i >= n else y for i, (y, has) in pairs])


def _batched_scan(
    op: Scan, axis: Axis, mapped: Sequence[bool], batched_graph: Callable
) -> tuple[Scan, list[bool], list[bool]]:
    n = op.carries
    has_axis = list(mapped)
    while True:
        asked = [*has_axis[:n], *[False] * (len(op.body.outputs) - n)]
        graph, flags = batched_graph(op.body, axis, has_axis, asked)
        if flags[:n] == has_axis[:n]:
            body = canonical_holder_graph(
                varying_stable_body(graph, varying_axes_of(graph.inputs), n)
            )
            return op.with_body(body, n, op.scanned), has_axis, flags
        has_axis[:n] = flags[:n]


def _scan_axes_swapped(x: Node) -> Node:
    """Swap the first two dimensions."""
    return TABLE["Transpose"]((1, 0, *range(2, x.type.rank)))(x)
