"""The layouts to try, for a value and for an op with several operands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pullback.graph.types import Type
from pullback.sharding.factors import SizedFactors
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.propagate import PropagationPlan, propagate_along
from pullback.sharding.spec import Dims


def possible_layouts(type: Type, mesh: DeviceMesh) -> list[Dims]:
    """Return the layouts of a value in which each axis splits at most one dimension.

    Dimensions are split evenly, or unevenly along a single axis that divides no dimension.
    """
    found = []
    for chosen in _layout_assignments(type.shape, mesh):
        dims = tuple([chosen.get(i, ()) for i in range(type.rank)])
        pairs = zip(type.shape, dims, strict=True)
        if all(len(axes) < 2 or n % mesh.extent(axes) == 0 for n, axes in pairs):
            found.append(dims)
    return found


def _layout_assignments(
    sizes: Sequence[int], mesh: DeviceMesh
) -> Iterator[dict[int, tuple[str, ...]]]:
    """Yield the ways to assign each axis of a mesh to one of several sizes, or to none."""
    targets = [(None, *_layouts_dividing(sizes, mesh.sizes[a])) for a in mesh.axis_names]
    for chosen in itertools.product(*targets):
        axes: dict[int, tuple[str, ...]] = {}
        for a, i in zip(mesh.axis_names, chosen, strict=True):
            if i is not None:
                axes[i] = (*axes.get(i, ()), a)
        yield axes


def _layouts_dividing(sizes: Sequence[int], count: int) -> list[int]:
    """Return the indices of the sizes that may be split into `count` shards."""
    if count == 1:
        return []
    even = [i for i, n in enumerate(sizes) if n and n % count == 0]
    return even or [i for i, n in enumerate(sizes) if n > count]


class LayoutSplit(NamedTuple):
    """A plan for an op, and the layout of its result after reduction.

    The result was split along the axes `scattered` by the reduction.
    """

    plan: PropagationPlan
    dims: Dims
    scattered: tuple[str, ...]


def layout_splits(rule: SizedFactors, result: Type, mesh: DeviceMesh) -> Iterator[LayoutSplit]:
    """Yield the ways to split an op with one result, where each axis splits at most one factor."""
    names = [f for f, n in rule.extents.items() if n > 1 and f not in rule.form.minor]
    for chosen in _layout_assignments([rule.extents[f] for f in names], mesh):
        axes = {names[i]: by for i, by in chosen.items()}
        if all(_layout_allowed(rule, f, mesh.extent(by), len(by)) for f, by in axes.items()):
            yield from _reduced_layouts(propagate_along(rule.form, mesh, axes), result, mesh)


def _layout_allowed(rule: SizedFactors, factor: str, shards: int, count: int) -> bool:
    combined = any(factor in fs and len(fs) > 1
                   for side in (*rule.operands, *rule.results) for fs in side)  # fmt: skip
    return rule.extents[factor] % shards == 0 or (count == 1 and not combined)


def _reduced_layouts(
    plan: PropagationPlan, result: Type, mesh: DeviceMesh
) -> Iterator[LayoutSplit]:
    """Yield a plan with its result whole along the reduced axes, or split along a dimension."""
    dims, partial = plan.results[0].dims, plan.results[0].partial
    yield LayoutSplit(plan, dims, ())
    for i in range(result.rank if partial else 0):
        split = (*dims[:i], (*dims[i], *partial), *dims[i + 1 :])
        if result.shape[i] % mesh.extent(split[i]) == 0:
            yield LayoutSplit(plan, split, partial)
