"""Nodes: applications of ops to other nodes. Every program is made of them."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from pullback.graph.ambient import thread
from pullback.graph.derivative_tokens import derivative_tokens_of_constant, merge_tokens
from pullback.graph.native import bind_native, native
from pullback.graph.op_kinds import Detached, RunsAs, Transparent
from pullback.graph.op_table import TABLE

if TYPE_CHECKING:
    from pullback.errors import Location
    from pullback.graph.dtypes import DType
    from pullback.ops.prelude import Op

Operand = Union["Node", complex]  # in formulas; `complex` includes int and float

next_number = itertools.count().__next__ if native is None else native.next_number


def _operator_between_nodes(name: str, swap: bool = False) -> Callable[[Node, Operand], Node]:
    """An operator that applies an op, which is looked up once."""
    op: Any = None

    def apply(self: Node, other: Operand) -> Node:
        nonlocal op
        if op is None:
            op = TABLE[name]()
        y = node_of_operand(other, self)
        return op(y, self) if swap else op(self, y)

    return apply


class PureNodeFields:
    """The fields of a node, where they are not those of a structure in C++."""

    __slots__ = (
        "__weakref__", "checked", "forward_op", "inputs", "number", "op", "tokens", "type",
        "value", "where",
    )  # fmt: skip

    def __init__(
        self, op: Op, inputs: tuple[Node, ...], type: Any, where: Location = None,
        tokens: tuple = (), forward_op: str = "", value: Any = None,
    ) -> None:  # fmt: skip
        self.op = op
        self.inputs = inputs
        self.type = type
        self.where = where
        self.tokens = tokens
        self.forward_op = forward_op
        self.value = value
        self.number = next_number()
        self.checked: Any = None


if TYPE_CHECKING or native is None:  # noqa: SIM108 - a base class must not be an expression
    NodeFields = PureNodeFields
else:
    NodeFields = native.NodeFields


class Node(NodeFields):
    """One application of an op.

    `type` is the type of the result; an op with several results has a tuple of types, and each
    result is a node with the op `Result(i)`. `value` is the buffer, once computed. `number`
    increases in the order of recording. `tokens` are the derivatives that may still need the op
    and the inputs (see `pullback.lazy.history`). `forward_op` is the name of the op whose
    reverse-mode rule emitted the node; empty for a node of the forward pass. `checked` is the run
    whose checks the value depends on, with the number of the result, until they were examined.
    """

    __slots__ = ()

    @property
    def backward(self) -> bool:
        """Whether it belongs to a backward pass: a reverse-mode rule emitted it."""
        return self.forward_op != ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.number}: {self.type}>"

    # Rules are written as formulas, such as `g * x + 1`
    __add__, __radd__ = _operator_between_nodes("Add"), _operator_between_nodes("Add", swap=True)
    __sub__, __rsub__ = _operator_between_nodes("Sub"), _operator_between_nodes("Sub", swap=True)
    __mul__, __rmul__ = _operator_between_nodes("Mul"), _operator_between_nodes("Mul", swap=True)
    __truediv__, __rtruediv__ = (
        _operator_between_nodes("Div"),
        _operator_between_nodes("Div", swap=True),
    )

    def __neg__(self) -> Node:
        return TABLE["Neg"]()(self)


def live_nodes() -> list[Node]:
    """Return all nodes that exist."""
    if native is not None:  # most are not tracked by the garbage collector
        return native.live_nodes()
    return [x for x in gc.get_objects() if type(x) is Node]


bind_native(
    Node=Node, Detached=Detached, RunsAs=RunsAs, Transparent=Transparent, table=TABLE, thread=thread
)


def node_of_operand(value: Operand, like: Node) -> Node:
    """Return `value` as a node; a Python number becomes a constant of the dtype of `like`."""
    return value if isinstance(value, Node) else constant_node(value, like.type.dtype)


def constant_node(value: Any, dtype: DType) -> Node:
    """Return a scalar constant. It is part of the program, not an input of it."""
    # Integers recur; floats are not cached, because -0.0 and 0.0 are the same key
    make = _whole_constant if type(value) is int else _constant_op_of_node
    return make(value, dtype)()


def _constant_op_of_node(value: Any, dtype: DType) -> Op:
    data = np.asarray(value, dtype.numpy)
    return TABLE["Const"](dtype, data.shape, data.tobytes())


_whole_constant = lru_cache(maxsize=256)(_constant_op_of_node)


def apply_op_to_nodes(op: Op, inputs: tuple[Node, ...]) -> Node:
    """Apply `op` inside a rule: the new node has the line of the node that the rule is for."""
    types = tuple([x.type for x in inputs])
    type = op.inferred.get(types)
    if type is None:
        op, inputs = op.conform(inputs)
        type = op.type_of(*[x.type for x in inputs])
    return Node(op, inputs, type, thread.where, tokens_of_new_node(op, inputs), thread.forward_op)


def tokens_of_new_node(op: Op, inputs: tuple[Node, ...]) -> tuple:
    """Return the tokens of a node that a rule emits."""
    tokens = merge_tokens(inputs)
    if not tokens:
        return ()
    if isinstance(op, Detached):
        return derivative_tokens_of_constant(tokens)
    if not thread.leaf_tokens:
        return tuple([t for t in tokens if not t.leaf])
    return tokens


def nodes_varying_alike(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return operands that vary along the same named axes: the union of those of all operands."""
    found = [x.type.varying for x in inputs if not isinstance(x.type, tuple)]
    if all(v == found[0] for v in found[1:]):
        return inputs
    axes = tuple(sorted({a for v in found for a in v}))
    return tuple([node_varying_over(x, axes) for x in inputs])


def node_varying_over(x: Node, axes: tuple[str, ...]) -> Node:
    """Return `x` as a value that also varies along `axes`; types sort the names of axes."""
    own = x.type.varying
    if own == axes or all(a in own for a in axes):
        return x
    return apply_op_to_nodes(TABLE["PVary"](tuple(sorted({*own, *axes}))), (x,))


def result_nodes(node: Node) -> tuple[Node, ...]:
    """Return the results of an op with several results, as nodes."""
    rest = node.where, node.tokens, node.forward_op
    return tuple([Node(_selection(i), (node,), t, *rest) for i, t in enumerate(node.type)])


_selection = lru_cache(maxsize=64)(lambda i: TABLE["Result"](i))
bind_native(selection=_selection)
