"""Put kernels in the place of the parts of a program that they compute.

XLA fuses elementwise instructions well. Around reductions it reads the same arrays several times:
a layer norm's for the mean, for the variance and for the result. One kernel reads them once. Other
kernels compute sines and cosines, which take XLA longer than memory.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
)
from pullback.engines.xla.hlo_printer import print_attribute
from pullback.engines.xla.triton.flat_kernels import FlatKernel, flat_kernels
from pullback.engines.xla.triton.overwriting import Kernel, Unit, overwrite_dead_arrays
from pullback.engines.xla.triton.row_clusters import RowCluster, RowClusters
from pullback.engines.xla.triton.row_kernel import RowKernel
from pullback.graph.dtypes import float32
from pullback.graph.types import Type


def fuse_gpu_kernels(block: HloBlock, b: Any) -> HloBlock:
    """The program with kernels; `b` is the Builder that wrote it."""
    for i in block.instructions:
        if i.name in ("while", "case"):
            i.regions = tuple([fuse_gpu_kernels(region, b) for region in i.regions])
    clusters = RowClusters(block).found
    home: dict[HloValue, Kernel] = {y: c for c in clusters for y in c.results}
    home.update([(y, k) for k in flat_kernels(block, home) for y in k.results])
    if not home:
        return block
    made = {y: i for i in block.instructions for y in i.results if y not in home}
    needed, units = _live_in_fusion(block, home, made)
    overwrite_dead_arrays(block, units, needed, _fusion_needs)
    first = {made[y] for c in clusters for y in c.after}
    written: list[HloInstruction] = []
    for unit in _ordered_for_fusion(block, units, home, made):
        if isinstance(unit, RowCluster):
            written += _row_kernel_fusion_calls(unit, needed, b)
        elif isinstance(unit, FlatKernel):
            written.append(b.triton_call(unit.text(), unit.operands, unit.results, *unit.plan))
        elif unit in first:
            written += _kept_in_fusion(unit, b)
        else:
            written.append(unit)
    return dataclasses.replace(block, instructions=written)


def _fusion_needs(unit: Unit) -> Iterable[HloValue]:
    inside = captured_by_hlo_instruction(unit) if isinstance(unit, HloInstruction) else ()
    return (*unit.operands, *inside)


def _live_in_fusion(
    block: HloBlock, home: dict[HloValue, Kernel], made: dict[HloValue, HloInstruction]
) -> tuple[set[HloValue], list[Unit]]:
    """The values that are needed in memory, and what computes them."""
    needed: set[HloValue] = set()
    units: dict[Unit, None] = {}
    stack = list(block.results)
    while stack:
        x = stack.pop()
        if x in needed:
            continue
        needed.add(x)
        unit: Unit | None = home.get(x) or made.get(x)
        if unit is not None and unit not in units:
            units[unit] = None
            stack.extend(_fusion_needs(unit))
    return needed, list(units)


def _ordered_for_fusion(
    block: HloBlock, units: list[Unit], home: dict[HloValue, Kernel],
    made: dict[HloValue, HloInstruction],
) -> list[Unit]:  # fmt: skip
    """The units, operands first, otherwise as their instructions were."""
    place = {y: n for n, i in enumerate(block.instructions) for y in i.results}
    rank = {u: min([place[y] for y in u.results], default=0) for u in units}
    waits: dict[Unit, int] = {}
    users: dict[Unit, list[Unit]] = {}
    for u in units:
        sources = {s for x in _fusion_needs(u) if (s := home.get(x) or made.get(x)) is not None}
        waits[u] = len(sources)
        for s in sources:
            users.setdefault(s, []).append(u)
    ready = [(rank[u], n, u) for n, u in enumerate(units) if not waits[u]]
    heapq.heapify(ready)
    order: list[Unit] = []
    while ready:
        *_, unit = heapq.heappop(ready)
        order.append(unit)
        for user in users.get(unit, ()):
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (rank[user], len(units) + len(order), user))
    assert len(order) == len(units)  # clusters do not depend on each other in a circle
    return order


def _row_kernel_fusion_calls(
    cluster: RowCluster, needed: set[HloValue], b: Any
) -> list[HloInstruction]:
    """The call of a cluster's kernel, and the sums of what its programs added up."""
    kernel, results = RowKernel(_fusion_name(cluster), cluster, needed), []
    results += kernel.results
    if cluster.by_column:
        results.append(b.value(Type(kernel.sums_shape, float32)))
    loads, views, in_place = list(kernel.loads), [], dict[int, int]()
    for y, x in cluster.overwrites.items():
        operand = kernel.loads.index(x)
        in_place[results.index(y)] = operand
        if x.shape != y.shape:  # XLA wants equal types
            loads[operand] = b.value(y.type)
            views.append(HloInstruction("stablehlo.reshape", (x,), (loads[operand],), {}))
    plan = kernel.plan
    call = b.triton_call(kernel.k, loads, results, plan.grid, plan.warps, in_place)
    made = cluster.results[0].made_by
    assert made is not None
    call.location = made.location
    return [*views, call, *(_fusion_sums(cluster, results[-1], b) if cluster.by_column else ())]


def _kept_in_fusion(unit: HloInstruction, b: Any) -> Iterator[HloInstruction]:
    """A value that is in memory before a kernel overwrites what it is computed from: XLA must not
    compute it again later."""
    (y,) = unit.results
    first = b.value(y.type)
    yield dataclasses.replace(unit, results=(first,))
    yield HloInstruction("stablehlo.optimization_barrier", (first,), (y,), {})


def _fusion_sums(cluster: RowCluster, parts: HloValue, b: Any) -> Iterator[HloInstruction]:
    """Add up what the programs of a kernel have added up: all sums at once."""
    count, _, width = parts.shape
    old = cluster.by_column[0].made_by
    assert old is not None and old.operands[1].made_by is not None
    start, both = b.value(old.operands[1].type), b.value(Type((count, width), float32))
    yield dataclasses.replace(old.operands[1].made_by, results=(start,))
    total = dataclasses.replace(old, operands=(parts, start), results=(both,))
    total.attributes = {**old.attributes, "dimensions": "array<i64: 1>"}
    yield total
    for n, y in enumerate(cluster.by_column):
        row = b.value(Type((1, width), float32))
        names = ("start_indices", "limit_indices", "strides")
        places = ((n, 0), (n + 1, width), (1, 1))
        texts = {k: print_attribute(v) for k, v in zip(names, places, strict=True)}
        yield HloInstruction("stablehlo.slice", (both,), (row,), texts)
        yield HloInstruction("stablehlo.reshape", (row,), (y,), {})


def _fusion_name(cluster: RowCluster) -> str:
    """What profilers show: the size of the array, and what is loaded and computed."""
    rows, width = cluster.space
    counts = (len(cluster.loads), len(cluster.arrays), len(cluster.by_row), len(cluster.by_column))
    return f"rows_{rows}x{width}_{'_'.join(map(str, counts))}"
