"""Batching: a program for one example becomes one for many, through each op's batch rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.errors import GradientVerification, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.graph import Graph
from pullback.graph.kinds import Distinct, HigherOrder
from pullback.graph.node import Node, emit, results
from pullback.ops.prelude import TABLE, Axis, spread
from pullback.ops.traits import named_axes
from pullback.transforms.call_rules import check_nodes, deriving


def batched(
    graph: Graph, axis: Axis, xs: Sequence[Node], mapped: Sequence[bool]
) -> list[tuple[Node, bool]]:
    """The outputs for all examples, and whether each has the axis (as its first dimension).

    `xs` stand for the graph's inputs; those that are `mapped` have the axis first.
    """
    known: dict[Node, Any] = {}  # a node, or a tuple of them for several results
    for old, new, has_axis in zip(graph.inputs, xs, mapped, strict=True):
        known[old] = (new, has_axis)
    with deriving():
        for node in graph.nodes[len(graph.inputs) :]:
            thread.where, thread.backward = node.where, node.backward
            known[node] = _place(node, axis, known)
    return [known[y] for y in graph.outputs]


def batched_graph(
    graph: Graph, axis: Axis, mapped: Sequence[bool], outputs: Sequence[bool] = ()
) -> tuple[Graph, list[bool]]:
    """The program for all examples, and which outputs have the axis: at least those asked for."""
    inputs = []
    for x, name, has_axis in zip(graph.inputs, graph.names, mapped, strict=True):
        shape = (axis.size, *x.type.shape) if has_axis else x.type.shape
        made = TABLE["Input"](name, shape, x.type.dtype)()
        rest = tuple([a for a in x.type.varying if a != axis.name])
        made.type = made.type.over(rest)
        inputs.append(made)
    found = batched(graph, axis, inputs, mapped)
    wanted = outputs or [False] * len(found)
    pairs = list(zip(found, wanted, strict=True))
    ys = [spread(y, axis) if want and not has else y for (y, has), want in pairs]
    return Graph(inputs, ys, graph.names), [has or want for (_, has), want in pairs]


def _place(node: Node, axis: Axis, known: dict[Node, Any]) -> Any:
    """What stands for a node: a pair of value and mapped, or one pair for each result."""
    if node.inputs and isinstance(node.inputs[0].type, tuple):
        return known[node.inputs[0]][node.op.index]  # type: ignore[attr-defined]
    if not node.inputs and isinstance(node.op, Distinct):
        return node, False  # a leaf is itself
    pairs = [known[x] for x in node.inputs]
    xs = tuple([x for x, _ in pairs])
    mapped = [has for _, has in pairs]
    made = _apply_rule(node, axis, xs, mapped)
    if not isinstance(node.type, tuple):
        check_nodes(node, (made,), 1, "batched results", "results")
        return _checked(node, node.type, made, axis)
    if isinstance(made, Node):
        made = results(made)
    check_nodes(node, made, len(node.type), "batched results", "results")
    return [_checked(node, t, y, axis) for t, y in zip(node.type, made, strict=True)]


def _concerns(node: Node, axis: Axis, mapped: Sequence[bool]) -> bool:
    """Whether the axis means something to a node: it is mapped, or it names the axis."""
    return any(mapped) or (axis.name is not None and axis.name in named_axes(node.op))


def _apply_rule(node: Node, axis: Axis, xs: tuple[Node, ...], mapped: list[bool]) -> Any:
    if not _concerns(node, axis, mapped):
        return emit(node.op, xs)
    rule = node.op.batch
    if rule is not None:
        handed = (batched_graph,) if isinstance(node.op, HigherOrder) else ()
        try:
            return rule(axis, xs, mapped, *handed)
        except PullbackError as error:
            raise error.at(node.op.title, node.where) from None
    # A composite without a rule of its own: batch what it is written as.
    types = [x.type for x in node.inputs]
    found = batched(node.op.expansion(types), axis, xs, mapped)  # type: ignore[attr-defined]
    ys = tuple([y for y, _ in found])
    return ys if isinstance(node.type, tuple) else ys[0]


def _checked(node: Node, type: Any, y: Node, axis: Axis) -> tuple[Node, bool]:
    """A result with the axis in front of the shape for one example, or without it."""
    has = y.type.shape == (axis.size, *type.shape)
    if (not has and y.type.shape != type.shape) or y.type.dtype is not type.dtype:
        raise GradientVerification(
            f"the batching rule gave {y.type} for {axis.size} results of type {type}",
            op=node.op.title, where=node.where,
        )  # fmt: skip
    return y, has
