"""The layouts that are tried: of a value, and of an op that mixes several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pullback.graph.types import Type
from pullback.sharding.factors import FactorRule
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.propagate import PropagationPlan, along
from pullback.sharding.spec import Dims


def layouts(type: Type, mesh: DeviceMesh) -> list[Dims]:
    """Every axis splits one dimension evenly, or none; unevenly, if it divides no dimension."""
    targets = [(None, *_dividing(type.shape, mesh.sizes[a])) for a in mesh.axis_names]
    found = [_dims(type.rank, mesh, chosen) for chosen in itertools.product(*targets)]
    return [dims for dims in found if _fits(type, dims, mesh)]


def _dividing(extents: Sequence[int], size: int) -> list[int]:
    """Which extents may be split into so many parts."""
    if size == 1:
        return []
    even = [i for i, n in enumerate(extents) if n and n % size == 0]
    return even or [i for i, n in enumerate(extents) if n > size]


def _dims(rank: int, mesh: DeviceMesh, chosen: Sequence[int | None]) -> Dims:
    pairs = list(zip(mesh.axis_names, chosen, strict=True))
    return tuple([tuple([a for a, i in pairs if i == dim]) for dim in range(rank)])


def _fits(type: Type, dims: Dims, mesh: DeviceMesh) -> bool:
    """Several axes split one dimension only if they do so evenly."""
    pairs = zip(type.shape, dims, strict=True)
    return all(len(axes) < 2 or n % mesh.extent(axes) == 0 for n, axes in pairs)


class Split(NamedTuple):
    """A plan for an op, and how its result lies after contributions were joined; `scattered` are
    the axes that joining has split it along."""

    plan: PropagationPlan
    dims: Dims
    scattered: tuple[str, ...]


def splits(rule: FactorRule, result: Type, mesh: DeviceMesh) -> Iterator[Split]:
    """The ways to split an op with one result: every axis splits one factor, or none."""
    names = [f for f, n in rule.extents.items() if n > 1 and f not in rule.form.minor]
    extents = [rule.extents[f] for f in names]
    targets = [(None, *_dividing(extents, mesh.sizes[a])) for a in mesh.axis_names]
    for chosen in itertools.product(*targets):
        axes: dict[str, tuple[str, ...]] = {}
        for a, i in zip(mesh.axis_names, chosen, strict=True):
            if i is not None:
                axes[names[i]] = (*axes.get(names[i], ()), a)
        if all(_allowed(rule, f, mesh.extent(by), len(by)) for f, by in axes.items()):
            yield from _joined(along(rule.form, mesh, axes), result, mesh)


def _allowed(rule: FactorRule, factor: str, parts: int, count: int) -> bool:
    compound = any(factor in fs and len(fs) > 1
                   for side in (*rule.operands, *rule.results) for fs in side)  # fmt: skip
    return rule.extents[factor] % parts == 0 or (count == 1 and not compound)


def _joined(plan: PropagationPlan, result: Type, mesh: DeviceMesh) -> Iterator[Split]:
    """Contributions are summed, and kept whole or split along a dimension that divides."""
    dims, partial = plan.results[0].dims, plan.results[0].partial
    yield Split(plan, dims, ())
    for i in range(result.rank if partial else 0):
        made = (*dims[:i], (*dims[i], *partial), *dims[i + 1 :])
        if result.shape[i] % mesh.extent(made[i]) == 0:
            yield Split(plan, made, partial)
