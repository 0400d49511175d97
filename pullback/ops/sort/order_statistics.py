"""Elements at given positions of the sorted order, found without sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.dtypes import int64
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.index.along_axis import PutAlongAxisAdd, TakeAlongAxis
from pullback.ops.prelude import Node, Op, Type, batch_along
from pullback.ops.samples import real
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.sort.selection import selection_of_elements, selection_of_indices, selection_pays
from pullback.ops.sort.sort import (
    kernel_sorts,
    sort_elements_along,
    sort_order,
    sorted_with_indices,
)
from pullback.ops.traits import HasKernel


class RankedStatistics(Op, HasKernel, abstract=True):
    """What sorting along `axis` would put at the positions `ranks`, which count from 0 and ascend.
    Equal elements keep their order, and NaN is the largest."""

    axis: int
    ranks: tuple[int, ...]
    kinds: ClassVar[str] = "biuf"
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        ascend = all(i < j for i, j in zip(self.ranks, self.ranks[1:]))
        if not ascend or not all(0 <= r < x.shape[self.axis] for r in self.ranks):
            what = f"ranks must ascend from 0 to less than {x.shape[self.axis]}, got {self.ranks}"
            raise ArgumentError(what, op=self.title)
        shape = (*x.shape[: self.axis], len(self.ranks), *x.shape[self.axis + 1 :])
        return x.with_shape(shape)

    def kernel(self, b: Any, out: Type, x: Any) -> Any:
        if not self.ranks or not kernel_sorts(x.type, self.axis):
            return None
        indices = not self.differentiable
        return b.kernel(
            "order_statistics", x, out=out, axis=self.axis, ranks=self.ranks, only_indices=indices
        )

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, (self.axis,))

    def order(self, x: np.ndarray) -> np.ndarray:
        """The indices of the elements."""
        return np.take(sort_order(x, self.axis, False), self.ranks, self.axis)

    @classmethod
    def samples(cls) -> Any:
        yield cls(0, (0, 2, 3)), (real(6),)
        yield cls(1, (4,)), (real(2, 5, 3),)
        yield cls(1, ()), (real(2, 0),)


class OrderStatistics(RankedStatistics):
    """The elements at the positions `ranks` of the sorted order along `axis`, which ascend."""

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x, self.order(x), self.axis)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if selection_pays(b, x.type, self.axis, self.ranks):
            return selection_of_elements(b, out, x, self.axis, self.ranks)
        return _order_statistics_at_ranks(b, out, sort_elements_along(b, x, self.axis), self)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        indices = RankIndices(self.axis, self.ranks)(xs[0])
        return [PutAlongAxisAdd(self.axis, xs[0].type.shape[self.axis], True)(g, indices)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        indices = RankIndices(self.axis, self.ranks)(xs[0])
        return TakeAlongAxis(self.axis, True)(ts[0], indices)


class RankIndices(RankedStatistics):
    """The indices (i64) of the elements that `OrderStatistics` gives."""

    differentiable: ClassVar[bool] = False

    def infer(self, x: Type) -> Type:
        return super().infer(x).with_dtype(int64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return self.order(x)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if selection_pays(b, x.type, self.axis, self.ranks):
            return selection_of_indices(b, out, x, self.axis, self.ranks)
        return _order_statistics_at_ranks(b, out, sorted_with_indices(b, x, self.axis)[1], self)


def _order_statistics_at_ranks(b: Any, out: Type, x: Any, op: RankedStatistics) -> Any:
    """Write the elements of sorted ones."""
    parts = []
    for r in op.ranks:
        start = [r if i == op.axis else 0 for i in range(out.rank)]
        stop = [r + 1 if i == op.axis else n for i, n in enumerate(x.shape)]
        parts.append(hlo_slice_instruction(b, x, start, stop))
    if not parts:
        return b.full(out, 0)
    return b.op("stablehlo.concatenate", *parts, out=out, dimension=op.axis)
