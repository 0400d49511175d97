"""The StableHLO instruction `case`."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import bool_, float64, int32
from pullback.graph.graph import Graph
from pullback.ops.control.cond import CondChoice
from pullback.ops.control.holder import run_held
from pullback.ops.elementwise.functions import either, equal, negated
from pullback.ops.prelude import TABLE, Imported, Node, Op, Type
from pullback.ops.samples import real
from pullback.ops.sources import Input


class Case(CondChoice):
    """Runs the branch with the given number (i32); the last one if there is no such branch."""

    imported = Imported(("case",))

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.graphs)

    def check_index(self, index: Type) -> None:
        if index.dtype is not int32:
            raise DTypeError(f"the branch index must be i32, got {index}", code="E2005")

    def selects(self, index: Node, k: int) -> Node:
        if k < len(self.branches) - 1:
            return equal(index, k)
        others: Node = TABLE["Const"](bool_, (), b"\0")()
        for n in range(k):
            others = either(others, equal(index, n))
        return negated(others)

    def lower_index(self, b: Any, index: Any) -> Any:
        return index

    def numpy(self, index: np.ndarray, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        last = len(self.branches) - 1
        chosen = int(index) if 0 <= int(index) <= last else last
        return tuple(run_held(self.branches[chosen], xs))

    @classmethod
    def samples(cls) -> Any:
        x = Input("x0", (2,), float64)()
        graphs = tuple([Graph((x,), (y,)) for y in (x * x, TABLE["Sin"]()(x), -x)])
        for i in (0, 1, 5, -1):
            yield cls(graphs), (np.int32(i), real(2))
