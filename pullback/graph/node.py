"""Nodes: applications of ops to nodes. Together they are every program that pullback knows."""

from __future__ import annotations

import itertools
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.graph.kinds import Detached
from pullback.graph.table import TABLE
from pullback.graph.tape import merge_tokens, of_constant

if TYPE_CHECKING:
    from pullback.ops.prelude import Op

next_number = itertools.count().__next__


class Node:
    """One application of an op.

    `type` is the type of its result; an op with several results has a tuple of types here, and
    each result is a node of its own (`Result(i)`). `value` is the buffer once it was computed;
    `number` grows in the order of recording. `tokens` are the derivatives that may still need
    this node's op and inputs (see `pullback.lazy.history`).
    """

    __slots__ = (
        "__weakref__", "backward", "inputs", "number", "op", "tokens", "type", "value", "where",
    )  # fmt: skip

    def __init__(
        self,
        op: Op,
        inputs: tuple[Node, ...],
        type: Any,
        where: Any = None,
        tokens: tuple = (),
        backward: bool = False,
        value: Any = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.type = type
        self.where = where
        self.tokens = tokens
        self.backward = backward
        self.value = value
        self.number = next_number()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"<{self.op.name} #{self.number}: {self.type}>"

    # Rules are written as formulas: `g * x + 1`.
    def __add__(self, other: Any) -> Node:
        return _apply("Add", self, operand(other, self))

    def __sub__(self, other: Any) -> Node:
        return _apply("Sub", self, operand(other, self))

    def __mul__(self, other: Any) -> Node:
        return _apply("Mul", self, operand(other, self))

    def __truediv__(self, other: Any) -> Node:
        return _apply("Div", self, operand(other, self))

    def __radd__(self, other: Any) -> Node:
        return _apply("Add", operand(other, self), self)

    def __rsub__(self, other: Any) -> Node:
        return _apply("Sub", operand(other, self), self)

    def __rmul__(self, other: Any) -> Node:
        return _apply("Mul", operand(other, self), self)

    def __rtruediv__(self, other: Any) -> Node:
        return _apply("Div", operand(other, self), self)

    def __neg__(self) -> Node:
        return _apply("Neg", self)


_arithmetic: dict[str, Any] = {}  # the ops behind the operators, fetched once


def _apply(name: str, *xs: Node) -> Node:
    op = _arithmetic.get(name)
    if op is None:
        op = _arithmetic[name] = TABLE[name]()
    return op(*xs)


def operand(value: Any, like: Node) -> Node:
    """`value` as a node; a Python number becomes a constant of `like`'s element type."""
    return value if isinstance(value, Node) else constant(value, like.type.dtype)


def constant(value: Any, dtype: Any) -> Node:
    """A scalar constant that a rule writes: it is part of the program, not an input of it."""
    # Whole numbers come again and again; floats are left out, for -0.0 is looked up as 0.0.
    make = _whole_constant if type(value) is int else _constant
    return make(value, dtype)()


def _constant(value: Any, dtype: Any) -> Any:
    data = np.asarray(value, dtype.numpy)
    return TABLE["Const"](dtype, data.shape, data.tobytes())


_whole_constant = lru_cache(maxsize=256)(_constant)


class _Origin(threading.local):
    """Whose work the nodes made now are: the forward node that a rule is called for."""

    where: Any = None
    backward: bool = False
    leaf_tokens: bool = True  # off while backward() runs: its gradients are not differentiable


origin = _Origin()


def emit(op: Op, inputs: tuple[Node, ...]) -> Node:
    """Apply `op` inside a rule: the new node takes its line from the node it is derived from."""
    types = tuple([x.type for x in inputs])
    type = op.inferred.get(types)
    if type is None:
        op, inputs = op.conform(inputs)
        type = op.type_of(*[x.type for x in inputs])
    return Node(op, inputs, type, origin.where, inherited(op, inputs), origin.backward)


def inherited(op: Op, inputs: tuple[Node, ...]) -> tuple:
    """The tokens of a node that a rule makes."""
    tokens = merge_tokens(inputs)
    if not tokens:
        return ()
    if isinstance(op, Detached):
        return of_constant(tokens)
    if not origin.leaf_tokens:
        return tuple([t for t in tokens if not t.leaf])
    return tokens


def vary_alike(inputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """Operands that vary along the same named axes: one that is the same along an axis on which
    another varies counts as a value that varies there."""
    found = [x.type.varying for x in inputs if not isinstance(x.type, tuple)]
    if all(v == found[0] for v in found[1:]):
        return inputs
    axes = tuple(sorted({a for v in found for a in v}))
    return tuple([vary_over(x, axes) for x in inputs])


def vary_over(x: Node, axes: tuple[str, ...]) -> Node:
    """`x` as a value that varies along `axes` too; types name axes in alphabetical order."""
    own = x.type.varying
    if own == axes or all(a in own for a in axes):
        return x
    return emit(TABLE["PVary"](tuple(sorted({*own, *axes}))), (x,))


def results(node: Node) -> tuple[Node, ...]:
    """The results of an op with several of them, as nodes."""
    inputs, where, tokens, backward = (node,), node.where, node.tokens, node.backward
    return tuple([
        Node(_selection(i), inputs, type, where, tokens, backward)
        for i, type in enumerate(node.type)
    ])  # fmt: skip


@lru_cache(maxsize=64)
def _selection(i: int) -> Any:
    return TABLE["Result"](i)
