"""memory_plan: what a function will need, before it runs, and what its backward pass keeps."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pullback.api.placeholders import program_of
from pullback.engines.mesh import per_device
from pullback.engines.registry import engine, mesh_of
from pullback.engines.xla.memory_estimate import Buffer, Footprint
from pullback.graph.dtypes import DType
from pullback.graph.graph import Graph
from pullback.graph.types import Type

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def memory_plan(f: Callable) -> Callable:
    """The function that gives a `MemoryPlan` of running `f` on its arguments, without running it.

    The plan is of exactly what `f` does: for a training step give it the step, or
    `pb.value_and_grad(loss)`. Arguments are tensors, or types made with `pb.Type(shape, dtype)`:
    what does not fit into memory can be planned too. On a mesh, it is the plan of one device.

    >>> import pullback as pb
    >>> def loss(w, x):
    ...     return pb.tanh(pb.tanh(x @ w) @ w).sum()
    >>> x, w = pb.Type((1000, 50), pb.float32), pb.Type((50, 50), pb.float32)
    >>> plan = pb.memory_plan(pb.grad(loss))(w, x)
    >>> plan.arguments, plan.results
    (210000, 10000)
    >>> [(k.operation, k.shape, k.nbytes) for k in plan.kept]
    [('tanh', (1000, 50), 200000), ('matmul', (1000, 50), 200000)]
    """

    @functools.wraps(f)
    def planned(*args: Any, **kwargs: Any) -> MemoryPlan:
        graph = program_of("memory_plan", f, args, kwargs)
        mesh = mesh_of([n.type for n in (*graph.outputs, *graph.inputs)])
        return MemoryPlan.of(graph if mesh is None else per_device(graph, mesh).graph, mesh)

    return planned


@dataclass(frozen=True)
class PlannedValue:
    """A value in memory: the line and the operation that made it, and how large it is."""

    where: Any
    operation: str
    type: Type
    nbytes: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype


@dataclass(frozen=True, repr=False)
class MemoryPlan:
    """What a program needs, in bytes.

    `peak` is `arguments + results + temporaries`. `kept` is what the backward pass reads of what
    the forward pass computed, the largest first; `live` is what is there when memory is fullest.
    The numbers come from a model of what XLA fuses; `measure()` compiles and asks XLA.
    """

    arguments: int
    results: int
    temporaries: int
    kept: tuple[PlannedValue, ...]
    live: tuple[PlannedValue, ...]
    graph: Graph = field(compare=False)
    mesh: Any = None

    @classmethod
    def of(cls, graph: Graph, mesh: Any = None) -> MemoryPlan:
        found = Footprint(graph, mesh)
        kept = [b for b in found.buffers if b.kept]
        totals = found.arguments, found.results, found.temporaries
        return cls(*totals, _values(kept), _values(found.live), graph, mesh)

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporaries

    @property
    def kept_bytes(self) -> int:
        return sum(v.nbytes for v in self.kept)

    def measure(self) -> int:
        """The peak in bytes that XLA reports for the compiled program."""
        xla = engine("xla")
        if self.mesh is None:
            return xla.compile(self.graph).memory().peak
        return xla.compile_on(self.mesh, self.graph).memory().peak

    def __str__(self) -> str:
        parts = ("arguments", self.arguments), ("results", self.results), (
            "temporaries", self.temporaries,
        )  # fmt: skip
        shown = ", ".join(f"{name} {readable(n)}" for name, n in parts)
        head = f"peak {readable(self.peak)}: {shown}"
        if not self.kept:
            return f"{head}\nno backward pass keeps anything"
        kept = f"the backward pass keeps {readable(self.kept_bytes)}:"
        return f"{head}\n{kept}\n{_table(self.kept)}"

    __repr__ = __str__


def _values(buffers: list[Buffer]) -> tuple[PlannedValue, ...]:
    made = [PlannedValue(b.node.where, b.node.op.title, b.type, b.nbytes) for b in buffers]
    return tuple(sorted(made, key=lambda v: -v.nbytes))


def _table(values: tuple[PlannedValue, ...]) -> str:
    """Values as a table; those of one line, operation and type in one row."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    rows: dict[tuple, list[int]] = {}
    for v in values:
        rows.setdefault((str(v.where), v.operation, str(v.type)), []).append(v.nbytes)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("line", "operation", "type"):
        table.add_column(name, overflow="fold")
    table.add_column("count", justify="right")
    table.add_column("bytes", justify="right")
    for row, sizes in sorted(rows.items(), key=lambda item: -sum(item[1])):
        table.add_row(*row, str(len(sizes)), readable(sum(sizes)))
    out = io.StringIO()
    Console(file=out, width=100, color_system=None, highlight=False, markup=False).print(table)
    return "\n".join(text.rstrip() for text in out.getvalue().splitlines() if text.strip())


def readable(size: int) -> str:
    """Bytes as people read them: `1.5 MiB`."""
    for unit, name in _UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
