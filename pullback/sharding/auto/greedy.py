"""Good solutions without search: what is cheapest at each group in turn, given the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.sharding.auto.groups import Claim, Groups, LayoutChoice, LayoutGroup
from pullback.sharding.spec import Dims

SWEEPS = 8  # through all groups, at most

Taken = dict[int, LayoutChoice]  # by the identity of a group


def from_inputs(
    groups: Groups, inputs: Sequence[Dims], cost: Callable[[LayoutChoice], float]
) -> list[Taken]:
    """A solution where the inputs lie as is said, and one where they began so."""
    fixed = {}
    for x, dims in zip(groups.graph.inputs, inputs, strict=True):
        group = groups.of[x]
        fixed[id(group)] = next(c for c in group.choices if c.lies[x] == dims)
    settled = settle(groups, fixed, cost, fixed)
    return [settled, settle(groups, settled, cost)]


def settle(
    groups: Groups, start: Taken, cost: Callable[[LayoutChoice], float], fixed: Taken | None = None
) -> Taken:
    """Let each group take what is cheapest, until none wants anything else; `cost` is that of a
    choice alone."""
    taken = dict(start)
    askers = _askers(groups)
    for _ in range(SWEEPS):
        before = dict(taken)
        for group in groups.groups:
            if fixed is None or id(group) not in fixed:
                found = [taken[k] for k in askers[id(group)] if k in taken]
                asked = dict.fromkeys([a for c in found for a in c.asks
                                       if groups.of[a[0]] is group])  # fmt: skip
                choices = _possible(groups, taken, group, found)
                costs = [cost(c) + _moving(groups, taken, c, asked) for c in choices]
                taken[id(group)] = choices[costs.index(min(costs))]
        if taken == before:
            break
    return taken


def _askers(groups: Groups) -> dict[int, list[int]]:
    """For each group, those that may ask for its values."""
    found: dict[int, dict[int, None]] = {id(g): {} for g in groups.groups}
    for group in groups.groups:
        for x in dict.fromkeys([x for c in group.choices for x, _ in c.asks]):
            found[id(groups.of[x])][id(group)] = None
    return {key: list(by) for key, by in found.items()}


def _possible(
    groups: Groups, taken: Taken, group: LayoutGroup, users: Sequence[LayoutChoice]
) -> list[LayoutChoice]:
    """The choices of a group that may be taken beside the others; all, if there is none."""
    made, there = [], dict(taken)
    for c in group.choices:
        there[id(group)] = c
        if all(_brought(groups, there, other) for other in (c, *users)):
            made.append(c)
    return made or group.choices


def _brought(groups: Groups, taken: Taken, choice: LayoutChoice) -> bool:
    """Whether operands are split along what a choice splits, and not along what it ignores."""

    def split(claim: Claim) -> bool:
        return any(claim.axis in taken[id(groups.of[x])].lies[x][d] for x, d in claim.places)

    return all(map(split, choice.claims)) and not any(map(split, choice.ignores))


def _moving(groups: Groups, taken: Taken, choice: LayoutChoice, asked: dict) -> float:
    """Seconds to bring to a choice what it asks for, and to others what they ask."""
    total = 0.0
    for x, dims in choice.asks:
        source = taken.get(id(groups.of[x]))
        if source is not None:
            total += groups.price(x.type.plain, source.lies[x], dims)
    for x, dims in asked:
        total += groups.price(x.type.plain, choice.lies[x], dims)
    return total
