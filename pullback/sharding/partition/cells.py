"""Direct moves from one layout to another, in cells: the blocks that shards of both are made of.

Each device gets the cells that it lacks from a device that has them, so no move sends less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pullback.ops.collective.rows import MoveRows
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.rounds import balanced_rounds
from pullback.sharding.spec import Dims

MOST = 65536  # cells of all devices: with more, planning would take seconds
MATCHED = 2048  # cells of all devices for which the best senders are searched

Numbers = tuple[tuple[int, ...], ...]  # a layout by numbers of axes


class CellExchange(NamedTuple):
    """A move of cells: how many lie along each dimension of a shard, before and after."""

    op: MoveRows
    before: tuple[int, ...]
    after: tuple[int, ...]


@lru_cache(maxsize=4096)
def cell_exchange(mesh: DeviceMesh, have: Dims, want: Dims) -> CellExchange | None:
    """Return the move from one layout to another, for dimensions that divide evenly in both.

    There is none if it would take too many cells.
    """
    pairs = [_cells_apart(a, b) for a, b in zip(have, want, strict=True)]
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
    sources = _cell_sources(sizes, tails, needs, before, after)
    return CellExchange(MoveRows(axes, sizes, math.prod(before), sources), before, after)


def _cells_apart(have: tuple[str, ...], want: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the axes of a dimension after those with which both layouts begin."""
    same = 0
    while same < min(len(have), len(want)) and have[same] == want[same]:
        same += 1
    return have[same:], want[same:]


@lru_cache(maxsize=4096)
def _cell_sources(
    sizes: tuple[int, ...], tails: Numbers, needs: Numbers,
    before: tuple[int, ...], after: tuple[int, ...],
) -> tuple[int, ...]:  # fmt: skip
    """Return where the cells of every device come from, as `MoveRows` counts them."""
    places = _cell_grid(sizes)
    begins = np.stack([_cell_index(places, axes, sizes) for axes in needs], -1) * np.array(after)
    cells = begins[:, None] + _cell_grid(after)  # by device, by cell that it needs
    rows = _flat_cell_index(cells % np.array(before), before)
    owners = np.broadcast_to(places[:, None], (*cells.shape[:2], len(sizes))).copy()
    for dim, axes in enumerate(tails):
        shard = cells[..., dim] // before[dim]
        for a in reversed(axes):
            shard, owners[..., a] = np.divmod(shard, sizes[a])
    givers = _cell_givers(places, owners, sizes, tails, needs)
    return tuple((givers * math.prod(before) + rows).ravel().tolist())


def _cell_givers(
    places: np.ndarray, owners: np.ndarray, sizes: tuple[int, ...], tails: Numbers, needs: Numbers
) -> np.ndarray:
    """Return the device that gives each cell: the same one if it has the cell.

    Otherwise that is the one at the same place along the axes that do not matter, or, if this
    would leave all to a few, another one.
    """
    near, devices = _flat_cell_index(owners, sizes), np.arange(len(places))[:, None]
    lacks = near != devices
    free = [a for a in range(len(sizes)) if not any(a in axes for axes in tails)]
    unused = [a for a in range(len(sizes)) if not any(a in axes for axes in needs)]
    turned, index = owners.copy(), _cell_index(places, unused, sizes)[:, None]
    for a in reversed(free):
        index, turned[..., a] = np.divmod(index, sizes[a])
    found = [near, np.where(lacks, _flat_cell_index(turned, sizes), devices)]
    loads = [np.bincount(givers[lacks], minlength=1).max() for givers in found]
    if min(loads) * len(places) < lacks.sum() + len(places) or lacks.size > MATCHED:
        return found[int(np.argmin(loads))]
    choices = _cell_grid([n if a in free else 1 for a, n in enumerate(sizes)])
    kept = [0 if a in free else 1 for a in range(len(sizes))]
    several = [_flat_cell_index(h * kept + choices, sizes).tolist() for h in owners[lacks]]
    near[lacks] = balanced_rounds(several)
    return near


def _cell_grid(shape: Sequence[int]) -> np.ndarray:
    """Return the coordinates of all points of a grid, in row-major order."""
    return np.indices(tuple(shape)).reshape(len(shape), -1).T


def _cell_index(places: np.ndarray, axes: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    return _flat_cell_index(places[..., list(axes)], [sizes[a] for a in axes])


def _flat_cell_index(index: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    made = np.zeros(index.shape[:-1], np.int64)
    for i, n in enumerate(shape):
        made = made * n + index[..., i]
    return made
