"""Calling derivative rules: whose line the new nodes carry, what ran, what a rule must return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pullback.errors import GradientVerification, UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.node import Node, next_number


def rules_applied() -> list[str]:
    """The ops whose rules ran in this thread's last derivative, in the order they ran."""
    return list(thread.rules_applied)


def start_log() -> None:
    thread.rules_applied = []


def note(names: Sequence[str]) -> None:
    """The rules of these ops count as applied: what they emitted was written out again."""
    thread.rules_applied.extend(names)


@contextmanager
def rules_noted() -> Iterator[list[str]]:
    """A list that holds, after the block, the ops whose rules ran inside it."""
    names: list[str] = []
    before = len(thread.rules_applied)
    yield names
    names += thread.rules_applied[before:]


@contextmanager
def deriving() -> Iterator[None]:
    """While rules run: afterwards, new nodes belong to whatever they belonged to before."""
    saved = thread.where, thread.backward
    try:
        yield
    finally:
        thread.where, thread.backward = saved


def derive_from(node: Node, backward: bool) -> tuple[int, Node]:
    """From now on, new nodes carry the line of `node`; they have larger numbers than this one."""
    thread.where, thread.backward = node.where, backward or node.backward
    return next_number(), node


def carries_derivative(type: Any) -> bool:
    """Whether any part of a value of this type is a real or complex number."""
    return any(t.inexact for t in type) if isinstance(type, tuple) else type.inexact


def require_rule(node: Node, mode: str) -> None:
    """Note that the node's rule is about to run; raise if there is none."""
    thread.rules_applied.append(node.op.name)
    if not node.op.differentiable:
        raise UnsupportedOp(
            f"no {mode} rule for {node.op.title}", op=node.op.title, where=node.where,
            hint="It lies on a path from the result to what it is differentiated by. Use "
            "pb.stop_gradient on its operand if it should count as a constant.",
        )  # fmt: skip


def check_nodes(node: Node, made: Any, count: int, what: str, of: str) -> None:
    """A rule must return this many nodes, or `None` in place of some."""
    if not isinstance(made, (list, tuple)):
        problem = f"the rule must give a list of {count} {what}, got {type(made).__name__}"
    elif len(made) != count:
        problem = f"the rule gave {len(made)} {what} for {count} {of}"
    elif wrong := [x for x in made if x is not None and not isinstance(x, Node)]:
        problem = f"{what} must be nodes or None, the rule gave a {type(wrong[0]).__name__}"
    else:
        return
    raise GradientVerification(problem, op=node.op.title, where=node.where)


def check_cotangent(node: Node, x: Node, g: Node) -> None:
    """A rule's cotangent must have the operand's element type, and reduce to its shape."""
    if g.type is x.type:
        return
    offset = g.type.rank - x.type.rank
    fits = offset >= 0 and all(
        n in (1, g.type.shape[i + offset]) for i, n in enumerate(x.type.shape)
    )
    if not fits or g.type.dtype is not x.type.dtype:
        raise GradientVerification(
            f"the rule gave a cotangent of type {g.type} for an operand of type {x.type}",
            op=node.op.title, where=node.where,
        )  # fmt: skip
