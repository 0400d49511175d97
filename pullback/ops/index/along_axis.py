"""Indexing along one axis, with an index of its own for each element.

Indices count from 0. One that is out of range is an error; `trusted` ones, which come from an op
such as a sort, are not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.index.bounds import index_within_bounds, require_index_within_bounds
from pullback.ops.index.index_lowering import lower_gather_dims, lower_scatter_dims
from pullback.ops.prelude import Axis, Node, Op, Parts, Type, batch_along, jvp_in_first
from pullback.ops.reduce.reductions import reduction_accumulator, widened_reduction_operand
from pullback.ops.samples import integer_samples, real
from pullback.ops.shape.movement import Reshape
from pullback.ops.shape.squeeze_flip_axes import check_axes


class TakeAlongAxis(Op):
    """out[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`; the other sizes agree."""

    axis: int
    trusted: bool = False
    examples: int = 0  # dimensions in front that vmap added: errors do not count them
    kinds: ClassVar[str] = "biufc"
    parts = Parts(linear_in=(0,), positions=1)
    jvp = jvp_in_first

    @property
    def fallible(self) -> bool:  # type: ignore[override]
        return not self.trusted

    def infer(self, x: Type, indices: Type) -> Type:
        check_along(self.axis, x, indices)
        return x.with_shape(indices.shape)

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        (indices,) = index_within_bounds([indices], [self.axis], x.shape, self.examples)
        return np.take_along_axis(x, indices, self.axis)

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        if not self.trusted:
            require_index_within_bounds(b, [indices], [self.axis], x.shape, self.examples)
        others = [i for i in range(out.rank) if i != self.axis]
        return lower_gather_dims(b, out, x, [indices], [self.axis], others)

    def factors(self, x: Type, indices: Type) -> str:
        words = factor_rule_names(x.rank)
        return factor_rule([factor_rule_names(x.rank, (self.axis,)), words], [words])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, indices = xs
        put = PutAlongAxisAdd(self.axis, x.type.shape[self.axis], self.trusted, self.examples)
        return [put(g, indices), None]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        x, indices = xs
        if mapped[0] or self.axis:
            return batch_along(self, axis, xs, mapped)
        # All examples read one operand: concatenate their indices.
        shape = indices.type.shape
        flat = Reshape((shape[0] * shape[1], *shape[2:]))(indices)
        return Reshape(shape)(self(x, flat))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(4), integer_samples(6, high=4))
        yield cls(1, True), (real(2, 3, 2), integer_samples(2, 5, 2, high=3))
        yield cls(1), (real(2, 3), integer_samples(2, 0))
        yield cls(0), (real(3, 0), integer_samples(2, 0))
        yield cls(0), (real(3, 2), integer_samples(1, 2, high=3).astype(np.int32))


class PutAlongAxisAdd(Op):
    """Zeros of size `size` along `axis`, with each element of `x` added at its index there.

    f16 and bf16 are summed in f32.
    """

    axis: int
    size: int
    trusted: bool = False
    examples: int = 0
    kinds: ClassVar[str] = "iufc"
    parts = Parts(linear_in=(0,), positions=1)
    batch, jvp = batch_along, jvp_in_first
    fallible = TakeAlongAxis.fallible  # type: ignore[assignment]

    def infer(self, x: Type, indices: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_along(self.axis, x, indices)
        if x.shape != indices.shape:
            what = f"values and indices must have the same shape, got {x} and {indices}"
            raise ShapeError(what, code="E3001")
        return x.with_shape(self.target(x.shape))

    def target(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        shape = self.target(x.shape)
        (indices,) = index_within_bounds([indices], [self.axis], shape, self.examples)
        wide = widened_reduction_operand(x)
        out = np.zeros(shape, wide.dtype)
        positions: list[np.ndarray] = list(np.indices(x.shape, sparse=True))
        positions[self.axis] = indices
        np.add.at(out, tuple(positions), wide)
        return out.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        if not self.trusted:
            require_index_within_bounds(b, [indices], [self.axis], out.shape, self.examples)
        if not out.size or not x.type.size:
            return b.full(out, 0)
        others, wide = (
            [i for i in range(out.rank) if i != self.axis],
            reduction_accumulator(out.dtype),
        )
        total = lower_scatter_dims(
            b, b.full(out.with_dtype(wide), 0), b.convert(x, wide), [indices], [self.axis], "add",
            others, [], [self.axis],
        )  # fmt: skip
        return b.convert(total, out.dtype)

    def factors(self, x: Type, indices: Type) -> str:
        words = factor_rule_names(x.rank)
        return factor_rule([words, words], [factor_rule_names(x.rank, (self.axis,))])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [TakeAlongAxis(self.axis, self.trusted, self.examples)(g, xs[1]), None]

    @classmethod
    def samples(cls) -> Any:
        yield cls(0, 3), (real(6), integer_samples(6, high=3))
        yield cls(1, 4, True), (real(2, 5, 3), integer_samples(2, 5, 3, high=4))
        yield cls(1, 2), (real(2, 0), integer_samples(2, 0))
        yield cls(0, 0), (real(0, 2), integer_samples(0, 2))
        yield cls(0, 5), (real(2, 2), integer_samples(2, 2, high=5).astype(np.int32))


def check_along(axis: int, x: Type, indices: Type) -> None:
    """Raise unless the indices are integers that fit `x` in all dimensions but `axis`."""
    if not indices.dtype.is_integer:
        raise DTypeError(f"indices must be integers, got {indices}", code="E4011")
    if x.rank != indices.rank:
        what = f"operand and indices must have the same rank, got {x} and {indices}"
        raise ShapeError(what, code="E3002")
    check_axes((axis,), x.rank)
    if any(m != n for i, (m, n) in enumerate(zip(x.shape, indices.shape)) if i != axis):
        what = f"sizes must agree except along axis {axis}, got {x} and {indices}"
        raise ShapeError(what, code="E3001")
