"""Direct moves from one layout to another, in cells: the pieces that both layouts are made of.

Each device gets the cells that it lacks from a device that has them, so no move sends less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pullback.ops.collective.rows import MoveRows
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.rounds import balanced
from pullback.sharding.spec import Dims

MOST = 2048  # cells of all devices: more would take too long to plan, and too many rounds

Numbers = tuple[tuple[int, ...], ...]  # a layout by numbers of axes


class CellMove(NamedTuple):
    """A move of cells: how many lie along each dimension of a shard, before and after."""

    op: MoveRows
    before: tuple[int, ...]
    after: tuple[int, ...]


@lru_cache(maxsize=4096)
def cell_move(mesh: DeviceMesh, have: Dims, want: Dims) -> CellMove | None:
    """Return the move from one layout to another, for dimensions that divide evenly in both.

    There is none if it would take too many cells.
    """
    pairs = [_apart(a, b) for a, b in zip(have, want, strict=True)]
    named = {a for pair in pairs for axes in pair for a in axes}
    axes = tuple([a for a in mesh.axis_names if a in named])
    sizes = tuple([mesh.sizes[a] for a in axes])
    extents = [(mesh.extent(tail), mesh.extent(need)) for tail, need in pairs]
    cells = [math.lcm(h, w) for h, w in extents]
    before = tuple([n // h for n, (h, _) in zip(cells, extents, strict=True)])
    after = tuple([n // w for n, (_, w) in zip(cells, extents, strict=True)])
    if math.prod(sizes) * math.prod(after) > MOST:
        return None
    tails, needs = [tuple([tuple([axes.index(a) for a in pair[side]]) for pair in pairs])
                    for side in (0, 1)]  # fmt: skip
    sources = _sources(sizes, tails, needs, before, after)
    return CellMove(MoveRows(axes, sizes, math.prod(before), sources), before, after)


def _apart(have: tuple[str, ...], want: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the axes of a dimension after those with which both layouts begin."""
    same = 0
    while same < min(len(have), len(want)) and have[same] == want[same]:
        same += 1
    return have[same:], want[same:]


@lru_cache(maxsize=4096)
def _sources(
    sizes: tuple[int, ...], tails: Numbers, needs: Numbers,
    before: tuple[int, ...], after: tuple[int, ...],
) -> tuple[int, ...]:  # fmt: skip
    """Return where the cells of every device come from, as `MoveRows` counts them."""
    places = list(itertools.product(*map(range, sizes)))
    number = {place: i for i, place in enumerate(places)}
    split = {a for axes in tails for a in axes}
    free = [range(n) if a not in split else (0,) for a, n in enumerate(sizes)]
    own: dict[int, int] = {}  # sources by cell of the result
    missing: list[tuple[int, int, list[int], int]] = []
    cells = list(itertools.product(*map(range, after)))
    for t, place in enumerate(places):
        begins = [_index(place, axes, sizes) * n for axes, n in zip(needs, after, strict=True)]
        for q, offset in enumerate(cells, start=t * len(cells)):
            cell = [i + j for i, j in zip(begins, offset, strict=True)]
            row = _flat([c % n for c, n in zip(cell, before, strict=True)], before)
            fixed = _coordinates(cell, tails, before, sizes)
            holder = tuple([fixed.get(a, c) for a, c in enumerate(place)])
            if holder == place:
                own[q] = t * math.prod(before) + row
                continue
            others = itertools.product(
                *[(fixed[a],) if a in fixed else free[a] for a in range(len(sizes))]
            )
            missing.append((q, number[holder], [number[p] for p in others], row))
    givers = _givers(missing, len(places))
    found = own | {m[0]: s * math.prod(before) + m[3] for m, s in zip(missing, givers, strict=True)}
    return tuple([found[q] for q in range(len(places) * len(cells))])


def _givers(missing: Sequence[tuple[int, int, list[int], int]], devices: int) -> list[int]:
    """Return the device that sends each missing cell.

    That is the one at the same place along all other axes, unless this leaves all to a few.
    """
    near = [m[1] for m in missing]
    fair = -(-len(near) // devices)
    if max([near.count(s) for s in set(near)], default=0) <= fair:
        return near
    return balanced([m[2] for m in missing])


def _index(place: Sequence[int], axes: Sequence[int], sizes: Sequence[int]) -> int:
    return _flat([place[a] for a in axes], [sizes[a] for a in axes])


def _flat(index: Sequence[int], shape: Sequence[int]) -> int:
    made = 0
    for i, n in zip(index, shape, strict=True):
        made = made * n + i
    return made


def _coordinates(
    cell: Sequence[int], tails: Numbers, before: Sequence[int], sizes: Sequence[int]
) -> dict[int, int]:
    """Return the coordinates of the devices that have a cell, along the axes that split it."""
    found = {}
    for c, axes, n in zip(cell, tails, before, strict=True):
        shard = c // n
        for a in reversed(axes):
            shard, found[a] = divmod(shard, sizes[a])
    return found
