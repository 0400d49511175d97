"""What custom functions and their rules return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback import tree
from pullback.api.signatures import Tree
from pullback.errors import ArgumentError, GradientVerification
from pullback.graph.ambient import thread
from pullback.graph.graph import graph_ancestors
from pullback.graph.node import Node
from pullback.graph.source_lines import SourceLine, user_line
from pullback.graph.types import Type
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of
from pullback.lazy.tensor import Tensor, wrap


def expect_custom_result(
    name: str, what: str, f: Callable, given: Any, structure: Any, like: Sequence[Node]
) -> list[Node | None]:
    """The leaves of `given` as nodes; they must have the tree and the types of `like`."""
    leaves, got = tree.flatten(given)
    if got != structure:
        trees = f"{tree.show_tree_structure(structure)}, got {tree.show_tree_structure(got)}"
        message = f"{name}: {what} must be a tree like the function's result, {trees}"
        raise ArgumentError(message, where=line_of_custom_result(f), hint="* stands for a leaf.")
    return [
        fitting_custom_result(name, what, f, x, y.type) for x, y in zip(leaves, like, strict=True)
    ]


def fitting_custom_result(name: str, what: str, f: Callable, x: Any, type: Type) -> Node | None:
    """A leaf that a rule returned, as a node of the given type; `None` if that carries none."""
    if not type.inexact:
        return None
    made = asarray(x) if isinstance(x, Tensor) else asarray(x, dtype=type.dtype)
    if made.shape != type.shape or made.dtype is not type.dtype:
        message = f"{name}: {what} must be {type}, got {made._node.type}"
        raise GradientVerification(message, where=line_of_custom_result(f))
    return node_of(made)


def known_custom_result(key: tuple, xs: Sequence[Node]) -> Tree | None:
    """The result of a call whose rule is running, if this is the same call."""
    for rule, nodes, outs in reversed(thread.custom_calls):
        if rule.key == key and len(nodes) == len(xs) and all(a is b for a, b in zip(nodes, xs)):
            return tree.unflatten(rule.out_tree, [wrap(y) for y in outs])
    return None


def adopt_custom_result(found: Sequence[Node | None], first: int) -> Sequence[Node | None]:
    """Mark the nodes that a rule recorded, from number `first` on, as nodes of a backward pass;
    drop the tokens of leaves while `backward()` runs."""
    for node in graph_ancestors([c for c in found if c is not None], lambda n: n.number < first):
        if node.number >= first:
            node.forward_op = thread.forward_op
            if not thread.leaf_tokens:
                node.tokens = tuple([t for t in node.tokens if not t.leaf])
    return found


def line_of_custom_result(f: Callable) -> SourceLine | None:
    """The line of a function's definition; for other callables the line that is running."""
    while hasattr(f, "func") or hasattr(f, "__wrapped__"):
        f = getattr(f, "func", None) or f.__wrapped__  # type: ignore[attr-defined]
    code = getattr(f, "__code__", None)
    return user_line() if code is None else SourceLine(code, 0)
