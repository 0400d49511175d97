"""Tiny ops, kept out of the op table, and graphs to try the IR on."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

import pullback.ops  # noqa: F401  (fills the op table)
from pullback.graph import dtypes
from pullback.graph.graph import Graph
from pullback.graph.node import Node, constant_node, result_nodes
from pullback.graph.types import Type
from pullback.ops.elementwise.elementwise import Binary, Unary
from pullback.ops.prelude import Op
from pullback.ops.reduce.reductions import Sum
from pullback.ops.sources import Input
from pullback.ops.wrap.identity import Alias, StopGradient

F32, F64, I32, I64 = dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64


class Scaled(Op, abstract=True):
    name: ClassVar[str] = "Scaled"
    factor: float

    def infer(self, x: Type) -> Type:
        return x


class Marked(Op, abstract=True):
    name: ClassVar[str] = "Marked"
    mark: Any

    def infer(self, x: Type) -> Type:
        return x


class Counted(Op, abstract=True):
    name: ClassVar[str] = "Counted"
    count: int


class Blob(Op, abstract=True):
    name: ClassVar[str] = "Blob"
    data: bytes


Span = tuple[float, float]  # an annotation may be a name for something inexact
Corner = tuple[int, int]


class Clipped(Op, abstract=True):
    name: ClassVar[str] = "Clipped"
    span: Span


class Placed(Op, abstract=True):
    name: ClassVar[str] = "Placed"
    corner: Corner


class TopTwo(Op, abstract=True):
    name: ClassVar[str] = "TopTwo"
    k: int

    def infer(self, x: Type) -> Any:
        return x.with_shape((self.k,)), Type((self.k,), I64)


class Body(Op, abstract=True):
    name: ClassVar[str] = "Body"
    body: Graph

    def infer(self, x: Type) -> Type:
        return x


class Quotient(Binary, abstract=True):
    name: ClassVar[str] = "Quotient"
    ufunc = np.floor_divide


class Invert(Unary, abstract=True):
    name: ClassVar[str] = "Invert"
    ufunc = np.logical_not
    kinds = "b"


def source(*shape: int, dtype: dtypes.DType = F32, name: str = "x") -> Node:
    return Input(name, shape, dtype)()


def names_of(graph: Graph) -> list[str]:
    return [n.op.name for n in graph.nodes]


def program() -> Graph:
    """Something of everything that canonicalisation changes."""
    x, y = source(2, 3, name="x"), source(3, name="y")
    unused = source(name="unused")
    a = Alias()(x)
    z = a * y + y * x
    _dead = z + z
    top = result_nodes(TopTwo(2)(StopGradient()(z)))
    number = -(constant_node(2, I64) * constant_node(3, I64))
    return Graph([x, y, unused], [Sum((1,), False)(z), top[1], number])
