"""Checkpoints: programs whose values are computed again when a derivative needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.ambient import thread
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.node import emit, results, vary_over
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type
from pullback.ops.samples import real
from pullback.ops.sources import Input, placeholder
from pullback.ops.wrap.call import Call
from pullback.ops.wrap.identity import Alias, Barrier, _Identity


class Named(_Identity):
    """Hands its operand on, under a name that policies of checkpoints know it by."""

    label: str
    executed: ClassVar[Any] = Alias()

    @classmethod
    def samples(cls) -> Any:
        yield cls("a"), (real(3, 4),)


class Kept(Op, abstract=True):
    """The value of its first operand, which is what `op` gives on the others.

    Programs look through it; derivatives see the op, and the value as its result.
    """

    op: Op
    transparent: ClassVar[bool] = True
    higher: ClassVar[bool] = True

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.op.title

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return self.op.differentiable

    @property
    def singular(self) -> bool:  # type: ignore[override]
        return self.op.singular

    def infer(self, x: Type, *xs: Type) -> Type:
        return x

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs

    def _derive_type(self, types: tuple[Type, ...]) -> Type:
        return types[0]

    def numpy(self, x: np.ndarray, *xs: np.ndarray) -> np.ndarray:
        return x

    def hlo(self, b: Any, out: Type, x: Any, *xs: Any) -> Any:
        return x

    def partition(self, to: Any, xs: Sequence[Any], type: Type) -> Any:  # type: ignore[override]
        return xs[0]

    def vjp(
        self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        if self.op.vjp is not None:
            handed = (gradients,) if self.op.higher else ()
            return [None, *self.op.vjp(g, out, xs[1:], need[1:], *handed)]
        inputs = [Alias()(x) for x in xs[1:]]
        chosen = [x for x, n in zip(inputs, need[1:], strict=True) if n]
        found = iter(gradients([self.op(*inputs)], [g], chosen))
        return [None, *[next(found) if n else None for n in need[1:]]]

    def jvp(
        self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None], tangents: Callable
    ) -> Node | None:
        if self.op.jvp is not None:
            handed = (tangents,) if self.op.higher else ()
            return self.op.jvp(out, xs[1:], ts[1:], *handed)
        inputs = [Alias()(x) for x in xs[1:]]
        return tangents([self.op(*inputs)], inputs, ts[1:])[0]

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Node:
        return xs[0]  # whose own derivative is the same: it was computed from the same values


class Checkpoint(Call):
    """A call whose values inside are not kept for the backward pass, but computed again there.

    What the policy names is kept all the same: products (`dots`), and values under `names`.
    """

    dots: bool = False
    names: tuple[str, ...] = ()
    higher: ClassVar[bool] = True
    sparse: ClassVar[bool] = True

    def vjp(
        self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        saved = self._saved()
        values = self._values(xs, saved)
        # The barrier holds the cotangents too: the work is done again when they are there, and
        # not before; and no pass finds that it was done already. A number stays a number.
        free = [not x.inputs and not x.type.shape for x in xs]
        held = [x for x, f in zip(xs, free, strict=True) if not f]
        tied = iter(results(Barrier()(*held, *values, *[c for c in g if c is not None])))
        inputs = [Alias()(x if f else next(tied)) for x, f in zip(xs, free, strict=True)]
        ys = self._again(inputs, {n: next(tied) for n in saved})
        found = iter(gradients(ys, g, [x for x, n in zip(inputs, need) if n]))
        return [next(found) if n else None for n in need]

    def _saved(self) -> list[Node]:
        """The nodes whose values are kept; an input is there anyway."""
        named: set[Node] = set()
        inner = self.graph.nodes[len(self.graph.inputs) :]
        for node in reversed(inner):
            if type(node.op) is Named and (node.op.label in self.names or node in named):
                x = node.inputs[0]
                one_of_several = bool(x.inputs) and isinstance(x.inputs[0].type, tuple)
                named.discard(node)
                named.add(node if one_of_several else x)  # rather the value that has the name
        return [n for n in inner if n in named or (self.dots and n.op.product)]

    def _values(self, xs: tuple[Node, ...], saved: list[Node]) -> list[Node]:
        """The values to keep: further results of the same program."""
        if not saved:
            return []
        graph = self.graph
        outputs = [*graph.outputs, *[n for n in saved if n not in graph.outputs]]
        larger = Checkpoint(
            self.label, Graph(graph.inputs, outputs, graph.names), self.dots, self.names
        )
        made = results(larger(*xs))
        return [made[outputs.index(n)] for n in saved]

    def _again(self, inputs: Sequence[Node], saved: dict[Node, Node]) -> list[Node]:
        """The outputs once more; a value that was saved is taken, and not computed."""
        graph = self.graph
        pairs = zip(graph.inputs, inputs, strict=True)
        new = {i: vary_over(x, i.type.varying) for i, x in pairs}
        where = thread.where
        for node in graph.nodes[len(graph.inputs) :]:
            thread.where = node.where
            if not node.inputs and not node.op.mergeable:
                new[node] = node  # a leaf is itself
                continue
            xs = tuple([new[x] for x in node.inputs])
            if node in saved:
                new[node] = emit(Kept(node.op), (saved[node], *xs))
            else:
                new[node] = emit(node.op, xs)
        thread.where = where
        return [new[y] for y in graph.outputs]

    def jvp(
        self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None], tangents: Callable
    ) -> Any:
        """The program of tangents is a checkpoint too: its reverse does not keep more."""
        inputs = [placeholder(f"x{i}", x.type) for i, x in enumerate(xs)]
        given = [t if t is None else placeholder(f"t{i}", t.type) for i, t in enumerate(ts)]
        pushed = tangents(self.graph(*inputs), inputs, given)
        all_inputs = [*inputs, *[t for t in given if t is not None]]
        graph = Graph(all_inputs, [t for t in pushed if t is not None])
        if not graph.outputs:
            return None
        op = Checkpoint(self.label, graph, self.dots, self.names)
        made = iter(results(op(*xs, *[t for t in ts if t is not None])))
        return tuple([None if t is None else next(made) for t in pushed])

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Node:
        graph, _ = batched_graph(self.graph, axis, mapped)
        return Checkpoint(self.label, graph, self.dots, self.names)(*xs)

    def within(self, xs: Sequence[Node], other: Op, ys: Sequence[Node]) -> Sequence[int] | None:
        """The same program with further results includes this one."""
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
