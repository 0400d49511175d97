"""Gradients with respect to values inside a computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pullback import tree
from pullback.api.recording import (
    deliver_from_recording,
    differentiable_recorded_leaf,
    is_recorded_value,
    recorded_outputs,
)
from pullback.api.signatures import Tree
from pullback.api.trace import refuse_cut_in_trace
from pullback.api.vjp_jvp import matching_vjp_jvp_derivatives
from pullback.errors import ArgumentError, NonDifferentiableInput, TraceError, UnsupportedShape
from pullback.graph.ambient import thread
from pullback.graph.derivative_tokens import (
    consumed_token_of,
    leaf_tokens_gone,
    tokens_require_gradient,
)
from pullback.graph.node import Node
from pullback.lazy.backward import backward_paths, consumed_by_backward
from pullback.lazy.host_reads import unknown_to_host
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import Tensor
from pullback.ops.prelude import ones, zeros_like
from pullback.transforms.call_rules import start_called_rule_log
from pullback.transforms.reverse import accumulate, reverse_path
from pullback.transforms.reverse import gradients as derive_gradients

Targets = TypeVar("Targets")  # a tensor, or a tree of tensors


def gradients(ys: Tree, targets: Targets, seeds: Tree = None) -> Targets:
    """Return the gradients of `ys` with respect to tensors that they were computed from.

    Targets may be intermediate values, and gradients flow to them and through them. The result has
    their tree: zeros for a target that `ys` do not depend on, and `None` for a leaf inside a tree
    that is not float or complex. `seeds` are the cotangents of `ys`; without them, `ys` must be
    real scalars, and the gradient is that of their sum. The result can be differentiated again.

    Targets must be values whose history is kept: inside a function that is differentiated, traced
    or run on placeholders, or computed from tensors with `requires_grad=True`.

    >>> def f(x):
    ...     h = x * x
    ...     y = (h * x).sum()
    ...     return pb.gradients(y, [h, x])
    >>> x = pb.tensor([1.0, 2.0], requires_grad=True)
    >>> [g.tolist() for g in f(x)]
    [[1.0, 2.0], [3.0, 12.0]]
    """
    for y in tree.leaves(ys):
        if not is_recorded_value(y):
            what = f"outputs must be tensors or numbers, got {type(y).__name__}"
            raise ArgumentError(f"gradients: {what}")
    found, structure = recorded_outputs("gradients", ys)
    made = [y._node if y._token is None else node_of(y) for y in found]
    cotangents = _gradient_seeds(found, seeds, structure)
    wanted = _GradientTargets(targets)
    wanted.check(made)
    if not thread.transform_depth:
        start_called_rule_log()
    grads = iter(derive_gradients(made, cotangents, wanted.nodes()))
    results = [
        None if t is None else _total_gradient(t, [next(grads) for _ in nodes])
        for t, nodes in zip(wanted.tensors, wanted.spread, strict=True)
    ]
    return wanted.arrange(results)


def _gradient_seeds(ys: Sequence[Tensor], seeds: Tree, structure: Any) -> list[Node | None]:
    """The cotangents of the outputs: those given, or ones for real scalars."""
    if seeds is not None:
        return matching_vjp_jvp_derivatives("gradients", seeds, structure, ys)
    for y in ys:
        if y.shape != ():
            hint = "Reduce it with .sum() or .mean(), or pass its cotangent as seeds."
            what = f"without seeds, an output must be a scalar, got {y._node.type}"
            raise UnsupportedShape(f"gradients: {what}", hint=hint)
        if not y.dtype.is_float:
            hint = "Take the real part of a complex result, or pass its cotangent as seeds."
            what = f"without seeds, an output must be a real float, got {y._node.type}"
            raise NonDifferentiableInput(f"gradients: {what}", hint=hint)
    return [ones(y._node.type) for y in ys]


def _total_gradient(target: Tensor, grads: Sequence[Node | None]) -> Tensor:
    """The gradient of a target, which may be several nodes; zeros if nothing arrived."""
    arrived = [(0, i, g) for i, g in enumerate(grads) if g is not None]
    return deliver_from_recording(
        accumulate(target._node, arrived) or zeros_like(target._node.type)
    )


class _GradientTargets:
    """The targets: their tree, their tensors (`None` for other leaves), and the nodes of each."""

    def __init__(self, targets: Any) -> None:
        self.alone = not isinstance(targets, (list, tuple)) or hasattr(targets, "_fields")
        self.given: list[Any] = [targets] if self.alone else list(targets)
        self.kind = type(targets)
        leaves, self.structure = tree.flatten(self.given)
        self.tensors = [self._tensor(x, i) for i, x in enumerate(leaves)]
        self.spread = [[] if t is None else [node_of(t)] for t in self.tensors]

    def _tensor(self, x: Any, i: int) -> Tensor | None:
        if type(x) is Tensor and x._node.type.inexact:
            return x
        number = differentiable_recorded_leaf("gradients", x, i, ())
        if number is not None or any(x is t for t in self.given):
            got = f"{x._node.type if isinstance(x, Tensor) else type(x).__name__}"
            what = f"a target must be a float or complex tensor, got {got} at {self._path(i)}"
            hint = "Pass a tensor that was used in the computation."
            raise NonDifferentiableInput(f"gradients: {what}", hint=hint)
        return None

    def _path(self, i: int) -> str:
        path = tree.paths(self.given[0] if self.alone else self.given)[i]
        return f"targets{path}" if path else "the target"

    def nodes(self) -> list[Node]:
        return [n for nodes in self.spread for n in nodes]

    def arrange(self, values: Sequence[Any]) -> Any:
        made = tree.unflatten(self.structure, values)
        return made[0] if self.alone else self.kind(made)

    def check(self, outputs: Sequence[Node]) -> None:
        """Raise unless everything between outputs and targets is known."""
        nodes = self.nodes()
        for i, own in enumerate(self.spread):
            if own and not _keeps_gradient_history(own[0]):
                raise self._dropped(own[0], i)
        for token in dict.fromkeys(t for n in nodes for t in n.tokens if t.traces and t.alive):
            refuse_cut_in_trace("gradients", token, nodes)
        if any(_hangs_on_gradient_leaves(n) for n in nodes):
            self._find_leaves(outputs)
        if thread.frozen:
            _refuse_gradients_outside(outputs, self.nodes())

    def _find_leaves(self, outputs: Sequence[Node]) -> None:
        """Let each leaf tensor stand for the values that it had when the outputs were computed."""
        if not any(
            tokens_require_gradient(y.tokens) or _keeps_gradient_history(y) for y in outputs
        ):
            raise ArgumentError(
                "gradients: the outputs do not depend on a tensor with requires_grad=True",
                hint="Compute them again after the tensor was made to require a gradient. What is "
                "recorded\ninside `with pb.no_grad():` does not count.",
            )
        leaves = [n for n in backward_paths(outputs) if not n.inputs]
        for i, t in enumerate(self.tensors):
            if t is not None and t._token is not None:
                self.spread[i] = [n for n in leaves if t._token in n.tokens] or self.spread[i]

    def _dropped(self, node: Node, i: int) -> Exception:
        if consumed_token_of(node) is not None:
            return consumed_by_backward(node)
        if leaf_tokens_gone(node.tokens):
            hint = "Keep a reference to them: `w = pb.tensor(data, requires_grad=True)`."
            what = "the tensors with requires_grad=True that it was computed from no longer exist"
            return ArgumentError(f"gradients: {self._path(i)} has no history: {what}", hint=hint)
        return ArgumentError(
            f"gradients: the history of {self._path(i)}, {node.type}, is not kept, because it "
            "does not depend on an argument of a derivative in progress",
            hint="Outside of derivatives, history is dropped when values are computed. Call "
            "pb.gradients\ninside a function that pb.grad, pb.vjp, pb.jvp or pb.trace runs, with "
            "targets that depend\non its arguments, or create the inputs with requires_grad=True.",
        )


def _keeps_gradient_history(node: Node) -> bool:
    """Whether what was computed from a node can be differentiated with respect to it."""
    if any(t.alive for t in node.tokens):
        return True
    return bool(thread.tracing_from) and node.value is None and unknown_to_host(node)


def _hangs_on_gradient_leaves(node: Node) -> bool:
    """Whether only leaves that require a gradient keep the history of a node."""
    alive = [t for t in node.tokens if t.alive]
    return bool(alive) and all(t.leaf for t in alive)


def _refuse_gradients_outside(outputs: Sequence[Node], targets: Sequence[Node]) -> None:
    """Raise if a rule would use inner values of a computation outside of the traced function:
    they would be frozen in its program."""
    path = reverse_path(outputs, targets)
    for node in path:
        if node.number < thread.tracing_from and not path.keys().isdisjoint(node.inputs):
            what = "a target was used outside of the function that is being traced"
            hint = "Pass the target as an argument, and compute from it inside the function."
            raise TraceError(f"gradients: {what}, by {node.op.title} ({node.where})", hint=hint)
