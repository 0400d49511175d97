"""Traces: the program that a function recorded, to print, replay and differentiate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.closure import close_over
from pullback.api.recording import (
    Recording,
    RecordingTransform,
    deliver_from_recording,
    recorded_outputs,
)
from pullback.api.signatures import Params, Tree
from pullback.api.vjp_jvp import matching_jvp_tangents, matching_vjp_jvp_derivatives
from pullback.errors import ArgumentError, GradientCut, TraceError
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.graph.derivative_tokens import DerivativeToken
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.html import html_program
from pullback.graph.node import Node
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import ones, zeros_like
from pullback.ops.sources import placeholder
from pullback.transforms.reverse import Contribution, accumulate, gradients, reverse_path


@with_argument_checks
def trace(f: Callable[Params, Tree], *args: Params.args, **kwargs: Params.kwargs) -> Trace:
    """Run `f` and return the program that it recorded.

    Printed, it is a module that `pb.ir.parse` reads.

    >>> t = pb.trace(lambda x: x * x + x, pb.tensor([1.0, 2.0]))
    >>> print(t)
    %0 = Input() {name: "x"} : Tensor<f32, [2]>
    %1 = BinOp(Mul, %0, %0) : Tensor<f32, [2]>
    %2 = BinOp(Add, %1, %0) : Tensor<f32, [2]>
    outputs: %2
    >>> t.replay(pb.tensor([3.0, 4.0])).tolist()
    [12.0, 20.0]
    """
    return Trace(f, args, kwargs)


@boundary_methods
class Trace:
    """The program of a function for arguments of given types.

    `inputs` are the tensors among the arguments; `names` are their parameters, with the path.
    """

    def __init__(self, f: Callable, args: Sequence[Any], kwargs: dict) -> None:
        with RecordingTransform(args, kwargs):
            self._recording = Recording("trace", f, args, kwargs, range(len(args)))
        self.names = trace_input_names(f, args)
        self._outputs, self._structure = recorded_outputs("trace", self._recording.result)
        self._made = [y._node for y in self._outputs]  # now: users may write to the handles later

    @property
    def inputs(self) -> list[Tensor]:
        return self._recording.tensors

    @property
    def outputs(self) -> list[Tensor]:
        return self._outputs

    @property
    def nodes(self) -> list[Node]:
        """The recorded nodes in topological order, without inputs."""
        outside = self._outside()
        return [n for n in graph_ancestors(self._made, outside) if not outside(n)]

    @property
    def graph(self) -> Graph:
        """The program; tensors from outside are additional inputs at the end."""
        return self.closed()[0]

    def replay(self, *args: Tree) -> Tree:
        """Return the result for arguments of the same types, without running the function again."""
        self.refuse_if_branched("replayed")
        rec = self._recording
        nodes = matching_jvp_tangents("replay", list(args), rec.in_tree, rec.tensors)
        graph, captured = self.closed()
        made = graph(*nodes, *captured)
        return tree.unflatten(self._structure, [deliver_from_recording(y) for y in made])

    def _outside(self) -> Callable[[Node], bool]:
        """A test for arguments and for values that are not part of this trace."""
        aliases, token = set(self._recording.inputs), self._recording.derivative.token
        return lambda n: n in aliases or (n.value is not None and token not in n.tokens)

    def closed(self) -> tuple[Graph, list[Node]]:
        """The program, and the nodes from outside that are its last inputs."""
        named = zip(self.names, self._recording.inputs, strict=True)
        inputs = {x: placeholder(name, x.type) for name, x in named}
        return close_over(inputs, self._made, self._outside())

    def refuse_if_branched(self, what: str) -> None:
        """Raise if the function read a value: the trace is valid for that value only."""
        reads = self._recording.derivative.token.reads
        if reads:
            why = "the function read a value, and what it recorded may depend on it"
            hint = "Use pb.where instead of a Python branch on a tensor's value."
            raise TraceError(f"this trace cannot be {what}: {why}", where=reads[0], hint=hint)

    def gradients(self, cotangents: Tree = None) -> list[Tensor | None]:
        """Return the gradient of each input, in the order of `inputs`; `None` for integers.

        `cotangents` are those of the outputs; the default is ones. One tensor that was passed twice
        is two inputs.

        >>> x = pb.tensor([1.0, 2.0])
        >>> [g.tolist() for g in pb.trace(lambda a, b: a * a * b, x, x).gradients()]
        [[2.0, 8.0], [1.0, 4.0]]
        """
        found = self.input_gradients("gradients", cotangents)
        pairs = zip(self._recording.inputs, found, strict=True)
        return [
            deliver_from_recording(g or zeros_like(x.type)) if x.type.inexact else None
            for x, g in pairs
        ]

    def input_gradients(self, name: str, cotangents: Tree) -> list[Node | None]:
        """The gradient of each input, `None` where no output depends on it."""
        recording, ys = self._recording, self.outputs
        refuse_cut_in_trace(name, recording.derivative.token, recording.inputs)
        with RecordingTransform(cotangents):
            seeds: list[Node | None] = [ones(y._node.type) for y in ys]
            if cotangents is not None:
                seeds = matching_vjp_jvp_derivatives(name, cotangents, self._structure, ys)
            return gradients(self._made, seeds, recording.inputs)

    def text(self, provenance: bool = False) -> str:
        """Return the program as the text of a module, which `pb.ir.parse` reads.

        With `provenance`, each instruction is followed by the user's line and the op that was
        written there; one of a backward pass names the op whose rule emitted it.
        """
        return self.graph.text(provenance)

    __str__ = text

    def __repr__(self) -> str:
        return f"<trace of {self.graph.summary}>"

    def _repr_html_(self) -> str:
        return html_program(f"Trace of {self.graph.summary}", self.text())


def backward_on_trace(trace: Trace, cotangents: Tree = None) -> dict[Tensor, Tensor]:
    """Return the gradient of each float or complex input of a trace, by tensor.

    `cotangents` are those of the outputs; the default is ones. A tensor that is several inputs gets
    the sum; `Trace.gradients` has one gradient for each.

    >>> x = pb.tensor([1.0, 2.0])
    >>> pb.backward_on_trace(pb.trace(lambda x: x * x, x))[x].tolist()
    [2.0, 4.0]
    """
    if not isinstance(trace, Trace):
        raise ArgumentError(f"backward_on_trace: trace must be a Trace, got {type(trace).__name__}")
    found = trace.input_gradients("backward_on_trace", cotangents)
    arrived: dict[Tensor, list[Contribution]]
    arrived = {x: [] for x in trace.inputs if x.dtype.is_inexact}
    for i, (x, g) in enumerate(zip(trace.inputs, found, strict=True)):
        if g is not None:
            arrived[x].append((0, i, g))
    totals = {x: accumulate(x._node, gs) for x, gs in arrived.items()}
    return {x: deliver_from_recording(g or zeros_like(x._node.type)) for x, g in totals.items()}


def refuse_cut_in_trace(name: str, token: DerivativeToken, inputs: Sequence[Node]) -> None:
    """Raise if the function of a trace read, as an array, a value that depends on inputs: what it
    computed from that has no derivative."""
    for line, node in token.cuts:
        if node in reverse_path([node], inputs):
            why = f"the function read {node.type}, and what it computed from that is a constant"
            hint = "Write x.detach() before the read if that is meant, or x.item()."
            raise GradientCut(f"{name}: {why}", where=line, hint=hint)


def trace_input_names(f: Callable, args: Sequence[Any]) -> list[str]:
    """A name for each leaf of the arguments: the parameter and the path inside it."""
    try:
        parameters = list(inspect.signature(f).bind(*args).arguments.items())
    except (TypeError, ValueError):
        parameters = []
    names = [f"{name}{path}" for name, value in parameters for path in tree.paths(value)]
    count = len(tree.leaves(list(args)))
    return names if len(names) == count else [f"x{i}" for i in range(count)]
