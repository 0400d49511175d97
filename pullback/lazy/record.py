"""Recording: an op applied to tensors becomes a node, and a new tensor that promises its value.

This is the hot path: every operation that a user writes goes through `record`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import InPlaceError, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.node import Node, results
from pullback.graph.tape import merge_tokens, of_constant
from pullback.graph.where import user_line
from pullback.lazy import runtime_checks
from pullback.lazy.launch import lock
from pullback.lazy.pending import bound_pending, execute_alone, execute_together, submit_pending
from pullback.lazy.settings import Settings, current
from pullback.lazy.values import arrived
from pullback.ops.sources import LEAF, SCALAR
from pullback.ops.wrap.identity import Alias, StopGradient

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.ops.prelude import Op

_STOP, _ALIAS = StopGradient(), Alias()


def record(op: Op, nodes: tuple[Node, ...]) -> Tensor:
    """Apply `op`: check types, make the node, and return a handle on it."""
    mode = current()
    tensor = _new(_Tensor)
    tensor._node = _application(op, nodes, mode)
    tensor._token = tensor._grad = None
    handles = thread.handles
    handles.append(_ref(tensor))
    if len(handles) > thread.pending_limit or not mode.plain:
        settle(tensor)
    return tensor


def record_several(op: Op, nodes: tuple[Node, ...]) -> tuple[Tensor, ...]:
    """Apply an op with several results: one node, a handle on each result."""
    return several(_application(op, nodes, current()))


def several(node: Node) -> tuple[Tensor, ...]:
    """A handle on each result of an op with several of them."""
    made = tuple([wrap(r) for r in results(node)])
    handles = thread.handles
    handles += map(_ref, made)
    if len(handles) > thread.pending_limit or not current().plain:
        settle(*made)
    return made


def _application(op: Op, nodes: tuple[Node, ...], mode: Settings) -> Node:
    """The node of `op` applied to `nodes`, at the user's line."""
    if not mode.grad_enabled:
        nodes = tuple(map(cut, nodes))
    where = thread.user_line or user_line()
    types = tuple([x.type for x in nodes])
    type = op.inferred.get(types)
    if type is None:
        op, nodes = _conform(op, nodes, where)
        type = _infer(op, tuple([x.type for x in nodes]), where)
    tokens = merge_tokens(nodes)
    if tokens and op.detaches:
        tokens = of_constant(tokens)
    return Node(op, nodes, type, where, tokens)


def _conform(op: Op, nodes: tuple[Node, ...], where: Any) -> tuple[Op, tuple[Node, ...]]:
    """The op and operands that fit together; what that takes is written at the user's line."""
    before, thread.where = thread.where, where
    try:
        return op.conform(nodes)
    finally:
        thread.where = before


def _infer(op: Op, types: tuple, where: Any) -> Any:
    try:
        return op.type_of(*types)
    except PullbackError as error:
        raise error.at(op.title, where) from None


@contextmanager
def at_one_line() -> Iterator[None]:
    """All that is recorded inside belongs to the line that called us, which is looked up once."""
    before = thread.user_line
    thread.user_line = before or user_line()
    try:
        yield
    finally:
        thread.user_line = before


def apply(op: Op, *tensors: Tensor) -> Tensor:
    """Apply `op` to tensors."""
    return record(op, tuple([t._node if t._token is None else root(t) for t in tensors]))


def register(tensor: Tensor) -> None:
    """Remember a handle whose value is pending."""
    thread.handles.append(_ref(tensor))


def settle(*tensors: Tensor) -> None:
    """What recording does besides: execute at once in eager mode, bound what is pending."""
    if current().one_by_one and not thread.tracing_from:
        nodes = [t._node for t in tensors]
        if len(nodes) > 1:
            execute_together(nodes)
        elif nodes and not isinstance(nodes[0].type, tuple):
            execute_alone(nodes[0])
    if len(thread.handles) > thread.pending_limit:
        bound_pending()


def root(tensor: Tensor) -> Node:
    """The node of a leaf that requires a gradient: a differentiation root is never pending."""
    node = tensor._node
    if tensor._token in node.tokens or not current().grad_enabled:
        return node
    if node.value is None:
        submit_pending()
        execute_alone(node)  # it may be pending in another thread, or outside of a trace
    tensor._node = leaf_of(node, (tensor._token, *node.tokens))
    return tensor._node


def leaf_of(node: Node, tokens: tuple) -> Node:
    """A leaf with the value of a node that was computed."""
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
    if not node.tokens and not thread.tracing_from:
        return node
    return Node(_STOP, (node,), node.type, node.where, of_constant(node.tokens))


def guard_placeholder_write(tensor: Tensor, what: str) -> None:
    """While a function runs on placeholders it must not change tensors from outside."""
    if thread.tracing_from and tensor._node.number < thread.tracing_from:
        raise InPlaceError(
            f"{what}: this tensor was made outside the function that is being traced",
            hint="The function runs once, on placeholders, so the write would not happen again "
            "on later calls.\nReturn the new value instead.",
        )


def wrap(node: Node) -> Tensor:
    """A new handle on a node."""
    tensor = _new(_Tensor)
    if node.op is SCALAR:  # a number from a program: now a tensor in its own right
        node = _leaf_of_scalar(node)
    tensor._node = node
    tensor._token = tensor._grad = None
    return tensor


def _leaf_of_scalar(node: Node) -> Node:
    data = np.array(node.value, np.uint64).tobytes()[: node.type.dtype.numpy.itemsize]
    value = np.frombuffer(data, node.type.dtype.numpy).reshape(()).copy()
    return Node(LEAF, (), node.type, node.where, (), False, value)


def bind_tensor(cls: type[Tensor]) -> None:
    """Set the class of handles, whose module imports this one."""
    global _Tensor
    _Tensor = cls


_new: Any = object.__new__
_ref = weakref.ref
_Tensor: Any = None
