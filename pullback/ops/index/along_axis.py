"""Indexing along one axis: each element names its own place there.

Indices count from 0. One that is out of range is an error; `trusted` ones, which an op such as a
sort made itself, are not examined.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.ops.elementwise.base import check_kind
from pullback.ops.factor_rules import named, rule
from pullback.ops.index.bounds import in_range, index_vectors, require_in_range
from pullback.ops.parts import Parts
from pullback.ops.prelude import TABLE, Axis, Node, Op, Type, batch_along
from pullback.ops.reduce.reductions import accumulator, check_axes, widened
from pullback.ops.samples import integers, real


class TakeAlongAxis(Op):
    """out[.., i, ..] = x[.., indices[.., i, ..], ..] along `axis`; the other extents agree."""

    axis: int
    trusted: bool = False
    examples: int = 0  # dimensions in front that errors do not count
    kinds: ClassVar[str] = "biufc"
    parts = Parts(linear_in=(0,), positions=1)

    @property
    def fallible(self) -> bool:  # type: ignore[override]
        return not self.trusted

    def infer(self, x: Type, indices: Type) -> Type:
        check_along(self.axis, x, indices)
        return x.with_shape(indices.shape)

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        (indices,) = in_range([indices], [self.axis], x.shape, self.examples)
        return np.take_along_axis(x, indices, self.axis)

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        if not self.trusted:
            require_in_range(b, [indices], [self.axis], x.shape, self.examples)
        if not out.size or not x.type.size:
            return b.full(out, 0)
        others = [i for i in range(out.rank) if i != self.axis]
        numbers = (
            f"collapsed_slice_dims = [{self.axis}], operand_batching_dims = {others}, "
            f"start_indices_batching_dims = {others}, start_index_map = [{self.axis}], "
            f"index_vector_dim = {out.rank}"
        )
        return b.op(
            "stablehlo.gather", x, index_vectors(b, [indices], x.shape), out=out,
            dimension_numbers=f"#stablehlo.gather<{numbers}>", slice_sizes=(1,) * out.rank,
            indices_are_sorted=False,
        )  # fmt: skip

    def factors(self, x: Type, indices: Type) -> str:
        words = named(x.rank)
        return rule([named(x.rank, (self.axis,)), words], [words])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, indices = xs
        put = PutAlongAxisAdd(self.axis, x.type.shape[self.axis], self.trusted, self.examples)
        return [put(g, indices), None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], xs[1])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        x, indices = xs
        if mapped[0] or self.axis:
            return batch_along(self, axis, xs, mapped)
        # all examples read one operand: their indices stand one after the other
        reshape, shape = TABLE["Reshape"], indices.type.shape
        flat = reshape((shape[0] * shape[1], *shape[2:]))(indices)
        return reshape(shape)(self(x, flat))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(4), integers(6, high=4))
        yield cls(1, True), (real(2, 3, 2), integers(2, 5, 2, high=3))
        yield cls(1), (real(2, 3), integers(2, 0))
        yield cls(0), (real(3, 0), integers(2, 0))
        yield cls(0), (real(3, 2), integers(1, 2, high=3).astype(np.int32))


class PutAlongAxisAdd(Op):
    """Zeros of extent `size` along `axis`, with each element of `x` added at its index there.

    Half precision is summed in f32.
    """

    axis: int
    size: int
    trusted: bool = False
    examples: int = 0
    kinds: ClassVar[str] = "iufc"
    parts = Parts(linear_in=(0,), positions=1)
    batch = batch_along

    @property
    def fallible(self) -> bool:  # type: ignore[override]
        return not self.trusted

    def infer(self, x: Type, indices: Type) -> Type:
        check_kind(x.dtype, self.kinds)
        check_along(self.axis, x, indices)
        if x.shape != indices.shape:
            raise ShapeError(
                f"values and indices must have one shape, got {x} and {indices}", code="E3001"
            )
        return x.with_shape(self.target(x.shape))

    def target(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[: self.axis], self.size, *shape[self.axis + 1 :])

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        shape = self.target(x.shape)
        (indices,) = in_range([indices], [self.axis], shape, self.examples)
        wide = widened(x)
        out = np.zeros(shape, wide.dtype)
        places: list[np.ndarray] = list(np.indices(x.shape, sparse=True))
        places[self.axis] = indices
        np.add.at(out, tuple(places), wide)
        return out.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        if not self.trusted:
            require_in_range(b, [indices], [self.axis], out.shape, self.examples)
        if not out.size or not x.type.size:
            return b.full(out, 0)
        others = [i for i in range(out.rank) if i != self.axis]
        numbers = (
            f"inserted_window_dims = [{self.axis}], input_batching_dims = {others}, "
            f"scatter_indices_batching_dims = {others}, "
            f"scatter_dims_to_operand_dims = [{self.axis}], index_vector_dim = {out.rank}"
        )
        wide = Type(out.shape, accumulator(out.dtype))
        body = b.region(
            [Type((), wide.dtype)] * 2, lambda p, q: [b.op("stablehlo.add", p, q, out=p.type)]
        )
        made = b.op(
            "stablehlo.scatter", b.full(wide, 0), index_vectors(b, [indices], out.shape),
            b.convert(x, wide.dtype), out=wide, regions=body,
            scatter_dimension_numbers=f"#stablehlo.scatter<{numbers}>",
            indices_are_sorted=False, unique_indices=False,
        )  # fmt: skip
        return b.convert(made, out.dtype)

    def factors(self, x: Type, indices: Type) -> str:
        words = named(x.rank)
        return rule([words, words], [named(x.rank, (self.axis,))])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [TakeAlongAxis(self.axis, self.trusted, self.examples)(g, xs[1]), None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], xs[1])

    @classmethod
    def samples(cls) -> Any:
        yield cls(0, 3), (real(6), integers(6, high=3))
        yield cls(1, 4, True), (real(2, 5, 3), integers(2, 5, 3, high=4))
        yield cls(1, 2), (real(2, 0), integers(2, 0))
        yield cls(0, 0), (real(0, 2), integers(0, 2))
        yield cls(0, 5), (real(2, 2), integers(2, 2, high=5).astype(np.int32))


def check_along(axis: int, x: Type, indices: Type) -> None:
    if not indices.dtype.is_integer:
        raise DTypeError(f"indices must be integers, got {indices}", code="E4011")
    if x.rank != indices.rank:
        raise ShapeError(
            f"operand and indices must have one rank, got {x} and {indices}", code="E3002"
        )
    check_axes((axis,), x.rank)
    for i, (m, n) in enumerate(zip(x.shape, indices.shape)):
        if i != axis and m != n:
            raise ShapeError(
                f"extents must agree except along axis {axis}, got {x} and {indices}",
                code="E3001",
            )  # fmt: skip
