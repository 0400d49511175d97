"""Derivatives and batches of a choice: each is again a choice, between transformed branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.errors import ArgumentError
from pullback.graph.graph import Graph, ancestors
from pullback.graph.node import vary_over
from pullback.ops.control.dependence import bits, dependence, positions
from pullback.ops.control.holder import brought, derivative, held, hold, may_fail
from pullback.ops.control.masked import borrowed, chosen, masked
from pullback.ops.control.residuals import residuals, size_in_bytes
from pullback.ops.control.varying import alike, axes_of
from pullback.ops.prelude import TABLE, Axis, Node, Type, results, zeros
from pullback.ops.sources import placeholder

if TYPE_CHECKING:
    from pullback.ops.control.cond import Choice


# -- reverse mode -------------------------------------------------------------------------------


class CondBackward(NamedTuple):
    """How a choice is pulled back: cotangents of the results `live` to those of operands
    `wanted`, through values that `forward` keeps after its own results."""

    live: list[int]
    wanted: list[int]
    forward: Choice
    used: list[int]  # operands that the backward branches need as they are
    backward: Choice
    extra: list[Node]  # what both take last: values that rules brought along


def pull_back(
    op: Choice, g: Any, out: Any, xs: Sequence[Node], need: Sequence[bool], gradients: Callable
) -> list[Node | None]:
    index, *operands = xs
    live = tuple([ct is not None for ct in g])
    needed = tuple(need[1:])
    plan: CondBackward | None = op.derived(
        ("vjp", needed, live), lambda: _plan(op, needed, live, gradients)
    )
    found: list[Node | None] = [None] * len(operands)
    if plan is None:
        return [None, *found]
    kept = () if plan.forward is op else results(plan.forward(*xs, *plan.extra))[len(out) :]
    seeds = [g[i] for i in plan.live]
    used = [operands[i] for i in plan.used]
    pulled = results(plan.backward(index, *seeds, *kept, *used, *plan.extra))
    for i, ct in zip(plan.wanted, pulled, strict=True):
        found[i] = ct
    return [None, *found]


class _Pulled(NamedTuple):
    """One branch with its gradient: `made` from `seeds`, what it has and what it must `keep`."""

    branch: Graph
    seeds: list[Node]
    made: list[Node]
    kept: list[Node]


def _plan(
    op: Choice, need: Sequence[bool], live: Sequence[bool], gradients: Callable
) -> CondBackward | None:
    first = op.branches[0]
    asked = bits(positions(need))
    arriving, reached = 0, 0
    for branch in op.branches:
        for i, mask in enumerate(dependence(branch)):
            if live[i] and mask & asked:
                arriving |= 1 << i
                reached |= mask & asked
    if not reached:
        return None
    seeded = [i for i in range(len(first.outputs)) if arriving >> i & 1]
    wanted = [i for i in range(len(first.inputs)) if reached >> i & 1]
    pulled = [_pulled(branch, seeded, wanted, gradients) for branch in op.branches]
    slots = _slots([[x.type for x in p.kept] for p in pulled])
    extra = _extra([(p.made, [*p.seeds, *p.branch.inputs]) for p in pulled])
    forward = op
    if slots.types:
        forward = type(op)(
            tuple([
                hold([*p.branch.inputs, *extra], [*p.branch.outputs, *slots.filled(k, p.kept)])
                for k, p in enumerate(pulled)
            ])
        )  # fmt: skip
    used = sorted({i for p in pulled for i in _used(p)})
    backward = [_backward(p, slots, k, used, extra) for k, p in enumerate(pulled)]
    return CondBackward(seeded, wanted, forward, used, type(op)(tuple(backward)), extra)


def _extra(parts: Sequence[tuple[Sequence[Node], Sequence[Node]]]) -> list[Node]:
    return list(dict.fromkeys(x for made, boundary in parts for x in brought(made, boundary)))


def _pulled(
    branch: Graph, seeded: Sequence[int], wanted: Sequence[int], gradients: Callable
) -> _Pulled:
    outputs = [branch.outputs[i] for i in seeded]
    seeds = [placeholder("g", y.type) for y in outputs]
    targets = [branch.inputs[i] for i in wanted]
    found = gradients(outputs, seeds, targets)
    made = [derivative(x, ct) for x, ct in zip(targets, found, strict=True)]
    kept = residuals(made, seeds, branch.inputs, size_in_bytes)
    return _Pulled(branch, seeds, made, kept)


def _used(p: _Pulled) -> list[int]:
    boundary = {*p.seeds, *p.kept, *p.branch.inputs}
    reached = set(ancestors(p.made, boundary.__contains__))
    return [i for i, x in enumerate(p.branch.inputs) if x in reached]


def _backward(
    p: _Pulled, slots: _Slots, k: int, used: Sequence[int], extra: Sequence[Node]
) -> Graph:
    inputs = [placeholder("kept", t) for t in slots.types]
    for at, x in zip(slots.places[k], p.kept, strict=True):
        inputs[at] = x
    return hold([*p.seeds, *inputs, *[p.branch.inputs[i] for i in used], *extra], p.made)


class _Slots(NamedTuple):
    """Where each branch puts the values it keeps: only one branch runs, so they share places."""

    types: list[Type]
    places: list[list[int]]

    def filled(self, k: int, kept: Sequence[Node]) -> list[Node]:
        made = [vary_over(zeros(t), t.varying) for t in self.types]
        for at, x in zip(self.places[k], kept, strict=True):
            made[at] = x
        return made


def _slots(kept: Sequence[Sequence[Type]]) -> _Slots:
    types: list[Type] = []
    places: list[list[int]] = []
    for branch in kept:
        taken: list[int] = []
        for t in branch:
            free = [i for i, slot in enumerate(types) if slot is t and i not in taken]
            if not free:
                free = [len(types)]
                types.append(t)
            taken.append(free[0])
        places.append(taken)
    return _Slots(types, places)


# -- forward mode -------------------------------------------------------------------------------


def push_forward(
    op: Choice, xs: Sequence[Node], ts: Sequence[Node | None], tangents: Callable
) -> tuple[Node | None, ...]:
    """One choice for values and tangents."""
    given = tuple([t is not None for t in ts[1:]])
    moving, choice, extra = op.derived(("jvp", given), lambda: _forward(op, given, tangents))
    count = len(op.branches[0].outputs)
    made = results(choice(*xs, *[t for t in ts[1:] if t is not None], *extra))
    found: list[Node | None] = [None] * count
    for k, i in enumerate(moving):
        found[i] = made[count + k]
    return tuple(found)


def _forward(
    op: Choice, given: Sequence[bool], tangents: Callable
) -> tuple[list[int], Choice, list[Node]]:
    mask = bits(positions(given))
    reached = 0
    for branch in op.branches:
        reached |= bits(positions(on & mask for on in dependence(branch)))
    moving = [i for i in range(len(op.branches[0].outputs)) if reached >> i & 1]
    parts = []
    for branch in op.branches:
        active = [x for x, there in zip(branch.inputs, given, strict=True) if there]
        ts = [placeholder("t", x.type) for x in active]
        outputs = [branch.outputs[i] for i in moving]
        found = tangents(outputs, active, ts)
        made = [derivative(y, t) for y, t in zip(outputs, found, strict=True)]
        parts.append(([*branch.outputs, *made], [*branch.inputs, *ts]))
    extra = _extra(parts)
    graphs = [hold([*inputs, *extra], made) for made, inputs in parts]
    return moving, type(op)(tuple(graphs)), extra


# -- batches ------------------------------------------------------------------------------------


def batch(
    op: Choice, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool], batched_graph: Callable
) -> tuple[Node, ...]:
    """The same branch for all examples, or every branch, of which each example takes its own."""
    key = ("batch", axis, tuple(mapped))
    if mapped[0]:
        refuse_collectives(op, () if axis.name is None else (axis.name,))
        branches = op.derived(key, lambda: _each_branch(op, axis, mapped, True, batched_graph))
        return _select(op, axis, xs, mapped, branches)
    branches = op.derived(key, lambda: _each_branch(op, axis, mapped, False, batched_graph))
    return results(type(op)(tuple(branches))(*xs))


def _each_branch(
    op: Choice, axis: Axis, mapped: Sequence[bool], every: bool, batched_graph: Callable
) -> list[Graph]:
    """The branches for all examples; a result that is mapped in one (or `every`) is in all."""
    asked = [every] * len(op.branches[0].outputs)
    for branch in op.branches:
        flags = batched_graph(branch, axis, mapped[1:], asked)[1]
        asked = [a or b for a, b in zip(asked, flags, strict=True)]
    graphs = [batched_graph(branch, axis, mapped[1:], asked)[0] for branch in op.branches]
    return [held(graph) for graph in alike(graphs, axes_of(graphs[0].inputs))]


def _select(
    op: Choice, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool], branches: Sequence[Graph]
) -> tuple[Node, ...]:
    index, *operands = xs
    index = op.checked(index)
    made: tuple[Node, ...] | None = None
    for k, branch in enumerate(branches):
        taken = op.takes(index, k)
        found = _run_for(taken, branch, operands, mapped[1:])
        if made is None:
            made = found
        else:
            made = tuple([chosen(taken, y, x) for x, y in zip(made, found, strict=True)])
    assert made is not None
    return made


def _run_for(
    taken: Node, branch: Graph, operands: Sequence[Node], mapped: Sequence[bool]
) -> tuple[Node, ...]:
    """A branch for all examples, where only those with `taken` count.

    If it may fail, the others run it on the operands of one that takes it, and it does not run at
    all if none does.
    """
    safe = may_fail(branch)
    lend = borrowed if safe else masked
    given = [lend(taken, x) if has else x for x, has in zip(operands, mapped, strict=True)]
    if not safe:
        return branch(*given)
    outputs = [placeholder("x", x.type) for x in given]
    nothing = hold(outputs, [derivative(y, None) for y in branch.outputs])
    any_taken = TABLE["Any"]((0,), False)(taken)
    return results(TABLE["Cond"]((nothing, branch))(any_taken, *given))


def refuse_collectives(op: Choice, axes: Sequence[str]) -> None:
    """Those that take a branch would wait for those that do not."""
    for a in axes:
        if a in op.communicates():
            raise ArgumentError(
                f"a branch communicates along axis {a!r}, but not every example along it takes "
                "that branch",
                hint="Communicate outside of the branches, and choose between the results.",
            )
