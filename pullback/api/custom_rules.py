"""Custom derivative rules as rules on nodes: called, checked, transposed and batched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.api.custom_arguments import CustomArguments
from pullback.api.custom_results import (
    adopt_custom_result,
    expect_custom_result,
    line_of_custom_result,
)
from pullback.api.named_axes import bind, bound_axes, rebind_axes
from pullback.api.placeholders import stage_placeholder_types
from pullback.errors import ArgumentError, GradientVerification, UnsupportedOp
from pullback.graph.ambient import ambient_tracing_state, thread
from pullback.graph.node import Node, next_number
from pullback.graph.types import Type
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.prelude import Axis, spread, sum_to, zeros
from pullback.ops.sources import placeholder
from pullback.ops.wrap.custom import CustomDerivativeRule
from pullback.transforms.batch import batched_graph
from pullback.transforms.reverse import gradients, reverse_path

if TYPE_CHECKING:
    from pullback.api.custom_vjp_jvp import CustomFunction


@dataclass(frozen=True)
class UserCustomRule(CustomDerivativeRule):
    """The rule of one call: the user's functions, and the call's static values.

    Rules with the same `key` are equal; the rest follows from it.
    """

    key: tuple
    custom: CustomFunction = field(compare=False)
    call: CustomArguments = field(compare=False)
    out_tree: Any = field(compare=False)
    axes: tuple = field(default_factory=bound_axes, compare=False)  # bound at the call

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.custom.name

    def __repr__(self) -> str:
        return f"rule of {self.name}"

    def pull(self, xs: Sequence[Node], outs: Sequence[Node], gs: Sequence[Node]) -> Sequence:
        first = next_number()
        if self.custom.bwd is None:
            return adopt_custom_result(self._transposed(xs, outs, gs), first)
        with self._running(xs, outs):
            residuals = self._run_fwd(xs, outs)
            g = tree.unflatten(self.out_tree, [wrap(g) for g in gs])
            found = self.custom.bwd(*self.call.static, residuals, g)
        return adopt_custom_result(
            self.call.cotangents(self.name, self.custom.bwd, found, xs), first
        )

    def _run_fwd(self, xs: Sequence[Node], outs: Sequence[Node]) -> Any:
        """The residuals."""
        fwd = self.custom.fwd
        assert fwd is not None
        made = self.call(fwd, [wrap(x) for x in xs])
        self._require_pair(made, "fwd must return a pair (result, residuals)", fwd)
        expect_custom_result(self.name, "fwd's result", fwd, made[0], self.out_tree, outs)
        return made[1]

    def _transposed(
        self, xs: Sequence[Node], outs: Sequence[Node], gs: Sequence[Node]
    ) -> list[Node | None]:
        """The transpose of the jvp: reverse mode at any tangents, since it is linear in them."""
        ts = [placeholder("t", x.type) if x.type.inexact else None for x in xs]
        with ambient_tracing_state(next_number(), frozen=False):
            pushed = self.push(xs, outs, ts)
        chosen = [t for t in ts if t is not None]
        pairs = [(y, g) for y, g in zip(pushed, gs, strict=True) if y is not None]
        found = gradients([y for y, _ in pairs], [g for _, g in pairs], chosen)
        if reverse_path([c for c in found if c is not None], chosen):
            assert self.custom.jvp is not None
            message = f"{self.name}: the jvp must be linear in the tangents, or it has no transpose"
            hint = "Reverse mode transposes it. Otherwise give f.defvjp(fwd, bwd) as well."
            raise GradientVerification(
                message, where=line_of_custom_result(self.custom.jvp), hint=hint
            )
        remaining = iter(found)
        return [None if t is None else next(remaining) for t in ts]

    def push(self, xs: Sequence[Node], outs: Sequence[Node], ts: Sequence[Node | None]) -> Sequence:
        rule = self.custom.jvp
        if rule is None:
            raise UnsupportedOp(
                "forward mode needs a jvp rule, but the function has only a vjp rule",
                op=self.name, where=thread.where,
                hint=f"Give it one: {self.name}.defjvp(rule), with rule(primals, tangents) -> "
                "(result, tangent).\nReverse mode (grad, vjp, jacrev) works without one.",
            )  # fmt: skip
        given = [zeros(x.type) if t is None else t for x, t in zip(xs, ts, strict=True)]
        with self._running(xs, outs):
            primals = self.call.arguments([wrap(x) for x in xs])
            tangents = self.call.arguments([wrap(t) for t in given], others=0.0)
            made = rule(*self.call.static, tuple(primals), tuple(tangents), **self.call.keywords)
        self._require_pair(made, "the jvp must return a pair (result, tangent)", rule)
        expect_custom_result(self.name, "the jvp's result", rule, made[0], self.out_tree, outs)
        return expect_custom_result(
            self.name, "the jvp's tangent", rule, made[1], self.out_tree, outs
        )

    def _require_pair(self, made: Any, what: str, f: Callable) -> None:
        if not isinstance(made, tuple) or len(made) != 2:
            got = f"{self.name}: {what}, got {type(made).__name__}"
            raise ArgumentError(got, where=line_of_custom_result(f))

    def batched(self, axis: Axis, mapped: Sequence[bool]) -> CustomDerivativeRule:
        return BatchedCustomRule(self, axis, tuple(mapped))

    @contextmanager
    def _running(self, xs: Sequence[Node], outs: Sequence[Node]) -> Iterator[None]:
        """While the rule runs, a call of its own function on the same arguments returns the known
        results: nothing is computed twice."""
        thread.custom_calls.append((self, tuple(xs), tuple(outs)))
        try:
            with rebind_axes(self.axes):
                yield
        finally:
            thread.custom_calls.pop()


@dataclass(frozen=True)
class BatchedCustomRule(CustomDerivativeRule):
    """The rule of all examples, which batches the programs that the rule of one example records."""

    rule: CustomDerivativeRule
    axis: Axis
    mapped: tuple[bool, ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.rule.name

    def pull(self, xs: Sequence[Node], outs: Sequence[Node], gs: Sequence[Node]) -> Sequence:
        found = self._apply(self.rule.pull, xs, outs, gs, [True] * len(outs))
        made = []
        for x, has_axis, c in zip(xs, self.mapped, found, strict=True):
            if c is not None and has_axis and c.type.shape != x.type.shape:
                c = spread(c, self.axis)
            made.append(None if c is None else sum_to(c, x.type))
        return made

    def push(self, xs: Sequence[Node], outs: Sequence[Node], ts: Sequence[Node | None]) -> Sequence:
        given = [zeros(x.type) if t is None else t for x, t in zip(xs, ts, strict=True)]
        found = self._apply(self.rule.push, xs, outs, given, self.mapped)
        return [
            t if t is None or t.type.shape == y.type.shape else spread(t, self.axis)
            for y, t in zip(outs, found, strict=True)
        ]

    def batched(self, axis: Axis, mapped: Sequence[bool]) -> CustomDerivativeRule:
        return BatchedCustomRule(self, axis, tuple(mapped))

    def _apply(self, rule: Callable, *parts_and_flags: Any) -> list[Node | None]:
        """Stage `rule` for one example of arguments, results and (co)tangents; run it batched."""
        *parts, last = parts_and_flags
        flags = [*self.mapped, *[True] * len(parts[1]), *last]
        nodes = [x for part in parts for x in part]
        types = [self._example(x.type, has) for x, has in zip(nodes, flags, strict=True)]
        sizes = [len(part) for part in parts]

        def run(*tensors: Tensor) -> list[Tensor | None]:
            rest = iter([t._node for t in tensors])
            made = rule(*[[next(rest) for _ in range(n)] for n in sizes])
            return [None if y is None else wrap(y) for y in made]

        with bind(self.axis):
            staged = stage_placeholder_types(self.name, run, types, frozen=False)
        wide, _ = batched_graph(staged.graph, self.axis, [*flags, *[False] * len(staged.captured)])
        made = wide(*nodes, *staged.captured)
        layout = tree.unflatten(staged.structure, range(len(made)))
        return [None if i is None else made[i] for i in layout]

    def _example(self, type: Type, has_axis: bool) -> Type:
        axes = type.varying if self.axis.name is None else (*type.varying, self.axis.name)
        shape = type.shape[1:] if has_axis else type.shape
        return Type(shape, type.dtype, None, tuple(sorted(axes)))
