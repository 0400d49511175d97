"""Calling derivative rules: origin of new nodes, log of rules, checks of what rules return."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pullback.errors import GradientVerification, Location, UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.node import Node, next_number
from pullback.graph.types import Type


def rules_applied() -> list[str]:
    """Return the names of the ops whose rules ran in this thread's last derivative, in order.

    >>> gradient = pb.grad(lambda x: pb.exp(x).sum())(pb.tensor([1.0]))
    >>> pb.debug.rules_applied()
    ['Sum', 'Exp']
    """
    return list(thread.rules_applied)


def start_called_rule_log() -> None:
    thread.rules_applied = []


def log_called_rules(names: Sequence[str]) -> None:
    """Log rules whose results were written out from a template."""
    thread.rules_applied.extend(names)


@contextmanager
def logging_called_rules() -> Iterator[list[str]]:
    """Yield a list that holds, after the block, the ops whose rules ran inside it."""
    names: list[str] = []
    before = len(thread.rules_applied)
    yield names
    names += thread.rules_applied[before:]


@contextmanager
def calling_rules(where: Location = None) -> Iterator[None]:
    """Restore the origin of new nodes after a block that calls rules.

    With `where`, new nodes of the block carry that line.
    """
    saved = thread.where, thread.forward_op
    thread.where = where or thread.where
    try:
        yield
    finally:
        thread.where, thread.forward_op = saved


def call_rule_from(node: Node, backward: bool) -> tuple[int, Node]:
    """Give new nodes the line of `node` and, in a backward pass, the name of its op; return a
    number below theirs, and the node."""
    thread.where, thread.forward_op = node.where, node.op.name if backward else node.forward_op
    return next_number(), node


def is_result_node(node: Node) -> bool:
    """Whether the node is one result of an op with several; its only operand is that op's node."""
    return bool(node.inputs) and isinstance(node.inputs[0].type, tuple)


def is_any_type_inexact(type: Type | tuple[Type, ...]) -> bool:
    """Whether any part of a value of this type is real or complex."""
    return any(t.inexact for t in type) if isinstance(type, tuple) else type.inexact


def require_call_rule(node: Node, mode: str) -> None:
    """Log that the node's rule is about to run; raise if there is none."""
    thread.rules_applied.append(node.op.name)
    if not node.op.differentiable:
        raise UnsupportedOp(
            f"no {mode} rule for {node.op.title}", op=node.op.title, where=node.where,
            hint="It is on a path from the result to an argument of the derivative. Apply "
            "pb.stop_gradient to its operand if it should count as a constant.",
        )  # fmt: skip


def check_called_rule_nodes(node: Node, made: Any, count: int, what: str, of: str) -> None:
    """Check that a rule returned `count` nodes; `None` may stand for some."""
    if not isinstance(made, (list, tuple)):
        problem = f"the rule must give a list of {count} {what}, got {type(made).__name__}"
    elif len(made) != count:
        problem = f"the rule gave {len(made)} {what} for {count} {of}"
    elif wrong := [x for x in made if x is not None and not isinstance(x, Node)]:
        problem = f"{what} must be nodes or None, the rule gave a {type(wrong[0]).__name__}"
    else:
        return
    raise GradientVerification(problem, op=node.op.title, where=node.where)


def check_called_rule_cotangent(node: Node, x: Node, g: Node) -> None:
    """Check that the cotangent `g` of operand `x` has its dtype and reduces to its shape."""
    if g.type is x.type:
        return
    offset = g.type.rank - x.type.rank
    pairs = zip(x.type.shape, g.type.shape[max(offset, 0) :])
    fits = offset >= 0 and all(n in (1, m) for n, m in pairs)
    if not fits or g.type.dtype is not x.type.dtype:
        message = f"the rule gave a cotangent of type {g.type} for an operand of type {x.type}"
        raise GradientVerification(message, op=node.op.title, where=node.where)
