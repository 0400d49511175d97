"""Propagation: the layouts of an op's operands and results, derived from its factor rule.

Collect what the operands say about each factor, resolve conflicts, and give each dimension the axes
of its factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from pullback.errors import ArgumentError
from pullback.graph.types import Type, show_types
from pullback.sharding.factors import FactorForm, form_of_factors
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, Sharding, spec_on_mesh

NONE: dict[str, int] = {}
Shardings = tuple[Sharding | None, ...]


class PropagatedLayout(NamedTuple):
    """The layout of a result; over the `partial` axes each device holds a partial sum."""

    dims: Dims
    priority: tuple[int, ...]
    partial: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class PropagationPlan:
    """How one application of an op is split: the layouts of its operands and results."""

    form: FactorForm
    axes: dict[str, tuple[str, ...]]  # of each factor that is split
    operands: tuple[Dims, ...]
    results: tuple[PropagatedLayout, ...]
    mesh: DeviceMesh

    @cached_property
    def shardings(self) -> tuple[Sharding, ...]:
        """The shardings of the results after partial sums have been reduced."""
        return tuple([spec_on_mesh(self.mesh, r.dims, r.priority) for r in self.results])


class _PropagationClaim(NamedTuple):
    """What one dimension of an operand says about a factor."""

    axes: tuple[str, ...]
    priority: int


def plan_propagation(
    op: Any, xs: Sequence[Type], ys: Sequence[Type], mesh: DeviceMesh, whole: str = ""
) -> PropagationPlan:
    """Return the plan for an op with operands of (sharded) types `xs` and results of types `ys`.

    The factor `whole` is not split, whatever the operands say.
    """
    return propagate_by_rule(op.factors(*[t.plain for t in xs]), xs, ys, mesh, whole)


def propagate_by_rule(
    text: str, xs: Sequence[Type], ys: Sequence[Type], mesh: DeviceMesh, whole: str = ""
) -> PropagationPlan:
    """Return the plan for a factor rule."""
    found = form_of_factors(text, xs, ys)
    extents = found.extents((*xs, *ys))
    # Of the sizes, a plan depends only on which parts of the mesh divide them.
    divisors = tuple([math.gcd(extents[f], mesh.size) for f in found.major]) if found.major else ()
    return _propagation_plan(found, tuple([t.sharding for t in xs]), divisors, mesh, whole)


@lru_cache(maxsize=4096)  # many elementwise ops share one rule
def _propagation_plan(
    form: FactorForm, xs: Shardings, divisors: tuple[int, ...], mesh: DeviceMesh, whole: str
) -> PropagationPlan:
    extents = dict(zip(form.major, divisors, strict=True))
    claims = _propagated_factors(form, xs, extents, mesh)
    claims.pop(whole, None)
    axes = _resolve_propagated_factors(
        form, claims, _propagation_forbidden(form, xs), extents, mesh
    )
    chosen = {f: a for f, (a, _) in axes.items() if a}
    return propagate_along(form, mesh, chosen, {f: p for f, (_, p) in axes.items()})


def propagate_along(
    form: FactorForm,
    mesh: DeviceMesh,
    axes: dict[str, tuple[str, ...]],
    priority: dict[str, int] = NONE,
) -> PropagationPlan:
    """Return the plan that splits these factors."""

    def split(dims: tuple) -> Dims:
        return tuple([axes.get(factors[0], ()) if factors else () for factors in dims])

    partial = tuple(sorted([a for f in form.contracted for a in axes.get(f, ())]))
    results = []
    for dims in form.results:
        ranks = tuple([priority.get(factors[0], 0) if factors else 0 for factors in dims])
        results.append(PropagatedLayout(split(dims), ranks, partial))
    return PropagationPlan(form, axes, tuple(map(split, form.operands)), tuple(results), mesh)


def _propagated_factors(
    form: FactorForm, xs: Shardings, extents: dict[str, int], mesh: DeviceMesh
) -> dict[str, list[_PropagationClaim]]:
    claims: dict[str, list[_PropagationClaim]] = {}
    for dims, sharding in zip(form.operands, xs, strict=True):
        if sharding is None:
            continue
        spec = sharding.spec  # dimensions beyond the spec are whole
        for factors, axes, rank in zip(dims, spec.dims, spec.priority, strict=False):
            if not axes or not factors:
                continue
            if len(factors) > 1:
                axes = _dividing_propagated_prefix(axes, extents[factors[0]], mesh)
            if axes:
                claims.setdefault(factors[0], []).append(_PropagationClaim(axes, rank))
    return claims


def _dividing_propagated_prefix(
    axes: tuple[str, ...], extent: int, mesh: DeviceMesh
) -> tuple[str, ...]:
    """Return the longest prefix of the axes that divides the size evenly."""
    for count in range(len(axes), 0, -1):
        if extent % mesh.extent(axes[:count]) == 0:
            return axes[:count]
    return ()


def _propagation_forbidden(form: FactorForm, xs: Shardings) -> dict[str, set[str]]:
    """Return, for each factor, the axes along which some operand must stay whole."""
    found: dict[str, set[str]] = {}
    for dims, sharding in zip(form.operands, xs, strict=True):
        if sharding is not None and sharding.spec.replicated:
            for f in [f for factors in dims for f in factors]:
                found.setdefault(f, set()).update(sharding.spec.replicated)
    return found


def _resolve_propagated_factors(
    form: FactorForm,
    claims: dict[str, list[_PropagationClaim]],
    forbidden: dict[str, set[str]],
    extents: dict[str, int],
    mesh: DeviceMesh,
) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return the axes of each factor and the priority of the operand that asked for them."""
    agreed: dict[str, _PropagationClaim] = {}
    for f, said in claims.items():
        if f in forbidden:
            said = [
                _PropagationClaim(_propagated_prefix(c.axes, forbidden[f]), c.priority)
                for c in said
            ]
        if f not in form.minor:
            agreed[f] = _resolve_propagated_claims(said, mesh)
    # An axis splits only one factor: factors of results come first, in order.
    places = form.places
    order = sorted(agreed, key=lambda f: (agreed[f].priority, places.get(f, len(places))))
    used: set[str] = set()
    made = {}
    for f in order:
        axes = _propagated_prefix(agreed[f].axes, used)
        if f in extents:  # a combined dimension is split evenly or not at all
            axes = _dividing_propagated_prefix(axes, extents[f], mesh)
        used.update(axes)
        made[f] = axes, agreed[f].priority
    return made


