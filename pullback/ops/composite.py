"""Ops that are written as other ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import UnsupportedOp
from pullback.graph.dtypes import dtype
from pullback.graph.graph import Graph
from pullback.graph.node import Node
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.interpret import interpret
from pullback.ops.op import Op


class CompositeOnMesh(Op, abstract=True):
    """An op that can be written as other ops: on a mesh, where it would need whole operands."""

    def expand(self, *xs: Node) -> Any:
        """Return the same value as nodes over `xs`: a node, or a tuple for several results."""
        raise UnsupportedOp("has no expansion", op=self.title)

    def expansion(self, types: Sequence[Type]) -> Graph:
        """Return the expansion as a graph over inputs of the given types."""
        inputs = [TABLE["Input"](f"x{i}", t.shape, t.dtype)() for i, t in enumerate(types)]
        made = self.expand(*inputs)
        return Graph(inputs, made if isinstance(made, tuple) else (made,))


class Composite(CompositeOnMesh, abstract=True):
    """An op that is written as other ops; it inherits every rule that it does not state."""

    def infer(self, *xs: Type) -> Any:
        types = tuple(y.type for y in self.expansion(xs).outputs)
        return types if len(types) > 1 else types[0]

    def numpy(self, *xs: np.ndarray) -> Any:
        graph = self.expansion([Type(x.shape, dtype(x.dtype)) for x in map(np.asarray, xs)])
        made = interpret(graph, xs)
        return tuple(made) if len(made) > 1 else made[0]

    def hlo(self, b: Any, out: Any, *xs: Any) -> Any:
        made = b.inline(self.expansion([x.type for x in xs]), xs)
        return made if len(made) > 1 else made[0]

    def shardings(self, mesh: Any, xs: Sequence[Type], ys: Sequence[Type]) -> Sequence[Any]:
        if type(self).factors is not Op.factors:
            return super().shardings(mesh, xs, ys)
        made = self.expand(*[TABLE["Input"].of_type(f"x{i}", t) for i, t in enumerate(xs)])
        return [y.type.sharding for y in (made if isinstance(made, tuple) else (made,))]

    # Transforms look at these: without a rule of its own the expansion is used.
    vjp = None  # type: ignore[assignment]
    jvp = None  # type: ignore[assignment]
    batch: ClassVar[Any] = None
