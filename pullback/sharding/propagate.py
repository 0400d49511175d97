"""Propagation: how an op's operands must lie, and how its results do, by its factor rule.

Collect what the operands say about each factor, resolve where they disagree, and update: give the
dimensions back what was settled for their factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from pullback.ir.errors import ArgumentError
from pullback.ir.types import Type, show
from pullback.sharding.factors import Rule, instantiate
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.spec import Dims, Sharding, on_mesh

NONE: dict[str, int] = {}


@dataclass(frozen=True)
class Result:
    """How a result lies: its dimensions, and the axes over which only parts of it are there."""

    dims: Dims
    priority: tuple[int, ...]
    partial: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """How one application of an op is split: what it asks of operands, what it makes."""

    rule: Rule
    axes: dict[str, tuple[str, ...]]  # of each factor that is split
    operands: tuple[Dims, ...]
    results: tuple[Result, ...]
    mesh: DeviceMesh

    @cached_property
    def shardings(self) -> tuple[Sharding, ...]:
        """How the results lie once nothing of them is left partial."""
        return tuple([on_mesh(self.mesh, r.dims, r.priority) for r in self.results])


@dataclass(frozen=True)
class _Claim:
    """What one dimension of an operand says about a factor."""

    axes: tuple[str, ...]
    priority: int


def plan(
    op: Any, xs: Sequence[Type], ys: Sequence[Type], mesh: DeviceMesh, whole: str = ""
) -> Plan:
    """The plan for an op on operands of (sharded) types `xs`, with results of types `ys`; the
    factor `whole` is not split, whatever operands say."""
    return _plan(op.factors(*[t.plain for t in xs]), tuple(xs), tuple(ys), mesh, whole)


@lru_cache(maxsize=4096)  # by the rule: elementwise ops are many, and all have the same one
def _plan(
    text: str, xs: tuple[Type, ...], ys: tuple[Type, ...], mesh: DeviceMesh, whole: str
) -> Plan:
    rule = instantiate(text, xs, ys)
    claims = _collect(rule, xs, mesh)
    claims.pop(whole, None)
    axes = _resolve(rule, claims, _forbidden(rule, xs), mesh)
    chosen = {f: a for f, (a, _) in axes.items() if a}
    return along(rule, mesh, chosen, {f: p for f, (_, p) in axes.items()})


def along(
    rule: Rule, mesh: DeviceMesh, axes: dict[str, tuple[str, ...]], priority: dict[str, int] = NONE
) -> Plan:
    """The plan that splits these factors."""

    def split(dims: tuple) -> Dims:
        return tuple([axes.get(factors[0], ()) if factors else () for factors in dims])

    results = []
    for dims in rule.results:
        partial = [a for f in rule.contracted for a in axes.get(f, ())]
        ranks = tuple([priority.get(factors[0], 0) if factors else 0 for factors in dims])
        results.append(Result(split(dims), ranks, tuple(sorted(partial))))
    return Plan(rule, axes, tuple(map(split, rule.operands)), tuple(results), mesh)


# -- collect --------------------------------------------------------------------------------------


def _collect(rule: Rule, xs: Sequence[Type], mesh: DeviceMesh) -> dict[str, list[_Claim]]:
    claims: dict[str, list[_Claim]] = {}
    for dims, t in zip(rule.operands, xs, strict=True):
        if t.sharding is None:
            continue
        spec = t.sharding.spec
        for factors, axes, rank in zip(dims, t.sharding.dims(t.rank), _ranks(spec, t), strict=True):
            if not axes or not factors:
                continue
            if len(factors) > 1:
                axes = _dividing(axes, rule.extents[factors[0]], mesh)
            if axes:
                claims.setdefault(factors[0], []).append(_Claim(axes, rank))
    return claims


def _ranks(spec: Any, t: Type) -> tuple[int, ...]:
    return (*spec.priority, *[0] * (t.rank - len(spec.priority)))


def _dividing(axes: tuple[str, ...], extent: int, mesh: DeviceMesh) -> tuple[str, ...]:
    """The axes, from the major one, along which an extent can be split evenly."""
    for count in range(len(axes), 0, -1):
        if extent % mesh.extent(axes[:count]) == 0:
            return axes[:count]
    return ()


def _forbidden(rule: Rule, xs: Sequence[Type]) -> dict[str, set[str]]:
    """For each factor, the axes that some operand says it must stay whole along."""
    found: dict[str, set[str]] = {}
    for dims, t in zip(rule.operands, xs, strict=True):
        if t.sharding is not None and t.sharding.spec.replicated:
            for f in [f for factors in dims for f in factors]:
                found.setdefault(f, set()).update(t.sharding.spec.replicated)
    return found


# -- resolve --------------------------------------------------------------------------------------


def _resolve(
    rule: Rule, claims: dict[str, list[_Claim]], forbidden: dict[str, set[str]], mesh: DeviceMesh
) -> dict[str, tuple[tuple[str, ...], int]]:
    """The axes of each factor, and with which priority they were asked for."""
    agreed: dict[str, _Claim] = {}
    compound = minor(rule)
    for f, said in claims.items():
        said = [_without(c, forbidden.get(f, set())) for c in said]
        if f not in compound:
            agreed[f] = _agree(said, mesh)
    # One axis can split one factor only: those of results come first, in the results' order.
    places = {f: i for i, f in enumerate(f for r in rule.results for dim in r for f in dim)}
    order = sorted(agreed, key=lambda f: (agreed[f].priority, places.get(f, len(places))))
    used: set[str] = set()
    made = {}
    major = _major(rule)
    for f in order:
        axes = _prefix(agreed[f].axes, used)
        if f in major:  # a dimension that runs over several factors is split evenly or not at all
            axes = _dividing(axes, rule.extents[f], mesh)
        used.update(axes)
        made[f] = axes, agreed[f].priority
    return made


def minor(rule: Rule) -> set[str]:
    """Factors inside of a dimension that are not its major one: they are never split."""
    sides = (*rule.operands, *rule.results)
    return {f for dims in sides for factors in dims for f in factors[1:]}


def _major(rule: Rule) -> set[str]:
    sides = (*rule.operands, *rule.results)
    return {factors[0] for dims in sides for factors in dims if len(factors) > 1}


def _without(claim: _Claim, axes: set[str]) -> _Claim:
    return _Claim(_prefix(claim.axes, axes), claim.priority)


def _prefix(axes: tuple[str, ...], used: set[str]) -> tuple[str, ...]:
    """The axes before the first that is used."""
    for i, a in enumerate(axes):
        if a in used:
            return axes[:i]
    return axes


def _agree(said: list[_Claim], mesh: DeviceMesh) -> _Claim:
    """One answer for a factor: the lowest priority number, then the most parts, then what all
    that are left have in common."""
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
    return _Claim(common, first)


# -- update ---------------------------------------------------------------------------------------


def one_mesh(types: Sequence[Type], op: str) -> DeviceMesh:
    """The mesh that all sharded operands are on."""
    found = [t.sharding.mesh for t in types if t.sharding is not None]
    for mesh in found[1:]:
        if mesh is not found[0]:
            raise ArgumentError(
                f"operands must be on one mesh, got {found[0]} and {mesh} for {show(types)}",
                op=op, hint="Move one through the host: pb.tensor(x.numpy()).shard(mesh, spec).",
            )  # fmt: skip
    return found[0]


def lay_out(op: Any, xs: Sequence[Type], made: Any) -> Any:
    """The types of an op's results with their shardings, from those of its operands."""
    mesh = one_mesh(xs, op.title)
    ys = made if isinstance(made, tuple) else (made,)
    found = op.shardings(mesh, xs, ys)
    types = tuple([y.sharded(s) for y, s in zip(ys, found, strict=True)])
    return types if isinstance(made, tuple) else types[0]


def by_factors(op: Any, mesh: DeviceMesh, xs: Sequence[Type], ys: Sequence[Type]) -> list[Sharding]:
    """Where nothing is left partial: a contracted factor that was split is summed over."""
    return list(plan(op, xs, ys, mesh).shardings)