def _propagated_prefix(axes: tuple[str, ...], used: set[str]) -> tuple[str, ...]:
    """Return the axes before the first used one."""
    for i, a in enumerate(axes):
        if a in used:
            return axes[:i]
    return axes


def _resolve_propagated_claims(
    said: list[_PropagationClaim], mesh: DeviceMesh
) -> _PropagationClaim:
    """Resolve conflicting claims on a factor.

    The lowest priority number wins, then the most shards, then the common prefix.
    """
    if said.count(said[0]) == len(said):
        return said[0]
    first = min(c.priority for c in said)
    said = [c for c in said if c.priority == first]
    most = max(mesh.extent(c.axes) for c in said)
    left = [c.axes for c in said if mesh.extent(c.axes) == most]
    common = left[0]
    for axes in left[1:]:
        same = 0
        while same < min(len(common), len(axes)) and common[same] == axes[same]:
            same += 1
        common = common[:same]
    return _PropagationClaim(common, first)


def mesh_to_propagate(types: Sequence[Type], op: str) -> DeviceMesh | None:
    """Return the mesh of the sharded operands, or None if no operand is sharded."""
    found: DeviceMesh | None = None
    for t in types:
        if t.sharding is not None and t.sharding.mesh is not found:
            if found is not None:
                raise ArgumentError(
                    f"operands must be on the same mesh or device, got {found.title} and "
                    f"{t.sharding.mesh.title} for {show_types(types)}",
                    op=op,
                    hint="Move one: x.to(device), or pb.tensor(x.numpy()).shard(mesh, spec).",
                )  # fmt: skip
            found = t.sharding.mesh
    return found


def propagate_layout(op: Any, xs: Sequence[Type], made: Any) -> Any:
    """Return the types of an op's results with the shardings propagated from its operands."""
    mesh = mesh_to_propagate(xs, op.title)
    if mesh is None:
        return made
    if not isinstance(made, tuple):
        return made.sharded(op.shardings(mesh, xs, (made,))[0])
    found = op.shardings(mesh, xs, made)
    return tuple([y.sharded(s) for y, s in zip(made, found, strict=True)])
