"""memory_plan: the memory that a function needs, and what its backward pass keeps."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pullback.api.placeholders import program_on_placeholders
from pullback.api.signatures import Tree
from pullback.engines.byte_sizes import show_bytes
from pullback.engines.engine_registry import registered_engine
from pullback.engines.mesh import mesh_for_engine, per_mesh_device
from pullback.errors import Location
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.dtypes import DType
from pullback.graph.graph import Graph
from pullback.graph.types import Type
from pullback.lazy.settings import current
from pullback.sharding.mesh import DeviceMesh

if TYPE_CHECKING:
    from pullback.engines.xla.memory_estimate import EstimatedBuffer


@with_argument_checks
def memory_plan(f: Callable[..., Tree]) -> Callable[..., MemoryPlan]:
    """Return a function that computes a `MemoryPlan` of `f` for its arguments, without running it.

    The plan covers exactly what `f` does: for a training step pass the step, or
    `pb.value_and_grad(loss)`. Arguments are tensors, or types made with `pb.Type(shape, dtype)`, so
    that a program that does not fit into memory can be planned. On a mesh, it is for one device.

    >>> def loss(w, x):
    ...     return pb.tanh(pb.tanh(x @ w) @ w).sum()
    >>> x, w = pb.Type((1000, 50), pb.float32), pb.Type((50, 50), pb.float32)
    >>> plan = pb.memory_plan(pb.grad(loss))(w, x)
    >>> plan.arguments, plan.results
    (210000, 10000)
    >>> [(k.operation, k.shape, k.nbytes) for k in plan.kept]
    [('tanh', (1000, 50), 200000), ('matmul', (1000, 50), 200000)]
    """

    @boundary
    @functools.wraps(f)
    def planned(*args: Any, **kwargs: Any) -> MemoryPlan:
        graph = program_on_placeholders("memory_plan", f, args, kwargs)
        mesh = mesh_for_engine([n.type for n in (*graph.outputs, *graph.inputs)])
        return MemoryPlan.of(graph if mesh is None else per_mesh_device(graph, mesh).graph, mesh)

    return planned


@dataclass(frozen=True)
class PlannedValue:
    """A value in memory: its size, and the line and operation that computed it."""

    where: Location
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
    """The memory that a program needs, in bytes.

    `peak` is `arguments + results + temporaries`. `kept` are the values of the forward pass that
    the backward pass reads, the largest first; `live` are the values in memory at the peak. The
    numbers come from a model of what XLA fuses; `measure()` compiles and asks XLA.
    """

    arguments: int
    results: int
    temporaries: int
    kept: tuple[PlannedValue, ...]
    live: tuple[PlannedValue, ...]
    graph: Graph = field(compare=False)
    mesh: DeviceMesh | None = None

    @classmethod
    def of(cls, graph: Graph, mesh: DeviceMesh | None = None) -> MemoryPlan:
        # keeps `import pullback` light
        from pullback.engines.xla.memory_estimate import Footprint

        xla = registered_engine("xla")
        found = Footprint(graph, mesh, current().kernels and xla.has_kernels, xla.platform)
        kept = [b for b in found.buffers if b.kept]
        totals = found.arguments, found.results, found.temporaries
        live = [b for b in found.live if b.node is not None]  # not what only a kernel needs
        return cls(*totals, _planned_values(kept), _planned_values(live), graph, mesh)

    @property
    def peak(self) -> int:
        return self.arguments + self.results + self.temporaries

    @property
    def kept_bytes(self) -> int:
        return sum(v.nbytes for v in self.kept)

    def measure(self) -> int:
        """The peak in bytes that XLA reports for the compiled program."""
        xla = registered_engine("xla")
        if self.mesh is None:
            return xla.compile(self.graph, choices=current().choices).memory().peak
        found = xla.compile_on(self.mesh, self.graph, choices=current().choices)
        return found.memory().peak

    def __str__(self) -> str:
        parts = ("arguments", "results", "temporaries")
        shown = ", ".join(f"{name} {show_bytes(getattr(self, name))}" for name in parts)
        head = f"peak {show_bytes(self.peak)}: {shown}"
        if not self.kept:
            return f"{head}\nno backward pass keeps anything"
        kept = f"the backward pass keeps {show_bytes(self.kept_bytes)}:"
        return f"{head}\n{kept}\n{_memory_table(self.kept)}"

    __repr__ = __str__


def _planned_values(buffers: list[EstimatedBuffer]) -> tuple[PlannedValue, ...]:
    made = [PlannedValue(b.node.where, b.node.op.title, b.type, b.nbytes) for b in buffers]
    return tuple(sorted(made, key=lambda v: -v.nbytes))


def _memory_table(values: tuple[PlannedValue, ...]) -> str:
    """A table of values, with one row for each line, operation and type."""
    # rich is heavy
    from rich.box import SIMPLE_HEAD
    from rich.console import Console  # heavy: loaded when a plan is printed
    from rich.table import Table  # heavy: loaded when a plan is printed

    rows: dict[tuple, list[int]] = {}
    for v in values:
        rows.setdefault((str(v.where), v.operation, str(v.type)), []).append(v.nbytes)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("line", "operation", "type"):
        table.add_column(name, overflow="fold")
    table.add_column("count", justify="right")
    table.add_column("bytes", justify="right")
    for row, sizes in sorted(rows.items(), key=lambda item: -sum(item[1])):
        table.add_row(*row, str(len(sizes)), show_bytes(sum(sizes)))
    out = io.StringIO()
    Console(file=out, width=100, color_system=None, highlight=False, markup=False).print(table)
    return "\n".join(text.rstrip() for text in out.getvalue().splitlines() if text.strip())
