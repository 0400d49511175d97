"""Sorting along an axis. Every sort is stable, and NaN is larger than every number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import int64
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.index.along_axis import PutAlongAxisAdd, TakeAlongAxis
from pullback.ops.prelude import Composite, Node, Op, Type, batch_along, result_nodes
from pullback.ops.reduce.reductions import widened_reduction_operand
from pullback.ops.samples import real
from pullback.ops.shape.slicing import Slice
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.sort.integer_keys import (
    elements_of_integer_keys,
    integer_key_indices,
    integer_keys,
    sorted_by_integer_keys,
    sorts_by_integer_keys,
    take_in_integer_key_order,
)
from pullback.ops.traits import HasKernel


class Sorting(Op, HasKernel, abstract=True):
    """Stable sorting along `axis`: smallest first or, if `descending`, largest first."""

    axis: int
    descending: bool
    kinds: ClassVar[str] = "biuf"
    gives: ClassVar[slice]  # which of the sorted elements and their indices are results
    batch = batch_along

    def only(self, both: Sequence[Any]) -> Any:
        """The results, of elements and indices."""
        given = tuple(both[self.gives])
        return given if len(given) > 1 else given[0]

    def infer(self, x: Type) -> Any:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        return self.only((x, x.with_dtype(int64)))

    def numpy(self, x: np.ndarray) -> Any:
        indices = sort_order(x, self.axis, self.descending)
        return self.only((np.take_along_axis(x, indices, self.axis), indices))

    def hlo(self, b: Any, out: Any, x: Any) -> Any:
        return self.only(sorted_with_indices(b, x, self.axis, self.descending))

    def kernel(self, b: Any, out: Any, x: Any) -> Any:
        if not kernel_sorts(x.type, self.axis):
            return None
        options = {"descending": self.descending, "only_indices": self.gives.start == 1}
        return b.kernel("sort", x, out=out, axis=self.axis, **options)

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, (self.axis,), results=len(range(2)[self.gives]))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0, False), (real(6),)
        yield cls(1, True), (real(2, 5, 3),)
        yield cls(0, True), (real(0, 2),)
        yield cls(1, False), (real(2, 1),)


class Sort(Sorting):
    """The elements in order."""

    gives = slice(0, 1)  # the derivative moves with the elements

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return sort_elements_along(b, x, self.axis, self.descending)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        indices = ArgSort(self.axis, self.descending)(xs[0])
        return [PutAlongAxisAdd(self.axis, xs[0].type.shape[self.axis], True)(g, indices)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        indices = ArgSort(self.axis, self.descending)(xs[0])
        return TakeAlongAxis(self.axis, True)(ts[0], indices)


class ArgSort(Sorting):
    """The indices (i64) that put the elements in order."""

    title = "argsort"
    differentiable: ClassVar[bool] = False
    gives = slice(1, 2)


class SortWithIndices(Sorting):
    """The elements in order, and the indices (i64) that put them in order."""

    gives = slice(0, 2)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [PutAlongAxisAdd(self.axis, xs[0].type.shape[self.axis], True)(g[0], out[1])]

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Any]) -> tuple:
        return TakeAlongAxis(self.axis, True)(ts[0], out[1]), None


class TopK(Composite, HasKernel):
    """The `k` largest elements along `axis`, largest first, and their indices (i64).

    Of equal elements the one with the lower index comes first; NaN is the largest.
    """

    k: int
    axis: int
    kinds: ClassVar[str] = "biuf"
    batch = batch_along

    def infer(self, x: Type) -> tuple[Type, Type]:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        if not 0 <= self.k <= x.shape[self.axis]:
            what = f"k must be at least 0 and at most the size of axis {self.axis}"
            raise ShapeError(f"{what}, got k = {self.k} for {x}")
        shape = (*x.shape[: self.axis], self.k, *x.shape[self.axis + 1 :])
        return x.with_shape(shape), x.with_shape(shape).with_dtype(int64)

    def numpy(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = (*[slice(None)] * self.axis, slice(self.k))
        indices = sort_order(x, self.axis, True)[first]
        return np.take_along_axis(x, indices, self.axis), indices

    def expand(self, x: Node) -> tuple[Node, ...]:
        stops = [self.k if i == self.axis else n for i, n in enumerate(x.type.shape)]
        first = Slice((0,) * x.type.rank, tuple(stops), (1,) * x.type.rank)
        return tuple(first(y) for y in result_nodes(SortWithIndices(self.axis, True)(x)))

    def kernel(self, b: Any, out: tuple[Type, Type], x: Any) -> Any:
        if not self.k or not kernel_sorts(x.type, self.axis):
            return None
        return b.kernel("top_k", x, out=out, axis=self.axis)

    vjp, jvp = SortWithIndices.vjp, SortWithIndices.jvp  # type: ignore[assignment]

    @classmethod
    def samples(cls) -> Any:
        for k, axis, shape in ((3, 0, (6,)), (2, 1, (2, 5, 3)), (4, 0, (4, 2)), (0, 1, (2, 3))):
            yield cls(k, axis), (real(*shape),)


def kernel_sorts(x: Type, axis: int) -> bool:
    """Whether a kernel sorts these elements: it takes 32 or 64 bits, and 32 bits hold an index."""
    return x.dtype.bits >= 32 and not x.dtype.is_complex and x.shape[axis] < 2**31


def sort_order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """NumPy's stable argsort; equal elements keep their order also when descending."""
    x = widened_reduction_operand(x)
    if not descending:
        return np.argsort(x, axis, kind="stable").astype(np.int64)
    # Sort the flipped array and flip the result: equal elements are reversed twice.
    flipped = np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    return (x.shape[axis] - 1 - flipped).astype(np.int64)


def sort_elements_along(b: Any, x: Any, axis: int, descending: bool = False) -> Any:
    """Sort elements along an axis."""
    if not x.dtype.is_float or not sorts_by_integer_keys(b, x.shape[axis]):
        return sort_together(b, [x], axis, descending)[0]
    keys = integer_keys(b, x, equal_zeros=False)
    return elements_of_integer_keys(b, sorted_by_integer_keys(b, keys, axis, descending), x.type)


def sorted_with_indices(b: Any, x: Any, axis: int, descending: bool = False) -> tuple[Any, Any]:
    """Sort elements along an axis, and their indices with them."""
    if not sorts_by_integer_keys(b, x.shape[axis]):
        elements, indices = sort_together(b, [x, b.iota(x.shape, int64, axis)], axis, descending)
        return elements, indices
    order = integer_key_indices(b, x, axis, descending)
    return take_in_integer_key_order(b, x, order, axis), order


def sort_together(b: Any, xs: Sequence[Any], axis: int, descending: bool) -> tuple:
    """Sort `xs` together along an axis, by the first of them."""

    def precedes(p: Any, q: Any, *others: Any) -> list:
        small, large = (q, p) if descending else (p, q)
        holds = b.compare("LT", small, large)
        if p.dtype.is_float:  # NaN is the largest, and equal to itself
            nan, number = b.compare("NE", large, large), b.compare("EQ", small, small)
            last = b.op("stablehlo.and", nan, number, out=nan.type)
            holds = b.op("stablehlo.or", holds, last, out=nan.type)
        return [holds]

    pairs = [Type((), x.dtype) for x in xs for _ in range(2)]
    return b.op(
        "stablehlo.sort", *xs, out=tuple(x.type for x in xs), regions=b.region(pairs, precedes),
        dimension=axis, is_stable=True,
    )  # fmt: skip
