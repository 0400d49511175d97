"""explain_sharding: every collective of a program on a mesh, and why it is there."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pullback.api.placeholders import program_on_placeholders
from pullback.api.signatures import Tree
from pullback.engines.byte_sizes import show_bytes
from pullback.engines.mesh import mesh_for_engine, per_mesh_device
from pullback.errors import ArgumentError, Location
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.types import Type, show_types
from pullback.ops.traits import trait_communicates
from pullback.sharding.cost import Machine
from pullback.sharding.mesh import DeviceMesh
from pullback.sharding.partition.prices import operations_price, priced_nodes
from pullback.sharding.partition.reasons import Reason


@dataclass(frozen=True)
class ExplainedCommunication:
    """One collective of a per-device program.

    `nbytes` is what each device sends, `seconds` the expected time. The op `op` at `where` needs
    `why` of the value `of`; both are empty for a collective that the user wrote in a shard_map. A
    collective in a loop is listed once; it runs, and costs as much, in each of `rounds` rounds.
    """

    kind: str
    axes: tuple[str, ...]
    types: tuple[Type, ...]
    nbytes: int
    seconds: float
    op: str
    where: Location
    why: str
    of: str
    rounds: int = 1

    def __str__(self) -> str:
        cost = f"{show_bytes(self.nbytes)}, {self.seconds * 1e6:.0f} us"
        cost += f", {self.rounds} times" if self.rounds != 1 else ""
        head = f"{self.kind} over {', '.join(self.axes)}: {show_types(self.types)} ({cost})"
        needs = f"needs {self.why} of {self.of}" if self.why else "is part of a shard_map"
        return f"{head}\n    {self.op} ({self.where}) {needs}"


@dataclass(frozen=True, repr=False)
class Explanation:
    """The collectives of a program in order, and the per-device program."""

    mesh: DeviceMesh
    exchanges: tuple[ExplainedCommunication, ...]
    machine: Machine
    program: Graph = field(compare=False)

    @property
    def computing(self) -> float:
        """The expected seconds of computation on each device."""
        return self.machine.computing(operations_price(self.program))

    @property
    def communicating(self) -> float:
        """The expected seconds of the collectives."""
        return sum(e.seconds * e.rounds for e in self.exchanges)

    @property
    def seconds(self) -> float:
        return self.computing + self.communicating

    @property
    def memory(self) -> int:
        """The bytes of a device's arguments, results and largest intermediate value."""
        ends = [*self.program.inputs, *dict.fromkeys(self.program.outputs)]
        inside = set(self.program.nodes).difference(ends)
        largest = max([sum([t.nbytes for t in _explained_types(n)]) for n in inside], default=0)
        return sum(n.type.nbytes for n in ends) + largest

    @property
    def nbytes(self) -> int:
        """The bytes that each device sends in one run."""
        return sum(e.nbytes * e.rounds for e in self.exchanges)

    @property
    def counts(self) -> dict[str, int]:
        """The number of collectives of each kind."""
        return dict(Counter(e.kind for e in self.exchanges))

    def __str__(self) -> str:
        if not self.exchanges:
            return f"on {self.mesh}: no communication"
        total = f"{len(self.exchanges)} collectives, each device sends {show_bytes(self.nbytes)}"
        return "\n".join([f"on {self.mesh}: {total}", *map(str, self.exchanges)])

    __repr__ = __str__


@with_argument_checks
def explain_sharding(
    f: Callable[..., Tree], machine: Machine | None = None
) -> Callable[..., Explanation]:
    """Return a function that lists the collectives of `f` for its arguments, without running it.

    >>> mesh = pb.DeviceMesh(2, "tp")
    >>> x = pb.Type((8, 4), pb.float32, pb.Sharding(mesh, pb.P(None, "tp")))
    >>> w = pb.Type((4, 6), pb.float32, pb.Sharding(mesh, pb.P("tp")))
    >>> found = pb.debug.explain_sharding(lambda x, w: x @ w)(x, w)
    >>> found.counts, found.nbytes
    ({'all_reduce': 1}, 192)
    """

    @boundary
    @functools.wraps(f)
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        graph = program_on_placeholders("explain_sharding", f, args, kwargs)
        mesh = mesh_for_engine([n.type for n in (*graph.outputs, *graph.inputs)])
        if mesh is None:
            message = "explain_sharding: no argument and no result is on a mesh"
            raise ArgumentError(message, hint="Lay the arguments out first: x.shard(mesh, spec).")
        made = per_mesh_device(graph, mesh)
        costs = machine or Machine()
        wired = [(n, times) for n, times in priced_nodes(made.graph) if getattr(n.op, "wire", "")]
        reasons = made.reasons | made.within
        found = [_explain_exchange(n, times, reasons.get(n), mesh, costs) for n, times in wired]
        return Explanation(mesh, tuple(found), costs, made.graph)

    return explained


def _explain_exchange(
    node: Node, rounds: int, reason: Reason | None, mesh: DeviceMesh, machine: Machine
) -> ExplainedCommunication:
    axes, out = trait_communicates(node.op), _explained_types(node)
    collective: Any = node.op
    before, after = sum([x.type.nbytes for x in node.inputs]), sum([t.nbytes for t in out])
    sent = collective.sent(before, after, mesh.extent(axes))
    op, where, why, of = reason or (node.op.title, node.where, "", "")
    kind, types = collective.wire, tuple([t.plain for t in out])
    seconds = machine.seconds(sent, collective.steps())
    return ExplainedCommunication(kind, axes, types, int(sent), seconds, op, where, why, of, rounds)


def _explained_types(node: Node) -> tuple[Type, ...]:
    return node.type if isinstance(node.type, tuple) else (node.type,)
