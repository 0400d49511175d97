"""Derivatives and batching of conditionals: each is a conditional of transformed branches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.errors import ArgumentError
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import node_varying_over
from pullback.ops.control import holder
from pullback.ops.control.dependence import (
    dependence_bits,
    dependence_members,
    dependence_positions,
    derivative_dependence,
)
from pullback.ops.control.holder import (
    canonical_holder_graph,
    hold,
    holder_at_positions,
    pull_held,
    push_through_holder,
)
from pullback.ops.control.masked_examples import (
    detach_masked,
    replace_masked_examples,
    select_masked_examples,
)
from pullback.ops.control.residuals import residual_bytes, residuals
from pullback.ops.control.varying import varying_alike_branches, varying_axes_of
from pullback.ops.prelude import TABLE, Axis, Node, Type, result_nodes, zeros
from pullback.ops.sources import placeholder

if TYPE_CHECKING:
    from pullback.ops.control.cond import CondChoice


class CondBackward(NamedTuple):
    """The reverse mode of a conditional: from cotangents of the results `live` to cotangents of the
    operands `wanted`, using values that `forward` returns after its own results."""

    live: list[int]
    wanted: list[int]
    forward: CondChoice
    used: list[int]  # operands that the backward branches need
    backward: CondChoice
    extra: list[Node]  # the last operands of both: values that rules captured


def cond_vjp(
    op: CondChoice, g: Any, out: Any, xs: Sequence[Node], need: Sequence[bool], gradients: Callable
) -> list[Node | None]:
    index, *operands = xs
    live = tuple([ct is not None for ct in g])
    needed = tuple(need[1:])
    key = ("vjp", needed, live)
    plan: CondBackward | None = op.derived(key, lambda: _plan_cond(op, needed, live, gradients))
    if plan is None:
        return [None] * len(xs)
    kept = () if plan.forward is op else result_nodes(plan.forward(*xs, *plan.extra))[len(out) :]
    seeds = [g[i] for i in plan.live]
    used = [operands[i] for i in plan.used]
    cotangents = result_nodes(plan.backward(index, *seeds, *kept, *used, *plan.extra))
    return [None, *holder_at_positions(len(operands), plan.wanted, cotangents)]


class _CondBranchGradient(NamedTuple):
    """One branch with its gradient: `cotangents` from `seeds`, inputs and `kept` values."""

    branch: Graph
    seeds: list[Node]
    cotangents: list[Node]
    kept: list[Node]

    @classmethod
    def of(
        cls, branch: Graph, live: Sequence[int], wanted: Sequence[int], gradients: Callable
    ) -> _CondBranchGradient:
        targets = [branch.inputs[i] for i in wanted]
        seeds, cotangents = pull_held([branch.outputs[i] for i in live], targets, gradients)
        kept = residuals(cotangents, seeds, branch.inputs, residual_bytes)
        return cls(branch, seeds, cotangents, kept)

    def used(self) -> list[int]:
        """Return the positions of the inputs that the backward branch needs."""
        boundary = {*self.seeds, *self.kept, *self.branch.inputs}
        reached = set(graph_ancestors(self.cotangents, boundary.__contains__))
        return [i for i, x in enumerate(self.branch.inputs) if x in reached]


def _plan_cond(
    op: CondChoice, need: Sequence[bool], live: Sequence[bool], gradients: Callable
) -> CondBackward | None:
    asked = dependence_bits(need)
    arriving, reached = 0, 0
    for branch in op.branches:
        for i, mask in enumerate(derivative_dependence(branch)):
            if live[i] and mask & asked:
                arriving |= 1 << i
                reached |= mask & asked
    if not reached:
        return None
    seeded, wanted = dependence_members(arriving), dependence_members(reached)
    branches = [_CondBranchGradient.of(branch, seeded, wanted, gradients) for branch in op.branches]
    extra = _captured_for_cond_rules(
        [(b.cotangents, [*b.seeds, *b.branch.inputs]) for b in branches]
    )
    used = sorted({i for b in branches for i in b.used()})
    # Only one branch runs, so that values of the same type share a slot.
    counts: Counter[Type] = Counter()
    for b in branches:
        counts |= Counter([x.type for x in b.kept])
    slots = list(counts.elements())
    forward, backward = [], []
    for b in branches:
        if slots:
            kept = _fill_cond_slots(slots, b.kept, lambda t: node_varying_over(zeros(t), t.varying))
            forward.append(hold([*b.branch.inputs, *extra], [*b.branch.outputs, *kept]))
        kept = _fill_cond_slots(slots, b.kept, lambda t: placeholder("kept", t))
        inputs = [*b.seeds, *kept, *[b.branch.inputs[i] for i in used], *extra]
        backward.append(hold(inputs, b.cotangents))
    make = type(op)
    keeping = make(tuple(forward)) if slots else op
    return CondBackward(seeded, wanted, keeping, used, make(tuple(backward)), extra)


def _fill_cond_slots(
    slots: Sequence[Type], values: Sequence[Node], default: Callable[[Type], Node]
) -> list[Node]:
    """Put values into slots of their types, and defaults into the others."""
    rest = list(values)
    filled = []
    for t in slots:
        found = next((i for i, x in enumerate(rest) if x.type is t), None)
        filled.append(default(t) if found is None else rest.pop(found))
    return filled


def _captured_for_cond_rules(parts: Sequence[tuple[Sequence[Node], Sequence[Node]]]) -> list[Node]:
    """Return the values captured by any of several graphs, given as outputs and inputs."""
    found = [x for outputs, inputs in parts for x in holder.held_captured_values(outputs, inputs)]
    return list(dict.fromkeys(found))


def cond_jvp(
    op: CondChoice, out: Any, xs: Sequence[Node], ts: Sequence[Node | None], tangents: Callable
) -> tuple[Node | None, ...]:
    """Compute values and tangents in one conditional."""
    given = tuple([t is not None for t in ts[1:]])
    moving, choice, extra = op.derived(("jvp", given), lambda: _cond_forward(op, given, tangents))
    count = len(op.branches[0].outputs)
    made = result_nodes(choice(*xs, *[t for t in ts[1:] if t is not None], *extra))
    return tuple(holder_at_positions(count, moving, made[count:]))


def _cond_forward(
    op: CondChoice, given: Sequence[bool], tangents: Callable
) -> tuple[list[int], CondChoice, list[Node]]:
    mask, reached = dependence_bits(given), 0
    for branch in op.branches:
        reached |= dependence_bits(on & mask for on in derivative_dependence(branch))
    moving = dependence_members(reached)
    parts = []
    for branch in op.branches:
        ts, made = push_through_holder(branch, dependence_positions(given), moving, tangents)
        parts.append(([*branch.outputs, *made.values()], [*branch.inputs, *ts.values()]))
    extra = _captured_for_cond_rules(parts)
    graphs = [hold([*inputs, *extra], outputs) for outputs, inputs in parts]
    return moving, type(op)(tuple(graphs)), extra


def batch_cond(
    op: CondChoice, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool], batched_graph: Callable
) -> tuple[Node, ...]:
    """Run one branch for all examples or, if indices are mapped, all branches, and select."""
    key = ("batch", axis, tuple(mapped))
    every = mapped[0]
    if every:
        refuse_cond_rule_collectives(op, () if axis.name is None else (axis.name,))
    branches = op.derived(
        key, lambda: _batched_cond_branches(op, axis, mapped, every, batched_graph)
    )
    if not every:
        return result_nodes(type(op)(tuple(branches))(*xs))
    index, operands = op.checked(xs[0]), xs[1:]
    made: tuple[Node, ...] | None = None
    for k, branch in enumerate(branches):
        active = op.selects(index, k)
        found = _run_branch_in_cond_rule(active, branch, operands, mapped[1:])
        if made is None:
            made = found
        else:
            pairs = zip(made, found, strict=True)
            made = tuple([select_masked_examples(active, y, x) for x, y in pairs])
    assert made is not None
    return made


def _batched_cond_branches(
    op: CondChoice, axis: Axis, mapped: Sequence[bool], every: bool, batched_graph: Callable
) -> list[Graph]:
    """Return batched branches; a result that is mapped in one (or `every`) is mapped in all."""
    asked = [every] * len(op.branches[0].outputs)
    for branch in op.branches:
        flags = batched_graph(branch, axis, mapped[1:], asked)[1]
        asked = [a or b for a, b in zip(asked, flags, strict=True)]
    graphs = [batched_graph(branch, axis, mapped[1:], asked)[0] for branch in op.branches]
    return [
        canonical_holder_graph(graph)
        for graph in varying_alike_branches(graphs, varying_axes_of(graphs[0].inputs))
    ]


def _run_branch_in_cond_rule(
    active: Node, branch: Graph, operands: Sequence[Node], mapped: Sequence[bool]
) -> tuple[Node, ...]:
    """Run a batched branch of which only `active` examples matter. If the branch may fail, the
    others run it on the operands of an active one, and it does not run at all if none is active."""
    fails = holder.held_may_fail(branch)
    guard = replace_masked_examples if fails else detach_masked
    given = [guard(active, x) if has else x for x, has in zip(operands, mapped, strict=True)]
    if not fails:
        return branch(*given)
    inputs = [placeholder("x", x.type) for x in given]
    nothing = hold(inputs, [holder.holder_derivative(y, None) for y in branch.outputs])
    any_active = TABLE["Any"]((0,), False)(active)
    return result_nodes(TABLE["Cond"]((nothing, branch))(any_active, *given))


def refuse_cond_rule_collectives(op: CondChoice, axes: Sequence[str]) -> None:
    """Raise if a branch communicates along an axis on which examples take different branches."""
    for a in axes:
        if a in op.communicates():
            raise ArgumentError(
                f"a branch communicates along axis {a!r}, but not every example along it takes "
                "that branch",
                hint="Communicate outside of the branches, and select between the results.",
            )
