"""The StableHLO instructions `gather` and `scatter`: blocks at positions given by indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, ShapeError
from pullback.graph.dtypes import float64
from pullback.graph.graph import Graph
from pullback.graph.types import show_types
from pullback.ops.factor_rules import factor_rule
from pullback.ops.index.index_lowering import lower_index_write_apart
from pullback.ops.prelude import Imported, Op, Type, same_dtype
from pullback.ops.samples import real
from pullback.ops.stablehlo.reduce_sort import (
    ReduceOrSort,
    check_reduce_body,
    reduce_elementwise,
    stablehlo_reduce_region,
    stablehlo_reduce_sum,
)

Dims = tuple[int, ...]


class StableHloGatherScatter(ReduceOrSort, abstract=True):
    """Blocks of `x`, one for each index vector.

    An index vector is a line along dimension `vectors` of the indices; it holds positions along
    the `mapped` dimensions of `x`. The dimensions `dropped` of a block have size 1 and are left
    out; the dimensions `batched` of `x` belong to `batched_indices` of the indices; all others
    become the dimensions `windows` of the blocks.
    """

    windows: tuple[int, ...]
    dropped: tuple[int, ...]
    batched: tuple[int, ...]
    batched_indices: tuple[int, ...]
    mapped: tuple[int, ...]
    vectors: int
    words: ClassVar[tuple[str, ...]]  # StableHLO's names of the dimensions
    int_fields = ("windows", "dropped", "batched", "batched_indices", "mapped")

    @property
    def numbers(self) -> str:
        lists = self.windows, self.dropped, self.batched, self.batched_indices, self.mapped
        pairs = zip(self.words, map(list, lists), strict=True)
        return ", ".join([f"{k} = {v}" for k, v in pairs] + [f"index_vector_dim = {self.vectors}"])

    @classmethod
    def read_numbers(cls, found: dict) -> dict[str, Any]:
        made = {f: found.get(w, ()) for f, w in zip(cls.int_fields, cls.words, strict=True)}
        return made | {"vectors": found.get("index_vector_dim", 0)}

    def check(self, x: Type, indices: Type) -> None:
        if not indices.dtype.is_integer:
            raise DTypeError(f"indices must be integers, got {indices}", code="E4011")
        places = (*self.dropped, *self.batched)
        inside = all(0 <= d < x.rank for d in (*places, *self.mapped))
        lists = len(self.batched) == len(self.batched_indices)
        if not inside or not lists or len(set(places)) != len(places):
            what = f"dimension numbers do not fit {show_types((x, indices))}: {self.numbers}"
            raise ShapeError(what, code="E3004")
        if not 0 <= self.vectors <= indices.rank:
            what = f"index_vector_dim must be a dimension of {indices}, got {self.vectors}"
            raise ShapeError(what, code="E3004")
        width = 1 if self.vectors == indices.rank else indices.shape[self.vectors]
        if width != len(self.mapped):
            what = f"index vectors must have {len(self.mapped)} elements, got {indices}"
            raise ShapeError(what, code="E3002")

    def own(self, rank: int) -> Dims:
        """Return the dimensions of `x` that a block has in the result."""
        return tuple([d for d in range(rank) if d not in (*self.dropped, *self.batched)])

    def count_shape(self, indices: tuple[int, ...]) -> Dims:
        """Return the shape of the indices without their vectors."""
        return tuple([n for d, n in enumerate(indices) if d != self.vectors])

    def blocks_shape(self, extents: Dims, indices: Dims) -> Dims:
        """Return the shape of all blocks, given the sizes of one."""
        rank = len(self.windows) + len(self.count_shape(indices))
        inner, outer = iter(extents), iter(self.count_shape(indices))
        return tuple([next(inner) if d in self.windows else next(outer) for d in range(rank)])

    def factoring(
        self, rank: int, indices: int, passed: set[int], count: str
    ) -> tuple[list[str], list[str], list[str]]:
        """Return the factors of `x`, the indices and the blocks. Blocks span the `passed`
        dimensions of `x`. Factors of the indices start with `count`; `_`: they must be whole."""
        x = [f"d{d}" if d in passed or d in self.batched else "_" for d in range(rank)]
        names = ["_" if count == "_" else f"{count}{e}" for e in range(indices)]
        for d, e in zip(self.batched, self.batched_indices, strict=True):
            names[e] = x[d]
        outer = iter([w for e, w in enumerate(names) if e != self.vectors])
        inner = iter([x[d] for d in self.own(rank)])
        total = len(self.windows) + indices - (self.vectors < indices)
        blocks = [next(inner if d in self.windows else outer) for d in range(total)]
        if self.vectors < indices:
            names[self.vectors] = "_"
        return x, names, blocks

    def starts(self, rank: int, indices: np.ndarray) -> Iterator[tuple[tuple, list[int]]]:
        """Yield the position of each block among the blocks, and where it begins in `x`."""
        vectors = indices[..., None] if self.vectors == indices.ndim else indices
        vectors = np.moveaxis(vectors, self.vectors, -1)
        for place in np.ndindex(vectors.shape[:-1]):
            start = [0] * rank
            for d, value in zip(self.mapped, vectors[place], strict=True):
                start[d] = int(value)
            full = list(place)
            full.insert(self.vectors, -1)
            for d, e in zip(self.batched, self.batched_indices, strict=True):
                start[d] = full[e]
            at: list[Any] = list(place)
            for d in self.windows:
                at.insert(d, slice(None))
            yield tuple(at), start


class GatherBlocks(StableHloGatherScatter):
    """Blocks of shape `sizes`, each moved so that it fits into `x`."""

    sizes: tuple[int, ...]
    sorted_indices: bool
    kinds: ClassVar[str] = "biufc"
    imported = Imported(("gather",), last=True)
    words = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims",
             "start_indices_batching_dims", "start_index_map")  # fmt: skip

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        numbers = cls.read_numbers(i["dimension_numbers"])
        ordered = i.get("indices_are_sorted", False)
        return cls(**numbers, sizes=i["slice_sizes"], sorted_indices=ordered)

    def infer(self, x: Type, indices: Type) -> Type:
        self.check(x, indices)
        fits = len(self.sizes) == x.rank and all(0 <= k <= n for k, n in zip(self.sizes, x.shape))
        own = self.own(x.rank)
        if not fits or len(own) != len(self.windows):
            raise ShapeError(f"blocks of {list(self.sizes)} do not fit {x}", code="E3002")
        return x.with_shape(self.blocks_shape(tuple([self.sizes[d] for d in own]), indices.shape))

    def numpy(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        own = self.own(x.ndim)
        shape = self.blocks_shape(tuple([self.sizes[d] for d in own]), indices.shape)
        out = np.empty(shape, x.dtype)
        for at, start in self.starts(x.ndim, indices):
            first = [min(max(s, 0), n - k) for s, n, k in zip(start, x.shape, self.sizes)]
            block = x[tuple([slice(f, f + k) for f, k in zip(first, self.sizes)])]
            out[at] = block.reshape([self.sizes[d] for d in own])
        return out

    def hlo(self, b: Any, out: Type, x: Any, indices: Any) -> Any:
        return b.op(
            "stablehlo.gather", x, indices, out=out, slice_sizes=self.sizes,
            dimension_numbers=f"#stablehlo.gather<{self.numbers}>",
            indices_are_sorted=self.sorted_indices,
        )  # fmt: skip

    def factors(self, x: Type, indices: Type) -> str:
        whole = {d for d in self.own(x.rank) if self.sizes[d] == x.shape[d]}
        value, index, blocks = self.factoring(x.rank, indices.rank, whole, "i")
        return factor_rule([value, index], [blocks])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        own = dict(zip(self.own(xs[0].rank), [out.shape[d] for d in self.windows], strict=True))
        sizes = tuple([own.get(d, n) for d, n in enumerate(self.sizes)])
        return dataclasses.replace(self, sizes=sizes)

    @classmethod
    def samples(cls) -> Any:
        rows = np.array([2, 0, 7, -1])
        yield cls((1,), (0,), (), (), (0,), 1, (1, 3), False), (real(4, 3), rows)
        pairs = np.array([[1, 2], [3, 0]], np.int32)
        yield cls((1, 2), (), (), (), (1, 0), 1, (2, 2), False), (real(4, 3), pairs)
        each = np.array([[0, 1], [2, 1]])
        yield cls((), (1,), (0,), (0,), (1,), 2, (1, 1), False), (real(2, 3), each)


class ScatterBlocks(StableHloGatherScatter):
    """`x` with blocks combined into it by `body`, which takes the old and the new element.

    Elements outside of `x` are ignored.
    """

    sorted_indices: bool
    unique: bool
    body: Graph
    imported = Imported(("scatter",), last=True)
    words = ("update_window_dims", "inserted_window_dims", "input_batching_dims",
             "scatter_indices_batching_dims", "scatter_dims_to_operand_dims")  # fmt: skip

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        if len(i.types) != 1:
            return None
        numbers = cls.read_numbers(i["scatter_dimension_numbers"])
        ordered, unique = (i.get(w, False) for w in ("indices_are_sorted", "unique_indices"))
        return cls(**numbers, sorted_indices=ordered, unique=unique, body=i.graphs[0])

    def infer(self, x: Type, indices: Type, updates: Type) -> Type:
        same_dtype(self.title, x, updates)
        self.check(x, indices)
        scalar = Type((), x.dtype)
        check_reduce_body(self.body, [scalar, scalar], [scalar])
        own = self.own(x.rank)
        inside = all(0 <= d < updates.rank for d in self.windows)
        if len(own) != len(self.windows) or not inside:
            raise ShapeError(f"blocks {updates} do not fit {x}: {self.numbers}", code="E3002")
        extents = tuple([updates.shape[d] for d in self.windows])
        fits = all(k <= x.shape[d] for d, k in zip(own, extents, strict=True))
        if not fits or self.blocks_shape(extents, indices.shape) != updates.shape:
            raise ShapeError(f"blocks {updates} do not fit {x} at {indices}", code="E3002")
        return x

    def numpy(self, x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        out = np.array(x)
        own = self.own(x.ndim)
        for at, start in self.starts(x.ndim, indices):
            block = updates[at]
            extents = dict(zip(own, block.shape, strict=True))
            here, part = [], []
            for d, (s, n) in enumerate(zip(start, x.shape, strict=True)):
                low, high = max(s, 0), min(s + extents.get(d, 1), n)
                here.append(slice(low, max(low, high)))
                if d in extents:
                    part.append(slice(low - s, max(low, high) - s))
            old = out[tuple(here)]
            if old.size:
                new = block[tuple(part)].reshape(old.shape)
                out[tuple(here)] = reduce_elementwise(self.body, [old, new])[0]
        return out

    def hlo(self, b: Any, out: Type, x: Any, indices: Any, updates: Any) -> Any:
        def write(x: Any, updates: Any, body: Any) -> Any:
            return b.op(
                "stablehlo.scatter", x, indices, updates, out=x.type, regions=body,
                scatter_dimension_numbers=f"#stablehlo.scatter<{self.numbers}>",
                indices_are_sorted=self.sorted_indices, unique_indices=self.unique,
            )  # fmt: skip

        def replace(x: Any, updates: Any) -> Any:
            return write(x, updates, b.region([Type((), x.dtype)] * 2, lambda _, new: [new]))

        def combine(x: Any, updates: Any) -> Any:
            return write(x, updates, stablehlo_reduce_region(b, self.body))

        return lower_index_write_apart(b, x, updates, combine, replace)

    def factors(self, x: Type, indices: Type, updates: Type) -> str:
        """A mapped dimension must be whole: blocks that begin in another part would be ignored."""
        pairs = zip(self.own(x.rank), self.windows, strict=True)
        whole = {d for d, w in pairs if updates.shape[w] == x.shape[d] and d not in self.mapped}
        value, index, blocks = self.factoring(x.rank, indices.rank, whole, "_")
        return factor_rule([value, index, blocks], [value])

    @classmethod
    def samples(cls) -> Any:
        body = stablehlo_reduce_sum(float64)
        rows = np.array([2, 0, 2, 9])
        op = cls((1,), (0,), (), (), (0,), 1, False, False, body)
        yield op, (real(4, 3), rows, real(4, 3, salt=1))
        op = cls((1, 2), (), (), (), (0, 1), 1, False, False, body)
        yield op, (real(4, 3), np.array([[1, 1], [2, 0]], np.int32), real(2, 2, 2, salt=1))
        op = cls((), (1,), (0,), (0,), (1,), 2, False, False, body)
        yield op, (real(2, 3), np.array([[0, 1], [2, 1]]), real(2, 2, salt=1))
