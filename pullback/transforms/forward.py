"""Forward mode: tangents of outputs from tangents of inputs, through each op's jvp rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.errors import GradientVerification
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_kinds import HigherOrderKind
from pullback.ops.prelude import TABLE
from pullback.transforms import call_rules
from pullback.transforms.call_rules import (
    call_rule_from,
    calling_rules,
    is_result_node,
    require_call_rule,
)
from pullback.transforms.reverse import reverse_path


def forward_tangents(
    outputs: Sequence[Node], inputs: Sequence[Node], ts: Sequence[Node | None]
) -> list[Node | None]:
    """Return the tangent of each output, `None` where it does not depend on the inputs."""
    known: dict[Node, Any] = {}
    given = dict(zip(inputs, ts, strict=True))
    with calling_rules():
        for node in reverse_path(outputs, inputs):
            known[node] = given[node] if node in given else push_forward(node, known)
    return [known.get(y) for y in outputs]


def push_forward(node: Node, known: dict[Node, Any]) -> Any:
    """Call the node's jvp rule: its tangent, or a tuple of tangents for an op with several results.

    `known` holds the tangents of its operands; `None` stands for zero.
    """
    ts = [known.get(x) for x in node.inputs]
    if all(t is None for t in ts):
        return None
    if is_result_node(node):
        return ts[0][node.op.index]  # type: ignore[index, attr-defined]
    require_call_rule(node, "forward-mode")
    several = isinstance(node.type, tuple)
    call_rule_from(node, backward=False)
    made = _apply_forward_rule(node, result_nodes(node) if several else node, ts)
    types = node.type if several else (node.type,)
    found = made if several and made is not None else (made,) * len(types)
    call_rules.check_called_rule_nodes(node, found, len(types), "tangents", "results")
    for t, type in zip(found, types, strict=True):
        if t is not None and (t.type.shape, t.type.dtype) != (type.shape, type.dtype):
            message = f"the rule gave a tangent of type {t.type} for a result of type {type}"
            raise GradientVerification(message, op=node.op.title, where=node.where)
    return made


def _apply_forward_rule(node: Node, out: Any, ts: list[Node | None]) -> Any:
    rule = node.op.jvp
    if rule is not None:
        transforms = (forward_tangents,) if isinstance(node.op, HigherOrderKind) else ()
        return rule(out, node.inputs, ts, *transforms)
    # A composite without a rule of its own: differentiate its expansion.
    xs = [TABLE["Alias"]()(x) for x in node.inputs]
    made = node.op.expand(*xs)  # type: ignore[attr-defined]
    ys = made if isinstance(made, tuple) else (made,)
    pushed = tuple(forward_tangents(ys, xs, ts))
    return pushed if isinstance(made, tuple) else pushed[0]
