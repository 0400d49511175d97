"""Routes from one layout to another: the steps that take the least expected time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pullback.graph.types import Type
from pullback.sharding.cost import Machine, traffic_cost
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.cells import cell_exchange
from pullback.sharding.spec import Dims

MACHINE = Machine()
CLOSE = 1e-3  # a route that takes this much more than the least possible time is good enough
FEW = 64  # the most layouts to try on the way


class RouteStep(NamedTuple):
    """One change of a layout: a method of `LayoutSteps` and its arguments."""

    method: str
    arguments: tuple[Any, ...]


@lru_cache(maxsize=16384)
def route(mesh: DeviceMesh, whole: Type, have: Dims, want: Dims) -> tuple[RouteStep, ...]:
    """Return the steps that change the layout of a complete value."""
    best = route_axis_by_axis(mesh, whole, have, want)
    if best.collectives and _route_divides(mesh, whole, have, want):
        if best.seconds <= MACHINE.seconds(least_route_traffic(mesh, whole, have, want)) * (
            1 + CLOSE
        ):
            return tuple(best.steps)
        for via in (want, *_route_between(mesh, whole, have, want)):
            other = Route(mesh, whole, have)
            other.relayout(via)
            if other.seconds < best.seconds:
                other = route_axis_by_axis(mesh, whole, via, want, other)
                best = min(best, other, key=lambda r: r.seconds)
    return tuple(best.steps)


class Route:
    """Steps, the layout that they have led to, and the seconds that they take."""

    def __init__(self, mesh: DeviceMesh, whole: Type, dims: Dims) -> None:
        self.mesh, self.whole, self.dims = mesh, whole, dims
        self.steps: list[RouteStep] = []
        self.seconds, self.collectives = 0.0, 0

    def slice(self, dim: int, axis: str) -> None:
        self._step("slice", dim, axis)
        self._set(dim, (*self.dims[dim], axis))

    def slice_padded(self, dim: int, axes: tuple[str, ...]) -> None:
        self._step("slice_padded", dim, axes)
        self._set(dim, axes)

    def gather(self, dim: int) -> None:
        *rest, axis = self.dims[dim]
        self._step("gather", dim)
        self._set(dim, tuple(rest))
        self._spend(traffic_cost("all_gather", self._nbytes(), self.mesh.sizes[axis]))

    def exchange(self, source: int, target: int) -> None:
        *rest, axis = self.dims[source]
        self._step("exchange", source, target)
        self._spend(traffic_cost("all_to_all", self._nbytes(), self.mesh.sizes[axis]))
        self._set(source, tuple(rest))
        self._set(target, (*self.dims[target], axis))

    def relayout(self, dims: Dims) -> None:
        """Move the cells that devices lack in the new layout."""
        found = cell_exchange(self.mesh, self.dims, dims)
        if found is None:
            self.seconds = math.inf
            return
        self._step("relayout", dims)
        self.dims = dims
        self._spend(found.op.sent(0, self._nbytes(), self.mesh.size), found.op.steps())

    def even(self, dim: int, axes: tuple[str, ...]) -> bool:
        return self.whole.shape[dim] % self.mesh.extent(axes) == 0

    @property
    def axes(self) -> set[str]:
        return {a for axes in self.dims for a in axes}

    def _step(self, method: str, *arguments: Any) -> None:
        self.steps.append(RouteStep(method, arguments))

    def _set(self, dim: int, axes: tuple[str, ...]) -> None:
        self.dims = (*self.dims[:dim], axes, *self.dims[dim + 1 :])

    def _nbytes(self) -> int:
        pairs = zip(self.whole.shape, self.dims, strict=True)
        shape = [-(-n // self.mesh.extent(axes)) for n, axes in pairs]
        return math.prod(shape) * self.whole.dtype.numpy.itemsize

    def _spend(self, sent: float, steps: int = 1) -> None:
        self.seconds += MACHINE.seconds(sent, steps)
        self.collectives += steps


def route_axis_by_axis(
    mesh: DeviceMesh, whole: Type, have: Dims, want: Dims, begun: Route | None = None
) -> Route:
    """Return the route along one axis at a time: slices, exchanges, gathers, and slices."""
    r = begun or Route(mesh, whole, have)
    _route_uneven(r, want)
    _route_slice_free(r, want)
    _route_exchange_pairs(r, want)
    for dim, wanted in enumerate(want):
        while r.dims[dim] != wanted[: len(r.dims[dim])]:
            r.gather(dim)
    _route_slice_free(r, want)
    return r


def _route_uneven(r: Route, want: Dims) -> None:
    """Gather dimensions that do not divide evenly before they are split in another way.

    Their shards along fewer axes are not unions of shards.
    """
    for dim, wanted in enumerate(want):
        have = r.dims[dim]
        uneven = not (r.even(dim, have) and r.even(dim, wanted))
        if have != wanted and uneven and not _route_exchanges(r, want, dim):
            while r.dims[dim]:
                r.gather(dim)


def _route_exchanges(r: Route, want: Dims, dim: int) -> bool:
    """Return whether a dimension gives its only axis to another, or gets its only axis."""
    single = len(r.dims[dim]) <= 1 and len(want[dim]) <= 1
    return single and any(dim in pair for pair in _route_pairs(r, want))


def _route_pairs(r: Route, want: Dims) -> list[tuple[int, int]]:
    """Return pairs of dimensions, where one gives its last axis and the other needs it next."""
    return [(source, target)
            for source, have in enumerate(r.dims) if have and have[:-1] == want[source]
            for target, wanted in enumerate(want)
            if target != source and wanted == (*r.dims[target], have[-1])]  # fmt: skip


def _route_slice_free(r: Route, want: Dims) -> None:
    """Split dimensions along unused axes, which needs no communication."""
    for dim, wanted in enumerate(want):
        for axis in wanted[len(r.dims[dim]) :]:
            if axis in r.axes or r.dims[dim] != wanted[: len(r.dims[dim])]:
                break
            if not r.even(dim, wanted) and wanted != (*r.dims[dim], axis):
                if not r.dims[dim] and r.axes.isdisjoint(wanted):
                    r.slice_padded(dim, wanted)
                break
            r.slice(dim, axis)


def _route_exchange_pairs(r: Route, want: Dims) -> None:
    while pairs := _route_pairs(r, want):
        source, target = pairs[0]
        single = r.dims[source] == want[target]  # the only axis of both
        even = r.even(source, r.dims[source]) and r.even(target, want[target])
        if not even and not single:
            break
        r.exchange(source, target)


def least_route_traffic(mesh: DeviceMesh, whole: Type, have: Dims, want: Dims) -> float:
    """Return the bytes that a device lacks on average, less than which no route can send."""
    lacks, shared = np.ones(mesh.size), np.ones(mesh.size)
    for n, before, after in zip(whole.shape, have, want, strict=True):
        starts = [_route_starts(mesh, n, axes) for axes in (before, after)]
        sizes = [n // mesh.extent(axes) for axes in (before, after)]
        ends = np.minimum(starts[0] + sizes[0], starts[1] + sizes[1])
        shared *= np.maximum(0, ends - np.maximum(*starts))
        lacks *= sizes[1]
    return float((lacks - shared).mean()) * whole.dtype.numpy.itemsize


def _route_starts(mesh: DeviceMesh, n: int, axes: tuple[str, ...]) -> np.ndarray:
    """Return where the shards of a dimension of size n begin on each device."""
    index = [mesh.index(k, axes) for k in range(mesh.size)]
    return np.array(index) * (n // mesh.extent(axes))


def _route_divides(mesh: DeviceMesh, whole: Type, have: Dims, want: Dims) -> bool:
    """Return whether the dimensions that change divide evenly in both layouts."""
    rows = zip(whole.shape, have, want, strict=True)
    return all(
        a == b or (n > 0 and n % mesh.extent(a) == 0 == n % mesh.extent(b)) for n, a, b in rows
    )


def _route_between(mesh: DeviceMesh, whole: Type, have: Dims, want: Dims) -> Iterator[Dims]:
    """Yield layouts from which gathering leads to the wanted one."""
    ends = {a for axes in want for a in axes}
    axes = [a for axes in have for a in axes if a not in ends]
    if not axes or whole.rank ** len(axes) > FEW:
        return
    for chosen in product(range(whole.rank), repeat=len(axes)):
        more = [tuple([a for a, d in zip(axes, chosen, strict=True) if d == dim])
                for dim in range(whole.rank)]  # fmt: skip
        via = tuple([(*have, *new) for have, new in zip(want, more, strict=True)])
        if via != have and _route_divides(mesh, whole, have, via):
            yield via
