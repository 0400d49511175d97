"""Recording: an op applied to tensors becomes a node, and a new tensor that promises its value.

This is the hot path: every operation that a user writes goes through `record`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pullback.errors import InPlaceError, PullbackError
from pullback.graph.kinds import Detached
from pullback.graph.node import Node, origin, results
from pullback.graph.tape import merge_tokens, of_constant
from pullback.graph.where import user_line
from pullback.lazy.settings import Settings, current
from pullback.ops.sources import LEAF
from pullback.ops.wrap.identity import Alias, StopGradient

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.ops.prelude import Op

# A pending graph larger than this is computed by itself, in pieces: a loop that never reads a
# value must not grow without bound. A training step of a model with 64 layers stays below it.
PENDING_LIMIT = 20_000

_STOP, _ALIAS = StopGradient(), Alias()


class _Pending(threading.local):
    """This thread's promises: handles whose value was not computed when they were recorded."""

    def __init__(self) -> None:
        self.handles: list[weakref.ref[Tensor]] = []
        self.limit = PENDING_LIMIT  # how many handles there may be before a look at them
        self.placeholders = 0  # the first node of the outermost function run on placeholders
        self.where: Any = None  # the user's line, where it is known (see `at_one_line`)


pending = _Pending()


def record(op: Op, nodes: tuple[Node, ...]) -> Tensor:
    """Apply `op`: check types, make the node, and return a handle on it."""
    mode = current()
    tensor = _new(_Tensor)
    tensor._node = _application(op, nodes, mode)
    tensor._token = tensor._grad = None
    handles = pending.handles
    handles.append(_ref(tensor))
    if len(handles) > pending.limit or not mode.plain:
        settle(tensor)
    return tensor


def record_several(op: Op, nodes: tuple[Node, ...]) -> tuple[Tensor, ...]:
    """Apply an op with several results: one node, a handle on each result."""
    return several(_application(op, nodes, current()))


def several(node: Node) -> tuple[Tensor, ...]:
    """A handle on each result of an op with several of them."""
    made = tuple([_wrap(r) for r in results(node)])
    handles = pending.handles
    handles += map(_ref, made)
    if len(handles) > pending.limit or not current().plain:
        settle(*made)
    return made


def _application(op: Op, nodes: tuple[Node, ...], mode: Settings) -> Node:
    """The node of `op` applied to `nodes`, at the user's line."""
    if not mode.grad_enabled:
        nodes = tuple(map(cut, nodes))
    where = pending.where or user_line()
    types = tuple([x.type for x in nodes])
    type = op.inferred.get(types)
    if type is None:
        op, nodes = _conform(op, nodes, where)
        type = _infer(op, tuple([x.type for x in nodes]), where)
    tokens = merge_tokens(nodes)
    if tokens and isinstance(op, Detached):
        tokens = of_constant(tokens)
    return Node(op, nodes, type, where, tokens)


def _conform(op: Op, nodes: tuple[Node, ...], where: Any) -> tuple[Op, tuple[Node, ...]]:
    """The op and operands that fit together; what that takes is written at the user's line."""
    before, origin.where = origin.where, where
    try:
        return op.conform(nodes)
    finally:
        origin.where = before


def _infer(op: Op, types: tuple, where: Any) -> Any:
    try:
        return op.type_of(*types)
    except PullbackError as error:
        raise error.at(op.title, where) from None


@contextmanager
def at_one_line(called: str = "") -> Iterator[None]:
    """All ops recorded inside belong to the line of user code that called us. Errors name what it
    `called`, if that is given, instead of the op."""
    before = pending.where
    pending.where = before or user_line(called)
    try:
        yield
    finally:
        pending.where = before


def apply(op: Op, *tensors: Tensor) -> Tensor:
    """Apply `op` to tensors."""
    return record(op, tuple([t._node if t._token is None else root(t) for t in tensors]))


def register(tensor: Tensor) -> None:
    """Remember a handle whose value is pending."""
    pending.handles.append(_ref(tensor))


def settle(*tensors: Tensor) -> None:
    """What recording does besides: execute at once in eager mode, bound what is pending."""
    from pullback.lazy import evaluate

    if current().one_by_one and not pending.placeholders:
        nodes = [t._node for t in tensors]
        if len(nodes) > 1:
            evaluate.execute_together(nodes)
        elif nodes and not isinstance(nodes[0].type, tuple):
            evaluate.execute_alone(nodes[0])
    if len(pending.handles) > pending.limit:
        evaluate.bound_pending()


def root(tensor: Tensor) -> Node:
    """The node of a leaf that requires a gradient: a differentiation root is never pending."""
    node = tensor._node
    if tensor._token in node.tokens or not current().grad_enabled:
        return node
    if node.value is None:
        from pullback.lazy.evaluate import execute_alone, submit_pending

        submit_pending()
        execute_alone(node)  # it may be pending in another thread, or outside of a trace
    tensor._node = leaf_of(node, (tensor._token, *node.tokens))
    return tensor._node


def leaf_of(node: Node, tokens: tuple) -> Node:
    """A leaf with the value of a node that was computed."""
    from pullback.lazy import runtime_checks
    from pullback.lazy.launch import lock
    from pullback.lazy.values import arrived

    arrived(node)
    with lock:
        made = Node(LEAF, (), node.type, node.where, tokens, False, node.value)
        runtime_checks.follow(node, made)
    return made


def alias_of(node: Node) -> Node:
    """A node of its own for the value of another."""
    return Node(_ALIAS, (node,), node.type, node.where, node.tokens)


def cut(node: Node) -> Node:
    """The node as a constant of every derivative in progress, or still to come of a trace."""
    if not node.tokens and not pending.placeholders:
        return node
    return Node(_STOP, (node,), node.type, node.where, of_constant(node.tokens))


def guard_placeholder_write(tensor: Tensor, what: str) -> None:
    """While a function runs on placeholders it must not change tensors from outside."""
    if pending.placeholders and tensor._node.number < pending.placeholders:
        raise InPlaceError(
            f"{what}: this tensor was made outside the function that is being traced",
            hint="The function runs once, on placeholders, so the write would not happen again "
            "on later calls.\nReturn the new value instead.",
        )


def _bind_tensor() -> None:
    """Fetch the Tensor class, which itself needs this module."""
    global _Tensor, _wrap
    from pullback.lazy.tensor import Tensor, wrap

    _Tensor, _wrap = Tensor, wrap


_new: Any = object.__new__
_ref = weakref.ref
_Tensor: Any = None
_wrap: Any = None
