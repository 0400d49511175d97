"""explain_sharding: every message that devices will exchange, and why."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pullback.api.layout import is_array
from pullback.api.memory_plan import readable
from pullback.api.stage import stage
from pullback.ir.canonical import canonicalise
from pullback.ir.errors import ArgumentError
from pullback.ir.graph import Graph, graphs_within
from pullback.ir.node import Node
from pullback.ir.types import Type, show
from pullback.ir.where import user_line
from pullback.ops.call import written_out
from pullback.sharding.cost import Machine, traffic
from pullback.sharding.mesh import DeviceMesh
from pullback.tensor import tree
from pullback.tensor.creation import asarray


@dataclass(frozen=True)
class Exchange:
    """One collective of a per-device program.

    `nbytes` is what each device sends, `seconds` what that is expected to take; `why` names what
    was needed, `op` and `where` by whom, `of` which value. One in a loop is there in all its
    `rounds`, and costs as much in each.
    """

    kind: str
    axes: tuple[str, ...]
    types: tuple[Type, ...]
    nbytes: int
    seconds: float
    op: str
    where: Any
    why: str
    of: str
    rounds: int = 1

    def __str__(self) -> str:
        cost = f"{readable(self.nbytes)}, {self.seconds * 1e6:.0f} us"
        cost += f", {self.rounds} times" if self.rounds != 1 else ""
        head = f"{self.kind} over {', '.join(self.axes)}: {show(self.types)} ({cost})"
        return f"{head}\n    {self.op} ({self.where}) needs {self.why} of {self.of}"


@dataclass(frozen=True, repr=False)
class Explanation:
    """All collectives of a program, in their order, and the per-device program itself."""

    mesh: DeviceMesh
    exchanges: tuple[Exchange, ...]
    program: Graph = field(compare=False)

    @property
    def nbytes(self) -> int:
        """What each device sends in one run."""
        return sum(e.nbytes * e.rounds for e in self.exchanges)

    @property
    def counts(self) -> dict[str, int]:
        """How many collectives there are of each kind."""
        found: dict[str, int] = {}
        for e in self.exchanges:
            found[e.kind] = found.get(e.kind, 0) + 1
        return found

    def __str__(self) -> str:
        if not self.exchanges:
            return f"on {self.mesh}: no communication"
        total = f"{len(self.exchanges)} collectives, each device sends {readable(self.nbytes)}"
        return "\n".join([f"on {self.mesh}: {total}", *map(str, self.exchanges)])

    __repr__ = __str__


def explain_sharding(f: Callable, machine: Machine | None = None) -> Callable:
    """The function that lists the collectives of running `f` on its arguments, without running it.

    >>> import pullback as pb
    >>> mesh = pb.DeviceMesh(2, "tp")
    >>> x = pb.Type((8, 4), pb.float32, pb.Sharding(mesh, pb.P(None, "tp")))
    >>> w = pb.Type((4, 6), pb.float32, pb.Sharding(mesh, pb.P("tp")))
    >>> found = pb.debug.explain_sharding(lambda x, w: x @ w)(x, w)
    >>> found.counts, found.nbytes
    ({'all_reduce': 1}, 192)
    """

    @functools.wraps(f)
    def explained(*args: Any, **kwargs: Any) -> Explanation:
        from pullback.tensor.on_mesh import per_device
        from pullback.tensor.program import mesh_of

        leaves, in_tree = tree.flatten((args, kwargs))
        types = [asarray(x)._node.type if is_array(x) else x for x in leaves]
        staged = stage("explain_sharding", f, types, in_tree)
        graph = canonicalise(written_out(staged.graph))
        mesh = mesh_of([n.type for n in (*graph.outputs, *graph.inputs)])
        if mesh is None:
            raise ArgumentError(
                "explain_sharding: no argument and no result is on a mesh", where=user_line(),
                hint="Lay the arguments out first: x.shard(mesh, spec).",
            )  # fmt: skip
        made = per_device(graph, mesh)
        found = [
            _exchange(node, rounds, made.reasons, mesh, machine or Machine())
            for node, rounds in _wired(made.graph)
        ]
        return Explanation(mesh, tuple(found), made.graph)

    return explained


def _wired(graph: Graph, rounds: int = 1) -> Iterator[tuple[Node, int]]:
    """The collectives, those in branches and loops too; and how often, if that is known."""
    for node in graph.nodes:
        if getattr(node.op, "wire", ""):
            yield node, rounds
        for held in graphs_within(node.op.parameters()):
            yield from _wired(held, rounds * getattr(node.op, "length", 1))


def _exchange(
    node: Node, rounds: int, reasons: dict, mesh: DeviceMesh, machine: Machine
) -> Exchange:
    axes = node.op.communicates()
    out = node.type if isinstance(node.type, tuple) else (node.type,)
    before = sum(map(_nbytes, [x.type for x in node.inputs]))
    nbytes = traffic(node.op.wire, max(before, sum(map(_nbytes, out))), mesh.extent(axes))  # type: ignore[attr-defined]
    told = reasons.get(node) or next((r for n, r in reasons.items() if node in n.inputs), None)
    op, where, why, of = told or (node.op.title, node.where, "it", "its operand")
    seconds = machine.seconds(nbytes)
    types = tuple([t.plain for t in out])
    kind: str = node.op.wire  # type: ignore[attr-defined]
    return Exchange(kind, axes, types, int(nbytes), seconds, op, where, why, of, rounds)


def _nbytes(type: Type) -> int:
    return type.size * type.dtype.numpy.itemsize
