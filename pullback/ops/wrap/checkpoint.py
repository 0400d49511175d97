"""Checkpoints: graphs whose intermediate values are recomputed in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pullback.graph.ambient import ambient_tracing_state, thread
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.node import apply_op_to_nodes, next_number, node_varying_over, result_nodes
from pullback.graph.op_kinds import DistinctKind, HigherOrderKind, RunsAs, SumOfProductsKind
from pullback.ops.control.holder import held_captured_values
from pullback.ops.prelude import TABLE, Axis, Node
from pullback.ops.samples import real
from pullback.ops.sources import Input, placeholder
from pullback.ops.wrap.barriers import Barrier
from pullback.ops.wrap.call import Call
from pullback.ops.wrap.identity import Alias, IdentityOp
from pullback.ops.wrap.kept import Kept


class Named(IdentityOp, RunsAs):
    """Returns its operand, named for checkpoint policies."""

    label: str
    executed: ClassVar[Any] = Alias()

    @classmethod
    def samples(cls) -> Any:
        yield cls("a"), (real(3, 4),)


class Checkpoint(Call, HigherOrderKind):
    """A call whose intermediate values are recomputed in the backward pass.

    The policy selects values that are saved: products (`dots`), and values named in `names`.
    """

    dots: bool = False
    names: tuple[str, ...] = ()

    def vjp(
        self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        saved = self._saved()
        values = self._saved_values(xs, saved)
        # The barrier includes the cotangents: recomputation cannot start before they are there, and
        # no pass can merge it with the forward pass. Scalar constants stay outside.
        free = [not x.inputs and not x.type.shape for x in xs]
        held = [x for x, f in zip(xs, free, strict=True) if not f]
        tied = iter(result_nodes(Barrier()(*held, *values, *[c for c in g if c is not None])))
        inputs = [Alias()(x if f else next(tied)) for x, f in zip(xs, free, strict=True)]
        ys = self._recomputed(inputs, {n: next(tied) for n in saved})
        found = iter(gradients(ys, g, [x for x, n in zip(inputs, need) if n]))
        return [next(found) if n else None for n in need]

    def _saved(self) -> list[Node]:
        """Return the nodes whose values are saved; inputs are available anyway."""
        named: set[Node] = set()
        inner = self.graph.nodes[len(self.graph.inputs) :]
        for node in reversed(inner):
            if type(node.op) is Named and (node.op.label in self.names or node in named):
                x = node.inputs[0]
                one_of_several = bool(x.inputs) and isinstance(x.inputs[0].type, tuple)
                named.discard(node)
                named.add(node if one_of_several else x)  # prefer the value that has the name
        return [
            n for n in inner if n in named or (self.dots and isinstance(n.op, SumOfProductsKind))
        ]

    def _saved_values(self, xs: tuple[Node, ...], saved: list[Node]) -> list[Node]:
        """Return the values to save, as further results of the same graph."""
        if not saved:
            return []
        graph = self.graph
        outputs = [*graph.outputs, *[n for n in saved if n not in graph.outputs]]
        made = result_nodes(replace(self, graph=Graph(graph.inputs, outputs, graph.names))(*xs))
        return [made[outputs.index(n)] for n in saved]

    def _recomputed(self, inputs: Sequence[Node], saved: dict[Node, Node]) -> list[Node]:
        """Return the outputs, recomputed from the inputs and the saved values."""
        graph = self.graph
        pairs = zip(graph.inputs, inputs, strict=True)
        new = {i: node_varying_over(x, i.type.varying) for i, x in pairs}
        where = thread.where
        for node in graph.nodes[len(graph.inputs) :]:
            thread.where = node.where
            xs = tuple([new[x] for x in node.inputs])
            if not xs and isinstance(node.op, DistinctKind):
                new[node] = node  # a leaf
            elif node in saved:
                new[node] = apply_op_to_nodes(Kept(node.op), (saved[node], *xs))
            else:
                new[node] = apply_op_to_nodes(node.op, xs)
        thread.where = where
        return [new[y] for y in graph.outputs]

    def jvp(
        self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None], tangents: Callable
    ) -> Any:
        """The tangents are a checkpoint too, so that their reverse mode does not save more."""
        inputs = [placeholder(f"x{i}", x.type) for i, x in enumerate(xs)]
        given = [t if t is None else placeholder(f"t{i}", t.type) for i, t in enumerate(ts)]
        with ambient_tracing_state(next_number(), frozen=False):
            pushed = tangents(self.graph(*inputs), inputs, given)
        known, found = [*inputs, *filter(None, given)], list(filter(None, pushed))
        if not found:
            return None
        extra = held_captured_values(found, known)
        graph = Graph([*known, *extra], found)
        made = iter(result_nodes(replace(self, graph=graph)(*xs, *filter(None, ts), *extra)))
        return tuple([None if t is None else next(made) for t in pushed])

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Node:
        return replace(self, graph=batched_graph(self.graph, axis, mapped)[0])(*xs)

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """`other` must be the same graph, perhaps with further results."""
        if not isinstance(other, Checkpoint) or tuple(xs) != tuple(ys):
            return None
        mine, theirs = self.graph.structure.parts, other.graph.structure.parts
        same = theirs[: len(mine)] == mine
        return range(len(self.graph.outputs)) if same else None

    @classmethod
    def samples(cls) -> Any:
        x, y = (Input(f"x{i}", (3, 3), float64)() for i in range(2))
        z = Named("z")(TABLE["Sin"]()(TABLE["MatMul"]()(x, y)))
        graph = Graph((x, y), (z * x, z * z))
        operands = real(3, 3), real(3, 3, salt=1)
        yield cls("f", graph), operands
        yield cls("f", graph, True), operands
        yield cls("f", graph, False, ("z",)), operands
