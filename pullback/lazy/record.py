"""Recording, the hot path: applying an op makes a node, and a tensor whose value is pending."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.errors import InPlaceError, Location, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.derivative_tokens import derivative_tokens_of_constant, merge_tokens
from pullback.graph.native import bind_native, native
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_kinds import Detached
from pullback.graph.source_lines import user_line
from pullback.lazy import runtime_checks
from pullback.lazy.launch import lock
from pullback.lazy.pending import bound_pending, compute_pending_alone, compute_pending_together
from pullback.lazy.roots import compute_captured_roots, submit_roots
from pullback.lazy.settings import Settings, current
from pullback.lazy.values import awaited_value
from pullback.ops.sources import LEAF, SCALAR
from pullback.ops.wrap.identity import Alias, StopGradient

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor
    from pullback.ops.prelude import Op

_STOP, _ALIAS = StopGradient(), Alias()


def _record_any(op: Op, nodes: tuple[Node, ...]) -> Tensor:
    """Apply `op`: infer the type, make the node, and return a handle on it."""
    mode = current()
    tensor = _new(_Tensor)
    tensor._node = _recorded_application(op, nodes, mode)
    tensor._token = tensor._grad = None
    handles = thread.handles
    handles.append(_ref(tensor))
    if len(handles) > thread.settle_above or not mode.plain:
        settle_records(tensor)
    return tensor


# In C++ for the frequent cases, and above for all others
record: Callable[[Op, tuple[Node, ...]], Tensor]
record = _record_any if native is None else native.record


def record_node(op: Op, *nodes: Node) -> Node:
    """Apply `op`; return the node of the result."""
    return record(op, nodes)._node


def _record_several(op: Op, nodes: tuple[Node, ...]) -> tuple[Tensor, ...]:
    """Apply an op with several results; return a handle on each."""
    return record_result_handles(_recorded_application(op, nodes, current()))


record_several: Callable[[Op, tuple[Node, ...]], tuple[Tensor, ...]]
record_several = _record_several if native is None else native.record_several


def record_result_handles(node: Node) -> tuple[Tensor, ...]:
    """Return a handle on each result of an op with several results."""
    made = tuple([wrap(r) for r in result_nodes(node)])
    handles = thread.handles
    handles += map(_ref, made)
    if len(handles) > thread.settle_above or not current().plain:
        settle_records(*made)
    return made


def _recorded_application(op: Op, nodes: tuple[Node, ...], mode: Settings) -> Node:
    """Return the node of `op` applied to `nodes`, with the user's line."""
    if not mode.grad_enabled:
        nodes = tuple(map(record_as_constant, nodes))
    where = thread.user_line or user_line("", 3)  # the first two are of this file
    if len(nodes) == 2:  # the most frequent cases come first, without loops
        a, b = nodes
        types: tuple = (a.type, b.type)
        tokens = a.tokens
        if b.tokens and b.tokens is not tokens:
            tokens = merge_tokens(nodes) if tokens else b.tokens
    elif len(nodes) == 1:
        types, tokens = (nodes[0].type,), nodes[0].tokens
    else:
        types, tokens = tuple([x.type for x in nodes]), merge_tokens(nodes)
    type = op.inferred.get(types)
    if type is None:
        op, nodes, type = _infer_recorded(op, nodes, where)
        tokens = merge_tokens(nodes)
    if tokens and isinstance(op, Detached):
        tokens = derivative_tokens_of_constant(tokens)
    return Node(op, nodes, type, where, tokens)


def _infer_recorded(
    op: Op, nodes: tuple[Node, ...], where: Location
) -> tuple[Op, tuple[Node, ...], Any]:
    """Return the op and operands made to fit, and the type; emitted nodes have the user's line."""
    before, thread.where = thread.where, where
    try:
        op, nodes = op.conform(nodes)
    finally:
        thread.where = before
    try:
        return op, nodes, op.type_of(*[x.type for x in nodes])
    except PullbackError as error:
        raise error.at(op.title, where) from None


