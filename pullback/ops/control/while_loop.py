"""While: a loop that a condition ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, ShapeError, UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.canonical import canonicalise
from pullback.graph.dtypes import bool_, float64, int64
from pullback.graph.graph import Graph
from pullback.graph.node import vary_over
from pullback.graph.subgraph import embed
from pullback.graph.types import show
from pullback.ops.control import partition
from pullback.ops.control.dependence import bits, carried, dependence, positions
from pullback.ops.control.holder import (
    Holder,
    derivative,
    held,
    hold,
    may_fail,
    paired,
    places_among,
    run,
    states_among,
)
from pullback.ops.control.masked import borrowed, chosen
from pullback.ops.control.varying import Axes, axes_of, while_graphs
from pullback.ops.elementwise.base import both, greater, less
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type, results, spread, zeros
from pullback.ops.samples import real
from pullback.ops.sources import Input, placeholder
from pullback.ops.wrap.call import check_operands
from pullback.sharding.spec import layout


class While(Holder):
    """Runs `body` on the state, the first `carries` operands, while `condition` holds of it.

    Both take the state and constants; the results are the last state.
    """

    condition: Graph
    body: Graph
    carries: int
    fallible: ClassVar[bool] = True  # it may never end
    instructions = ("while",)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        condition, body = i.graphs
        return cls(condition, body, len(i.types))

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        operands = [x.plain for x in xs]
        for graph in self.graphs:
            check_operands(graph, operands)
        answer = [y.type.plain for y in self.condition.outputs]
        if answer != [Type((), bool_)]:
            raise ShapeError(f"the condition must give one bool[], got {show(answer)}")
        state, outs = operands[: self.carries], [y.type.plain for y in self.body.outputs]
        if outs != state:
            got = f"{show(state)} to {show(outs)}"
            raise ShapeError(f"the state must keep its types, got {got}", code="E2001")
        return tuple(state)

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        self._refuse_collectives(self.condition.outputs[0].type.varying)
        return super()._derive_type(types)

    def _refuse_collectives(self, axes: Sequence[str]) -> None:
        """Those that go on would wait for those that have ended."""
        for a in axes:
            if a in self.communicates():
                raise ArgumentError(
                    f"a loop that communicates along axis {a!r} must go on for every example along "
                    "it alike",
                    hint="Let the condition depend on values that are the same for all, as pb.pmax "
                    "gives.",
                )

    def over(self, axes: Sequence[Axes]) -> While:
        condition, body = while_graphs(self.condition, self.body, axes, self.carries)
        return While(held(condition), held(body), self.carries)

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        state, constants = xs[: self.carries], xs[self.carries :]
        while run(self.condition, [*state, *constants])[0]:
            state = tuple(run(self.body, [*state, *constants]))
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
        state, _ = partition.settled(mesh, self.body, xs[: self.carries], xs[self.carries :])
        return [t.sharding for t in state]

    def partition(self, to: Any, xs: Sequence[Any], type: Any) -> tuple:  # type: ignore[override]
        n = self.carries
        types = [x.type(to.mesh) for x in xs]
        state, _ = partition.settled(to.mesh, self.body, types[:n], types[n:])
        inner = [*state, *types[n:]]
        layouts = [layout(t) for t in inner]
        operands = [to.ask(x, dims).node for x, dims in zip(xs, layouts, strict=True)]
        body = partition.local(to, self.body, inner, layouts[:n])
        answer = partition.local(to, self.condition, inner, [()])
        loop = While(answer, body, n)
        if not any(node.op.communicates() for node in answer.nodes):
            return to.placed(to.results(loop, operands), type, layouts[:n])
        # Devices do not communicate in a condition: whether to go on is part of the state.
        given = [vary_over(x, i.type.varying) for x, i in zip(operands, answer.inputs)]
        (first,) = to.inline(answer, given)
        loop = loop._asking_ahead()
        found = to.results(loop, [*operands[:n], first, *operands[n:]])
        return to.placed(found[:n], type, layouts[:n])

    def _asking_ahead(self) -> While:
        """The loop with one more state, which tells whether it goes on."""
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
        depends = dependence(self.body)
        active = carried(depends, self.carries, bits(positions(need)))
        if all(g[i] is None for i in range(self.carries) if active >> i & 1):
            return [None] * len(xs)
        raise UnsupportedOp(
            "has no reverse-mode rule, for the number of rounds, and so what they need to keep, is "
            "not known",
            op="while_loop", where=thread.where,
            hint="Use pb.scan, or pb.fori_loop with bounds that are Python ints; forward mode "
            "(pb.jvp, pb.jacfwd);\nor pb.custom_vjp, where the gradient is known in closed form.",
        )  # fmt: skip

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence, tangents: Callable) -> Any:
        """One loop for values and tangents: the state has a tangent if it has one in any round."""
        given = tuple([t is not None for t in ts])
        active, loop = self.derived(("jvp", given), lambda: self._pushed(given, tangents))
        n = self.carries
        pushed = {i: ts[i] or zeros(xs[i].type) for i in active}
        made = results(loop(*paired(xs, pushed, n)))
        found: list[Node | None] = [None] * n
        for k, i in enumerate([i for i in active if i < n]):
            found[i] = made[n + k]
        return tuple(found)

    def _pushed(self, given: Sequence[bool], tangents: Callable) -> tuple[list[int], While]:
        body, n = self.body, self.carries
        mask = carried(dependence(body), n, bits(positions(given)))
        active = [i for i in range(len(body.inputs)) if mask >> i & 1]
        ts = {i: placeholder("t", body.inputs[i].type) for i in active}
        moving = [body.outputs[i] for i in active if i < n]
        found = tangents(moving, [body.inputs[i] for i in active], list(ts.values()))
        made = [derivative(y, t) for y, t in zip(moving, found, strict=True)]
        answer = self.condition
        goes_on = hold(paired(answer.inputs, ts, n), answer.outputs)
        step = hold(paired(body.inputs, ts, n), [*body.outputs, *made])
        return active, While(goes_on, step, n + len(moving))

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Any:
        key = ("batch", axis, tuple(mapped))
        made = self.derived(key, lambda: self._batched(axis, mapped, batched_graph))
        loop, begins, flags = made
        operands = [
            spread(x, axis) if has and not had else x
            for x, had, has in zip(xs, mapped, flags, strict=True)
        ]
        state, constants = operands[: self.carries], operands[self.carries :]
        going = begins(*operands) if begins is not None else ()
        return results(loop(*state, *going, *constants))[: self.carries]

    def _batched(
        self, axis: Axis, mapped: Sequence[bool], batched_graph: Callable
    ) -> tuple[While, Graph | None, list[bool]]:
        """The loop over examples in each round; from the operands to which examples enter it, if
        they do not go on alike; and which operands have the axis."""
        n = self.carries
        flags = list(mapped)
        while True:
            condition, (differs,) = batched_graph(self.condition, axis, flags)
            body, found = batched_graph(self.body, axis, flags, flags[:n])
            asked = [True] * n if differs else found
            if asked == flags[:n]:
                break
            flags[:n] = asked
        condition, body = map(held, while_graphs(condition, body, axes_of(body.inputs), n))
        if not differs:
            return While(condition, body, n), None, flags
        self._refuse_collectives(() if axis.name is None else (axis.name,))
        return _until_all_end(condition, body, n, flags), condition, flags

    def within(self, xs: Sequence[Node], other: Op, ys: Sequence[Node]) -> Sequence[int] | None:
        """Another loop does the same if it begins with this state and has these constants."""
        if not isinstance(other, While):
            return None
        n, m = self.carries, other.carries
        state, constants = states_among(xs[:n], ys[:m]), places_among(xs[n:], ys[m:])
        if state is None or constants is None:
            return None
        inputs = [*state, *[m + i for i in constants]]
        ends = embed(self.condition, other.condition, inputs)
        found = embed(self.body, other.body, inputs)
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


def _until_all_end(condition: Graph, body: Graph, n: int, mapped: Sequence[bool]) -> While:
    """A loop that goes on while one example does; those that are done keep their state.

    Which go on is part of the state. If the body may fail, the others run it on the state of one
    that goes on.
    """
    inputs = [placeholder("x", x.type) for x in body.inputs]
    state, constants = inputs[:n], inputs[n:]
    (first,) = condition.outputs
    going = placeholder("going", first.type)
    lent = [*state, *constants]
    if may_fail(body):
        lent = [borrowed(going, x) if has else x for x, has in zip(lent, mapped, strict=True)]
    made = body(*lent)
    new = [chosen(going, y, x) for x, y in zip(state, made, strict=True)]
    still = both(going, condition(*new, *constants)[0])
    ordered = [*state, going, *constants]
    goes_on = Graph(ordered, (TABLE["Any"]((0,), False)(going),))
    step = Graph(ordered, (*new, still))
    goes_on, step = while_graphs(goes_on, step, axes_of(ordered), n + 1)
    return While(held(goes_on), held(step), n + 1)
