"""Indexing: elements picked by position. An index out of range is an error, never a clamped read.

Indices count from 0; the API adds the extent to negative ones before it records these ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.dtypes import DType, dtype, int32, int64
from pullback.ir.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from pullback.ir.types import show
from pullback.ops.base import TABLE, Node, Op, Type, constant, zeros
from pullback.ops.elementwise.base import check_kind
from pullback.ops.movement import Movement, Transpose
from pullback.ops.reduce import check_axes
from pullback.ops.sample import integers, real


class Iota(Op):
    """Each element's position along `axis`."""

    shape: tuple[int, ...]
    axis: int
    dtype: DType
    differentiable: ClassVar[bool] = False  # no operands

    def infer(self) -> Type:
        check_kind(self.dtype, "iufc")
        check_axes((self.axis,), len(self.shape))
        return Type(self.shape, self.dtype)

    def numpy(self) -> np.ndarray:
        places = np.arange(self.shape[self.axis]).astype(self.dtype.numpy)
        after = (1,) * (len(self.shape) - self.axis - 1)
        return np.broadcast_to(places.reshape(-1, *after), self.shape)

    def hlo(self, b: Any, out: Type) -> Any:
        # counted in integers first: small floats would stop growing, and complex has no iota
        return b.convert(b.iota(self.shape, int64, self.axis), self.dtype)

    @classmethod
    def samples(cls) -> Any:
        for name in ("i8", "u16", "i32", "i64", "f16", "bf16", "f64", "complex64"):
            yield cls((3, 300), 1, dtype(name)), ()
        yield cls((4, 2), 0, int32), ()
        yield cls((0,), 0, int32), ()


class Index(Movement):
    """One element, at a place that is known when the op is recorded."""

    indices: tuple[int, ...]
    positional: ClassVar[tuple[str, ...]] = ("indices",)

    def __post_init__(self) -> None:
        self.set("indices", tuple(map(int, self.indices)))

    def infer(self, x: Type) -> Type:
        if len(self.indices) != x.rank:
            raise ShapeError(
                f"needs one index for each of the {x.rank} dimensions of {x}, "
                f"got {list(self.indices)}",
                code="E4006",
            )
        for axis, (i, n) in enumerate(zip(self.indices, x.shape, strict=True)):
            if not 0 <= i < n:
                raise out_of_range(axis, n, i)
        return x.with_shape(())

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[self.indices])

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        element = b.op(
            "stablehlo.slice", x, out=Type((1,) * len(x.shape), x.dtype),
            start_indices=self.indices, limit_indices=tuple(i + 1 for i in self.indices),
            strides=(1,) * len(x.shape),
        )  # fmt: skip
        return b.reshape(element, ())

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        shape = xs[0].type.shape
        high = tuple(n - i - 1 for i, n in zip(self.indices, shape, strict=True))
        element = TABLE["Reshape"]((1,) * len(shape))(g)
        pad = TABLE["Pad"](self.indices, high, (0,) * len(shape))
        return [pad(element, constant(0, g.type.dtype))]

    @classmethod
    def samples(cls) -> Any:
        yield cls((1, 2)), (real(3, 4),)
        yield cls((0,)), (real(1),)
        yield cls(()), (real(),)


class IndexArrays(Op):
    """NumPy's integer-array indexing: index arrays of one shape pick along dimensions `dims`.

    The result has the index arrays' shape, followed by the dimensions that were not indexed.
    """

    dims: tuple[int, ...]
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set("dims", tuple(map(int, self.dims)))

    def infer(self, x: Type, *indices: Type) -> Type:
        return x.with_shape(index_shape(self.dims, x, indices) + unindexed(self.dims, x.shape))

    def numpy(self, x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        places = in_range(indices, self.dims, x.shape)
        return np.asarray(np.moveaxis(x, self.dims, range(len(self.dims)))[places])

    def hlo(self, b: Any, out: Type, x: Any, *indices: Any) -> Any:
        require_in_range(b, indices, self.dims, x.shape)
        return gather(b, out, x, indices, self.dims)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, *indices = xs
        return [TABLE["ScatterAdd"](self.dims)(zeros(x.type), g, *indices), *[None] * len(indices)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], *xs[1:])

    @classmethod
    def samples(cls) -> Any:
        yield cls((0, 2)), (real(3, 2, 4), integers(5, high=3), integers(5, high=4, salt=1))
        mixed = np.array([[3, 0]], np.int32), np.array([[2, 2]], np.uint8)
        yield cls((2, 0)), (real(3, 2, 4), *mixed)
        yield cls((0,)), (real(3), np.array([2, 0, 2, 2], np.int64))
        yield cls((0, 1)), (real(3, 4), np.int64(2), np.int64(3))
        yield cls((1,)), (real(3, 4), np.zeros((0, 2), np.int16))
        yield cls((0,)), (real(3, 0), np.array([1, 2], np.uint64))
        yield cls((0,)), (real(0, 2), np.zeros((0,), np.int64))