@contextmanager
def record_at_one_line(called: str = "") -> Iterator[None]:
    """Record everything inside at the caller's line; errors name `called`, if it is given."""
    before = thread.user_line
    thread.user_line = before or user_line(called)
    try:
        yield
    finally:
        thread.user_line = before


def apply(op: Op, *tensors: Tensor) -> Tensor:
    """Apply `op` to tensors."""
    return record(
        op, tuple([t._node if t._token is None else record_gradient_leaf(t) for t in tensors])
    )


def register(tensor: Tensor) -> None:
    """Add a handle to the pending ones of this thread."""
    thread.handles.append(_ref(tensor))


def settle_records(*tensors: Tensor) -> None:
    """Execute new tensors in eager mode, and compute what is pending if it is too much.

    Inside a derivative, compute what they use that was pending before it.
    """
    if thread.root_from:
        compute_captured_roots([t._node for t in tensors])
    if current().one_by_one and not thread.tracing_from:
        nodes = [t._node for t in tensors]
        if len(nodes) > 1:
            compute_pending_together(nodes)
        elif nodes and not isinstance(nodes[0].type, tuple):
            compute_pending_alone(nodes[0])
    if len(thread.handles) > thread.handles_limit:
        bound_pending()


def record_gradient_leaf(tensor: Tensor) -> Node:
    """Return the node of a leaf that requires a gradient; it is computed first."""
    node = tensor._node
    if tensor._token in node.tokens or not current().grad_enabled:
        return node
    if node.value is None:
        if not thread.tracing_from:
            submit_roots([node])
        compute_pending_alone(node)  # it may be pending on another thread, or outside of a trace
    tensor._node = record_as_leaf(node, (tensor._token, *node.tokens))
    return tensor._node


def record_as_leaf(node: Node, tokens: tuple) -> Node:
    """Return a leaf with the value of a computed node."""
    awaited_value(node)
    with lock:
        made = Node(LEAF, (), node.type, node.where, tokens, "", node.value)
        runtime_checks.follow_runtime_checks(node, made)
    return made


def record_alias(node: Node) -> Node:
    """Return another node with the value of a node."""
    return Node(_ALIAS, (node,), node.type, node.where, node.tokens)


def record_as_constant(node: Node) -> Node:
    """Return the node as a constant of derivatives in progress, and of later ones of a trace."""
    if not node.tokens and not thread.tracing_from:
        return node
    return Node(_STOP, (node,), node.type, node.where, derivative_tokens_of_constant(node.tokens))


def refuse_write_of_recorded(
    tensor: Tensor, what: str, instead: str = "Return the new value instead."
) -> None:
    """Raise if a function that runs on placeholders changes a tensor from outside."""
    if thread.tracing_from and tensor._node.number < thread.tracing_from:
        raise InPlaceError(
            f"{what}: this tensor was made outside the function that is being traced",
            hint="The function runs once, on placeholders, so later calls would not repeat the "
            f"write.\n{instead}",
        )


def wrap(node: Node) -> Tensor:
    """Return a new handle on a node."""
    tensor = _new(_Tensor)
    if node.op is SCALAR:  # a number of a program becomes a tensor
        dtype = node.type.dtype.numpy
        data = np.array(node.value, np.uint64).tobytes()[: dtype.itemsize]
        value = np.frombuffer(data, dtype).reshape(()).copy()
        node = Node(LEAF, (), node.type, node.where, (), "", value)
    tensor._node = node
    tensor._token = tensor._grad = None
    return tensor


def bind_record_tensor(cls: type[Tensor]) -> None:
    """Set the class of handles, whose module imports this one."""
    global _Tensor
    _Tensor = cls
    bind_native(Tensor=cls, record=_record_any, record_several=_record_several)


_new: Any = object.__new__
_ref = weakref.ref
_Tensor: Any = None
