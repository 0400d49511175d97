"""While: a loop that runs as long as a condition holds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, ShapeError, UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.canonical import canonicalise
from pullback.graph.dtypes import bool_, float64, int64
from pullback.graph.graph import Graph
from pullback.graph.node import node_varying_over
from pullback.graph.subgraph import embed_subgraph
from pullback.graph.types import show_types
from pullback.ops.control import body_partition, holder
from pullback.ops.control.dependence import (
    dependence_active_inputs,
    dependence_bits,
    dependence_members,
    derivative_dependence,
)
from pullback.ops.control.holder import Holder, canonical_holder_graph, hold, run_held
from pullback.ops.control.masked_examples import replace_masked_examples, select_masked_examples
from pullback.ops.control.varying import Axes, varying_axes_of, varying_while_graphs
from pullback.ops.elementwise.functions import both, greater, less
from pullback.ops.imported import Imported
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type, result_nodes, spread, zeros
from pullback.ops.samples import real
from pullback.ops.sources import Input, placeholder
from pullback.ops.traits import trait_communicates
from pullback.ops.wrap.call import check_call_operands
from pullback.sharding.spec import layout


class While(Holder):
    """Runs `body` on the state, the first `carries` operands, while `condition` holds.

    Both graphs take the state and constants; the results are the last state.
    """

    condition: Graph
    body: Graph
    carries: int
    fallible: ClassVar[bool] = True  # it may never end
    imported = Imported(("while",))

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        condition, body = i.graphs
        return cls(condition, body, len(i.types))

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        operands = [x.plain for x in xs]
        for graph in self.graphs:
            check_call_operands(graph, operands)
        answer = [y.type.plain for y in self.condition.outputs]
        if answer != [Type((), bool_)]:
            raise ShapeError(f"the condition must return one bool[], got {show_types(answer)}")
        state, outs = operands[: self.carries], [y.type.plain for y in self.body.outputs]
        if outs != state:
            got = f"{show_types(state)}, then {show_types(outs)}"
            raise ShapeError(f"the state must keep its types, got {got}", code="E2001")
        return tuple(state)

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        self._refuse_collectives(self.condition.outputs[0].type.varying)
        return super()._derive_type(types)

    def _refuse_collectives(self, axes: Sequence[str]) -> None:
        """Raise if the loop communicates along an axis on which it may end at different times."""
        for a in axes:
            if a in self.communicates():
                raise ArgumentError(
                    f"a loop that communicates along axis {a!r} must run equally often for all "
                    "examples along it",
                    hint="Let the condition depend on values that are the same for all examples, "
                    "such as results of pb.pmax.",
                )

    def over(self, axes: Sequence[Axes]) -> While:
        condition, body = varying_while_graphs(self.condition, self.body, axes, self.carries)
        return While(canonical_holder_graph(condition), canonical_holder_graph(body), self.carries)

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        state, constants = xs[: self.carries], xs[self.carries :]
        for i in itertools.count():
            if not run_held(self.condition, [*state, *constants])[0]:
                break
            state = tuple(run_held(self.body, [*state, *constants], i))
        return tuple(state)

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> tuple:
        state, constants = xs[: self.carries], xs[self.carries :]
        return b.loop(
            state,
            lambda *s: b.inline(self.condition, [*s, *constants], held=True)[0],
            lambda *s: b.inline(self.body, [*s, *constants], held=True),
            axes=self.communicates(),
        )

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        state, _ = body_partition.body_partition_state(
            mesh, self.body, xs[: self.carries], xs[self.carries :]
        )
        return [t.sharding for t in state]

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:
        n = self.carries
        types = [x.type(to.mesh) for x in xs]
        state, _ = body_partition.body_partition_state(to.mesh, self.body, types[:n], types[n:])
        inner = [*state, *types[n:]]
        layouts = [layout(t) for t in inner]
        operands = [to.ask(x, dims).node for x, dims in zip(xs, layouts, strict=True)]
        body = body_partition.body_partition_graph(to, self.body, inner, layouts[:n])
        answer = body_partition.body_partition_graph(to, self.condition, inner, [()])
        loop = While(answer, body, n)
        if not any(trait_communicates(node.op) for node in answer.nodes):
            return to.local_values(to.results(loop, operands), type, layouts[:n])
        # Devices cannot communicate in a condition: its next value becomes part of the state.
        given = [node_varying_over(x, i.type.varying) for x, i in zip(operands, answer.inputs)]
        (first,) = to.inline(answer, given)
        loop = loop._with_condition_in_state()
        found = to.results(loop, [*operands[:n], first, *operands[n:]])
        return to.local_values(found[:n], type, layouts[:n])

    def _with_condition_in_state(self) -> While:
        """Return the loop with one more state: whether to continue."""
        n = self.carries
        inputs = [placeholder("x", x.type) for x in self.body.inputs]
        going = placeholder("going", self.condition.outputs[0].type)
        made = self.body(*inputs)
        still = self.condition(*made, *inputs[n:])
        ordered = [*inputs[:n], going, *inputs[n:]]
        graphs = [Graph(ordered, outputs) for outputs in ((going,), (*made, *still))]
        condition, body = (canonicalise(graph, True) for graph in graphs)
        return While(condition, body, n + 1)

    def vjp(
        self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        active = dependence_active_inputs(
            derivative_dependence(self.body), self.carries, dependence_bits(need)
        )
        if all(g[i] is None for i in dependence_members(active) if i < self.carries):
            return [None] * len(xs)
        raise UnsupportedOp(
            "has no reverse-mode rule: the number of iterations, and so the memory for their "
            "residuals, is unknown",
            op="while_loop", where=thread.where,
            hint="Use pb.scan, pb.fori_loop with bounds that are Python ints, forward mode "
            "(pb.jvp, pb.jacfwd),\nor pb.custom_vjp if the gradient has a closed form.",
        )  # fmt: skip

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence, tangents: Callable) -> Any:
        """Compute values and tangents in one loop."""
        given = tuple([t is not None for t in ts])
        active, loop, extra = self.derived(("jvp", given), lambda: self._pushed(given, tangents))
        n = self.carries
        pushed = {i: ts[i] or zeros(xs[i].type) for i in active}
        made = result_nodes(loop(*holder.interleave_held(xs, pushed, n), *extra))
        return tuple(holder.holder_at_positions(n, [i for i in active if i < n], made[n:]))

    def _pushed(
        self, given: Sequence[bool], tangents: Callable
    ) -> tuple[list[int], While, list[Node]]:
        """Return the operands that have tangents, the loop over values and tangents, and the values
        that rules captured, its last operands."""
        body, n = self.body, self.carries
        active = dependence_members(
            dependence_active_inputs(derivative_dependence(body), n, dependence_bits(given))
        )
        ts, made = holder.push_through_holder(body, active, [i for i in active if i < n], tangents)
        inputs = holder.interleave_held(body.inputs, ts, n)
        outputs = [*body.outputs, *made.values()]
        extra = holder.held_captured_values(outputs, inputs)
        tested = [*holder.interleave_held(self.condition.inputs, ts, n), *extra]
        condition = hold(tested, self.condition.outputs)
        return active, While(condition, hold([*inputs, *extra], outputs), n + len(made)), extra

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Any:
        key = ("batch", axis, tuple(mapped))
        loop, begins, flags = self.derived(key, lambda: self._batched(axis, mapped, batched_graph))
        triples = zip(xs, mapped, flags, strict=True)
        operands = [spread(x, axis) if has and not had else x for x, had, has in triples]
        state, constants = operands[: self.carries], operands[self.carries :]
        going = begins(*operands) if begins is not None else ()
        return result_nodes(loop(*state, *going, *constants))[: self.carries]

    def _batched(
        self, axis: Axis, mapped: Sequence[bool], batched_graph: Callable
    ) -> tuple[While, Graph | None, list[bool]]:
        """Return the loop over all examples, a graph that tells which of them enter it (None: all
        run equally often), and which operands are mapped."""
        n = self.carries
        flags = list(mapped)
        while True:
            condition, (differs,) = batched_graph(self.condition, axis, flags)
            body, found = batched_graph(self.body, axis, flags, flags[:n])
            asked = [True] * n if differs else found
            if asked == flags[:n]:
                break
            flags[:n] = asked
        condition, body = map(
            canonical_holder_graph,
            varying_while_graphs(condition, body, varying_axes_of(body.inputs), n),
        )
        if not differs:
            return While(condition, body, n), None, flags
        self._refuse_collectives(() if axis.name is None else (axis.name,))
        return _while_any_runs(condition, body, n, flags), condition, flags

    def within(self, xs: Sequence[Node], other: Any, ys: Sequence[Node]) -> Sequence[int] | None:
        """`other` must have this initial state and these constants among its own."""
        if not isinstance(other, While):
            return None
        n, m = self.carries, other.carries
        state = holder.holder_states_among(xs[:n], ys[:m])
        constants = holder.holder_positions_among(xs[n:], ys[m:])
        if state is None or constants is None:
            return None
        inputs = [*state, *[m + i for i in constants]]
        ends = embed_subgraph(self.condition, other.condition, inputs)
        found = embed_subgraph(self.body, other.body, inputs)
        if ends is None or found is None or tuple(ends) != other.condition.outputs:
            return None
        same = all(other.body.outputs[i] is y for i, y in zip(state, found, strict=True))
        return state if same else None

    @classmethod
    def samples(cls) -> Any:
        i, limit = (Input(label, (), int64)() for label in ("i", "limit"))
        x, w = (Input(label, (3,), float64)() for label in "xw")
        below = hold((i, x, limit, w), (less(i, limit),))
        step = hold((i, x, limit, w), (i + 1, TABLE["Sin"]()(x * w) + x))
        for count in (0, 1, 4):
            yield cls(below, step, 2), (np.int64(0), real(3), np.int64(count), real(3, salt=1))
        total = TABLE["Sum"]((0,), False)(x * x)
        large = hold((x, w), (greater(total, 0.1),))
        yield cls(large, hold((x, w), (x * w,)), 1), (real(3), real(3, low=0.3, high=0.8))


def _while_any_runs(condition: Graph, body: Graph, n: int, mapped: Sequence[bool]) -> While:
    """Return a loop that runs while any example continues; finished ones keep their state. Which
    examples continue is part of the state. If the body may fail, finished examples run it on the
    state of one that continues."""
    inputs = [placeholder("x", x.type) for x in body.inputs]
    state, constants = inputs[:n], inputs[n:]
    (first,) = condition.outputs
    going = placeholder("going", first.type)
    given = inputs
    if holder.held_may_fail(body):
        pairs = zip(inputs, mapped, strict=True)
        given = [replace_masked_examples(going, x) if has else x for x, has in pairs]
    new = [select_masked_examples(going, y, x) for x, y in zip(state, body(*given), strict=True)]
    still = both(going, condition(*new, *constants)[0])
    ordered = [*state, going, *constants]
    any_going = Graph(ordered, (TABLE["Any"]((0,), False)(going),))
    step = Graph(ordered, (*new, still))
    any_going, step = varying_while_graphs(any_going, step, varying_axes_of(ordered), n + 1)
    return While(canonical_holder_graph(any_going), canonical_holder_graph(step), n + 1)
