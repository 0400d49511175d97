"""`Tensor.backward()`: accumulate the gradient of a scalar loss into its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pullback.errors import ArgumentError, GraphConsumed, UnsupportedShape
from pullback.graph.ambient import thread
from pullback.graph.derivative_tokens import (
    ConsumedDerivativeToken,
    consumed_token_of,
    tokens_require_gradient,
)
from pullback.graph.node import Node
from pullback.graph.op_kinds import Transparent
from pullback.lazy.history import forget_history
from pullback.lazy.operators import node_of
from pullback.lazy.record import refuse_write_of_recorded, register, wrap
from pullback.ops.prelude import ones
from pullback.transforms.call_rules import start_called_rule_log
from pullback.transforms.reverse import accumulate, gradients

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


def backward(loss: Tensor) -> None:
    """Differentiate `loss` with respect to every leaf, and consume its graph."""
    node_of(loss)  # makes a leaf that was assigned to a root again
    _check_loss_for_backward(loss)
    path = backward_paths([loss._node])
    leaves = [n for n in path if not n.inputs]
    start_called_rule_log()
    thread.leaf_tokens = False
    try:
        found = gradients([loss._node], [ones(loss._node.type)], leaves)
        for node, g in zip(leaves, found, strict=True):
            if g is not None:
                _deposit_backward_gradient(node, g)
    finally:
        thread.leaf_tokens = True
    mark = ConsumedDerivativeToken(max(n.number for n in path) + 1)
    marked: dict[tuple, tuple] = {}  # most nodes have the same tokens
    for node in path:
        if node.inputs and not isinstance(node.op, Transparent):  # aliases are not consumed
            tokens = node.tokens
            if tokens not in marked:
                marked[tokens] = (*(t for t in tokens if not t.leaf), mark)
            node.tokens = tokens = marked[tokens]
            if node.value is not None and not any(t.alive for t in tokens):
                forget_history(node)


def _check_loss_for_backward(loss: Tensor) -> None:
    if loss.shape != ():
        hint = "Reduce it first, with .sum() or .mean()."
        raise UnsupportedShape(f"backward() needs a scalar loss, got {loss._node.type}", hint=hint)
    tokens = loss._node.tokens
    if not tokens_require_gradient(tokens):
        raise ArgumentError(
            "backward() needs a loss that depends on a tensor with requires_grad=True",
            hint="For the parameters of a model, create an optimizer first, as in\n"
            "`pb.optim.Adam(model.parameters())`, or call `model.requires_grad_()`; create other\n"
            "tensors with requires_grad=True. What is recorded inside `with pb.no_grad():` does "
            "not count.",
        )
    if consumed_token_of(loss._node) is None and not any(t.leaf and t.alive for t in tokens):
        raise ArgumentError(
            "backward() needs a leaf to store a gradient in, but the tensors with "
            "requires_grad=True that this loss was computed from no longer exist",
            hint="Keep a reference to them: `w = pb.tensor(data, requires_grad=True)`.",
        )


def backward_paths(outputs: Sequence[Node]) -> list[Node]:
    """Return the nodes between outputs and their leaves; raise if one was already consumed."""
    stack = list(dict.fromkeys(outputs))
    seen = set(stack)
    active: dict[tuple, bool] = {}  # most nodes have the same tokens
    for node in stack:
        mark = consumed_token_of(node)
        if mark is not None and (node.number < mark.before or not node.inputs):
            raise consumed_by_backward(node)
        for x in node.inputs:
            if x not in seen:
                tokens = x.tokens
                if tokens not in active:
                    active[tokens] = _has_backward_path(tokens)
                if active[tokens]:
                    seen.add(x)
                    stack.append(x)
    return stack


def consumed_by_backward(node: Node) -> GraphConsumed:
    place = f" ({node.where})" if node.where is not None else ""
    return GraphConsumed(
        f"the graph of this loss was already consumed at {node.op.title}{place}; run the forward "
        "again",
        hint="backward() consumes the graph. If two losses share a forward pass, add them before "
        "calling it.",
    )


def _has_backward_path(tokens: tuple) -> bool:
    """Whether a gradient flows through a node with these tokens to a leaf, or did until it was
    consumed."""
    return any((t.leaf and t.alive) or type(t) is ConsumedDerivativeToken for t in tokens)


_FUNCTIONAL_STEP = (
    "Write `loss, grads = pb.value_and_grad(f)(model, x)` in it, and return the new parameters\n"
    "of `pb.optim.adam(...).update(grads, state, model)`; or compile the model alone."
)


def _deposit_backward_gradient(leaf: Node, g: Node) -> None:
    """Add a gradient to `.grad` of the tensor of a leaf."""
    for token in leaf.tokens:
        tensor = token.tensor() if token.leaf and token.alive else None
        if tensor is not None:
            refuse_write_of_recorded(tensor, "backward()", _FUNCTIONAL_STEP)
            before = [] if tensor._grad is None else [(1, 0, tensor._grad._node)]
            total = accumulate(leaf, [*before, (0, 0, g)])
            assert total is not None
            tensor._grad = wrap(total)
            register(tensor._grad)
