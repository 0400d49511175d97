"""Batching: from a program for one example to a program for many, through each op's batch rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.errors import GradientVerification, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph
from pullback.graph.node import Node, apply_op_to_nodes, result_nodes
from pullback.graph.op_kinds import DistinctKind, HigherOrderKind
from pullback.graph.types import Type
from pullback.ops.prelude import TABLE, Axis, spread
from pullback.ops.traits import trait_named_axes
from pullback.transforms.call_rules import calling_rules, check_called_rule_nodes, is_result_node

Batched = tuple[Node, bool]  # (value for all examples, whether it has the axis in front)


def batched(graph: Graph, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]) -> list[Batched]:
    """Return the outputs for all examples, and whether each has the axis as first dimension.

    `xs` are the values of the graph's inputs; those that are `mapped` have the axis first.
    """
    known: dict[Node, Any] = dict(zip(graph.inputs, zip(xs, mapped, strict=True), strict=True))
    with calling_rules():
        for node in graph.nodes[len(graph.inputs) :]:
            thread.where, thread.forward_op = node.where, node.forward_op
            known[node] = _batch_node(node, axis, known)
    return [known[y] for y in graph.outputs]


def batched_graph(
    graph: Graph, axis: Axis, mapped: Sequence[bool], outputs: Sequence[bool] = ()
) -> tuple[Graph, list[bool]]:
    """Return the program for all examples, and which outputs have the axis.

    Those that `outputs` selects have it in any case.
    """
    inputs = []
    for x, name, has_axis in zip(graph.inputs, graph.names, mapped, strict=True):
        shape = (axis.size, *x.type.shape) if has_axis else x.type.shape
        made = TABLE["Input"](name, shape, x.type.dtype)()
        made.type = made.type.over(tuple([a for a in x.type.varying if a != axis.name]))
        inputs.append(made)
    found = batched(graph, axis, inputs, mapped)
    pairs = list(zip(found, outputs or [False] * len(found), strict=True))
    ys = [spread(y, axis) if want and not has else y for (y, has), want in pairs]
    return Graph(inputs, ys, graph.names), [has or want for (_, has), want in pairs]


def _batch_node(node: Node, axis: Axis, known: dict[Node, Any]) -> Batched | list[Batched]:
    """The node's result for all examples; a list for an op with several results."""
    if is_result_node(node):
        return known[node.inputs[0]][node.op.index]  # type: ignore[attr-defined]
    if not node.inputs and isinstance(node.op, DistinctKind):
        return node, False  # a leaf stays the same node
    pairs = [known[x] for x in node.inputs]
    made = _apply_batch_rule(node, axis, tuple([x for x, _ in pairs]), [has for _, has in pairs])
    if not isinstance(node.type, tuple):
        check_called_rule_nodes(node, (made,), 1, "batched results", "results")
        return _checked_batch_rule_result(node, node.type, made, axis)
    if isinstance(made, Node):
        made = result_nodes(made)
    check_called_rule_nodes(node, made, len(node.type), "batched results", "results")
    return [
        _checked_batch_rule_result(node, t, y, axis) for t, y in zip(node.type, made, strict=True)
    ]


def _apply_batch_rule(node: Node, axis: Axis, xs: tuple[Node, ...], mapped: list[bool]) -> Any:
    names_axis = axis.name is not None and axis.name in trait_named_axes(node.op)
    if not any(mapped) and not names_axis:
        return apply_op_to_nodes(node.op, xs)  # the same for all examples
    rule = node.op.batch
    if rule is not None:
        transforms = (batched_graph,) if isinstance(node.op, HigherOrderKind) else ()
        try:
            return rule(axis, xs, mapped, *transforms)
        except PullbackError as error:
            raise error.at(node.op.title, node.where) from None
    # A composite without a rule of its own: batch its expansion.
    types = [x.type for x in node.inputs]
    found = batched(node.op.expansion(types), axis, xs, mapped)  # type: ignore[attr-defined]
    ys = tuple([y for y, _ in found])
    return ys if isinstance(node.type, tuple) else ys[0]


def _checked_batch_rule_result(node: Node, type: Type, y: Node, axis: Axis) -> Batched:
    """A result, whose shape must be that of one example, with or without the axis in front."""
    has = y.type.shape == (axis.size, *type.shape)
    if (not has and y.type.shape != type.shape) or y.type.dtype is not type.dtype:
        message = f"the batching rule gave {y.type} for {axis.size} results of type {type}"
        raise GradientVerification(message, op=node.op.title, where=node.where)
    return y, has