class Gather(Op):
    """The parts of `x` at `indices` along `axis`; the indices' dimensions replace that one."""

    axis: int = 0
    kinds: ClassVar[str] = "biufc"
    fallible: ClassVar[bool] = True

    def infer(self, x: Type, indices: Type) -> Type:
        shape = index_shape((self.axis,), x, (indices,))
        return x.with_shape(x.shape[: self.axis] + shape + x.shape[self.axis + 1 :])

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        (places,) = in_range((indices,), (self.axis,), x.shape)
        return np.asarray(np.take(x, places, self.axis))

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        require_in_range(b, (indices,), (self.axis,), x.shape)
        return gather(b, out, x, (indices,), (self.axis,), before=self.axis)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, indices = xs
        if self.axis:  # ScatterAdd wants the indices' dimensions first
            end = self.axis + indices.type.rank
            perm = (*range(self.axis, end), *range(self.axis), *range(end, g.type.rank))
            g = Transpose(perm)(g)
        return [TABLE["ScatterAdd"]((self.axis,))(zeros(x.type), g, indices), None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], xs[1])

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(4, 3), np.array([2, 0, 2], np.int64))
        yield cls(1), (real(2, 3, 2), np.array([[2, 0], [1, 1], [2, 2]], np.int32))
        yield cls(1), (real(2, 3), np.uint8(2))
        yield cls(2), (real(2, 1, 3), np.array([1], np.int8))
        yield cls(), (real(4, 3), np.zeros((2, 0), np.int64))
        yield cls(), (real(0, 3), np.zeros((0,), np.int64))


# -- the words of index rules ---------------------------------------------------------------------


def unindexed(dims: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of the dimensions that are not indexed."""
    return tuple(n for i, n in enumerate(shape) if i not in dims)


def index_shape(dims: Sequence[int], x: Type, indices: Sequence[Type]) -> tuple[int, ...]:
    """The one shape of the index arrays; raises if they do not fit `dims` of `x`."""
    if not dims or len(indices) != len(dims):
        raise ArgumentError(
            f"needs one index array for each of the dimensions {list(dims)}, got {len(indices)}"
        )
    check_axes(dims, x.rank)
    for i in indices:
        if not i.dtype.is_integer:
            raise DTypeError(f"indices must be integers, got {show(indices)}", code="E4011")
        if i.shape != indices[0].shape:
            raise ShapeError(f"index arrays must have one shape, got {show(indices)}", code="E3001")
    return indices[0].shape


def out_of_range(axis: int, extent: int, index: int | None = None) -> IndexOutOfRange:
    what = "an index" if index is None else f"index {index}"
    return IndexOutOfRange(
        f"{what} is out of range for axis {axis} of size {extent}: "
        f"it must be at least 0 and less than {extent}",
        axis=axis, extent=extent, index=index,
    )  # fmt: skip


def in_range(
    indices: Sequence[np.ndarray], dims: Sequence[int], shape: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """The index arrays as NumPy wants them; raises on the first that is out of range."""
    for index, axis in zip(indices, dims, strict=True):
        index = np.asarray(index)
        wrong = (index < 0) | (index >= shape[axis])
        if wrong.any():
            raise out_of_range(axis, shape[axis], int(index[wrong][0]))
    return tuple(np.asarray(i).astype(np.intp) for i in indices)


def require_below(b: Any, index: Any, limit: int, error: Any) -> None:
    """At run time, every element of `index` must be at least 0 and less than `limit`."""
    tests = []
    if index.dtype.kind == "i":
        tests.append(b.compare("GE", index, b.full(index.type, 0)))
    if limit <= np.iinfo(index.dtype.numpy).max:  # else the element type alone keeps it below
        tests.append(b.compare("LT", index, b.full(index.type, limit)))
    if not tests:
        return
    holds = tests[0] if len(tests) == 1 else b.op("stablehlo.and", *tests, out=tests[0].type)
    if index.shape:
        holds = b.reduce("and", holds, True, range(len(index.shape)))
    b.check(holds, error)


def require_in_range(
    b: Any, indices: Sequence[Any], dims: Sequence[int], shape: tuple[int, ...]
) -> None:
    """Check index arrays at run time: XLA itself would clamp a read and drop a write."""
    for index, axis in zip(indices, dims, strict=True):
        if index.type.size:
            require_below(b, index, shape[axis], lambda a=axis: out_of_range(a, shape[a]))


def same_integers(b: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The index arrays in one element type that counts to every extent of `shape`."""
    dtype = int32 if all(n < 2**31 for n in shape) else int64
    return [b.convert(i, dtype) for i in indices]


def index_vectors(b: Any, indices: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """The index arrays side by side along a new last dimension."""
    columns = [b.reshape(i, (*i.shape, 1)) for i in same_integers(b, indices, shape)]
    if len(columns) == 1:
        return columns[0]
    rank = len(columns[0].shape) - 1
    out = Type((*columns[0].shape[:-1], len(columns)), columns[0].dtype)
    return b.op("stablehlo.concatenate", *columns, out=out, dimension=rank)


def gather(
    b: Any, out: Type, x: Any, indices: Sequence[Any], dims: Sequence[int], before: int = 0
) -> Any:
    """Reads, unchecked; `before` of the dimensions that are not indexed precede the indices'."""
    if not out.size or not x.type.size:
        return b.full(out, 0)
    rank = len(indices[0].shape)
    windows = [i for i in range(out.rank) if not before <= i < before + rank]
    sizes = tuple(1 if i in dims else n for i, n in enumerate(x.shape))
    numbers = (
        f"offset_dims = {windows}, collapsed_slice_dims = {sorted(dims)}, "
        f"start_index_map = {list(dims)}, index_vector_dim = {rank}"
    )
    return b.op(
        "stablehlo.gather", x, index_vectors(b, indices, x.shape), out=out,
        dimension_numbers=f"#stablehlo.gather<{numbers}>", slice_sizes=sizes,
        indices_are_sorted=False,
    )  # fmt: skip
