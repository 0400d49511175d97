"""Good solutions without search: the cheapest choice for each group in turn, given the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pullback.graph.node import Node
from pullback.sharding.auto.groups import GroupChoice, GroupClaim, Groups, LayoutGroup
from pullback.sharding.spec import Dims

SWEEPS = 8  # the most passes over all groups

Solution = dict[LayoutGroup, GroupChoice]


def greedy_from_inputs(
    groups: Groups, inputs: Sequence[Dims], cost: Callable[[GroupChoice], float]
) -> list[Solution]:
    """Return two solutions: inputs fixed to the given layouts, and inputs only initialised so."""
    fixed = {}
    for x, dims in zip(groups.graph.inputs, inputs, strict=True):
        group = groups.of[x]
        fixed[group] = next(c for c in group.choices if c.layouts[x] == dims)
    solution = improve_greedily(groups, fixed, cost, fixed)
    return [solution, improve_greedily(groups, solution, cost)]


def improve_greedily(
    groups: Groups,
    start: Solution,
    cost: Callable[[GroupChoice], float],
    fixed: Solution | None = None,
) -> Solution:
    """Give each group its cheapest choice until nothing changes.

    `cost` is that of a choice alone, without moves between groups.
    """
    solution = dict(start)
    users = _greedy_users(groups)
    for _ in range(SWEEPS):
        before = dict(solution)
        for group in [g for g in groups.groups if fixed is None or g not in fixed]:
            found = [solution[g] for g in users[group] if g in solution]
            asked = dict.fromkeys([a for c in found for a in c.asks if groups.of[a[0]] is group])
            choices = _greedy_choices(groups, solution, group, found)
            costs = [cost(c) + _greedy_move_seconds(groups, solution, c, asked) for c in choices]
            solution[group] = choices[costs.index(min(costs))]
        if solution == before:
            break
    return solution


def _greedy_users(groups: Groups) -> dict[LayoutGroup, list[LayoutGroup]]:
    """Return, for each group, the groups that may ask for its values."""
    found: dict[LayoutGroup, dict[LayoutGroup, None]] = {g: {} for g in groups.groups}
    for group in groups.groups:
        for x, _ in [ask for c in group.choices for ask in c.asks]:
            found[groups.of[x]][group] = None
    return {group: list(users) for group, users in found.items()}


def _greedy_choices(
    groups: Groups, solution: Solution, group: LayoutGroup, users: Sequence[GroupChoice]
) -> list[GroupChoice]:
    """Return the choices of a group that are consistent with the others, or all if none is."""
    found, trial = [], dict(solution)
    for c in group.choices:
        trial[group] = c
        if all(_greedy_choice_consistent(groups, trial, other) for other in (c, *users)):
            found.append(c)
    return found or group.choices


def _greedy_choice_consistent(groups: Groups, solution: Solution, choice: GroupChoice) -> bool:
    """Return whether operands are split along all that a choice claims and nothing it ignores."""

    def split(claim: GroupClaim) -> bool:
        return any(claim.axis in solution[groups.of[x]].layouts[x][d] for x, d in claim.places)

    return all(map(split, choice.claims)) and not any(map(split, choice.ignores))


def _greedy_move_seconds(
    groups: Groups, solution: Solution, choice: GroupChoice, asked: Iterable[tuple[Node, Dims]]
) -> float:
    """Return the seconds to move the operands of a choice, and its values to other groups."""
    total = 0.0
    for x, dims in choice.asks:
        source = solution.get(groups.of[x])
        if source is not None:
            total += groups.price(x.type.plain, source.layouts[x], dims)
    for x, dims in asked:
        total += groups.price(x.type.plain, choice.layouts[x], dims)
    return total
