"""First solutions: what is cheapest at each group in turn, given the others."""

from __future__ import annotations

from collections.abc import Sequence

from pullback.sharding.spec import Dims
from pullback.transforms.auto.groups import Choice, Groups

SWEEPS = 3


def first_solution(groups: Groups, inputs: Sequence[Dims]) -> list[Choice]:
    """The choice of each group, where the inputs lie as is said."""
    starts = {id(groups.of[x]): (x, dims)
              for x, dims in zip(groups.graph.inputs, inputs, strict=True)}  # fmt: skip
    taken: dict[int, Choice] = {}
    for _ in range(SWEEPS):
        before = dict(taken)
        for group in groups.groups:
            choices = group.choices
            if id(group) in starts:
                x, dims = starts[id(group)]
                choices = [c for c in choices if c.lies[x] == dims]
            others = [c for key, c in taken.items() if key != id(group)]
            asked = dict.fromkeys([a for c in others for a in c.asks
                                   if groups.of[a[0]] is group])  # fmt: skip
            costs = [_cost(groups, taken, c, asked) for c in choices]
            taken[id(group)] = choices[costs.index(min(costs))]
        if taken == before:
            break
    return [taken[id(group)] for group in groups.groups]


def _cost(groups: Groups, taken: dict[int, Choice], choice: Choice, asked: dict) -> float:
    """Seconds of a choice, of bringing to it what it asks for, and to others what they ask."""
    total = choice.seconds
    for x, dims in choice.asks:
        source = taken.get(id(groups.of[x]))
        if source is not None:
            total += groups.price(x.type.plain, source.lies[x], dims)
    for x, dims in asked:
        total += groups.price(x.type.plain, choice.lies[x], dims)
    return total
