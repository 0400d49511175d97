"""Write kernels for stacks of small matrices: a tile has one row of each of several matrices.

A row is spread over as few lanes of a warp as its loads allow, two for eight numbers of f32. So a
number that all of a row needs comes from a neighbouring lane, and rows meet in the same lane.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.engines.xla.triton.tile_text import KernelText, Tile

LANES = 32  # of a program, which is one warp
ACCESS = 16  # bytes that a lane loads at once
MATRIX_KINDS: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
_SQUARE_ROOTS = {"f32": "__nv_fsqrt_rn", "f64": "__nv_dsqrt_rn"}
_QUOTIENTS = {"f32": "__nv_fdiv_rn", "f64": "__nv_ddiv_rn"}


class Reciprocal(NamedTuple):
    """`scale / x` for a power of two: it neither overflows nor is subnormal, as `1 / x` may be."""

    value: Tile
    scale: Tile


class MatrixTiles:
    """The text of a kernel for `count` matrices of n rows, and its operations."""

    def __init__(self, name: str, kind: str, pointers: Sequence[str], count: int, n: int) -> None:
        """`kind` is the type of the elements, `pointers` what the arguments point to."""
        self.k, self.kind, self.count, self.n = (
            KernelText(f"{name}_{kind}", pointers),
            kind,
            count,
            n,
        )
        self.dtype = MATRIX_KINDS[kind]
        together = ACCESS // self.dtype().itemsize
        self.width = max(together, 1 << (n - 1).bit_length())
        self.height = LANES * together // self.width
        self.shape = (self.height, self.width)
        self.column = self.k.positions(self.width, 1)
        self.matrix = self.numbered("x", self.height, self.k.positions(self.height, 0))

    @property
    def down(self) -> int:
        """How many programs the matrices need."""
        return -(-self.count // self.height)

    def numbered(self, axis: str, size: int, place: Tile) -> Tile:
        """Places in the part of this size that a program computes."""
        first = self.k.same("arith.muli", self.k.program_id(axis), self.k.constant(size, "i32"))
        return self.k.same("arith.addi", place, self.k.splat(first, place.shape))

    # -- arithmetic: numbers of matrices meet whole rows -------------------------------------------

    def number(self, value: float) -> Tile:
        """A number for each matrix."""
        return self.k.full((self.height, 1), self.dtype(value), self.kind)

    def integer(self, value: int) -> Tile:
        return self.k.full((self.height, 1), np.int32(value), "i32")

    def op(self, name: str, *xs: Tile) -> Tile:
        return self.k.same(name, *self._alike(xs))

    def times(self, x: Tile, y: Tile) -> Tile:
        return self.op("arith.mulf", x, y)

    def less_product(self, x: Tile, y: Tile, z: Tile) -> Tile:
        """x - y z. The compiler would not make one instruction of two."""
        return self.op("math.fma", self.op("arith.negf", y), z, x)

    def select(self, condition: Tile, x: Tile, y: Tile) -> Tile:
        return self.k.select(*self._alike((condition, x, y)))

    def greater(self, x: Tile, y: Tile) -> Tile:
        return self.k.compare("arith.cmpf ogt", *self._alike((x, y)))

    def equal(self, x: Tile, y: Tile) -> Tile:
        name = "arith.cmpi eq" if x.kind == "i32" else "arith.cmpf oeq"
        return self.k.compare(name, *self._alike((x, y)))

    def all(self, conditions: Sequence[Tile]) -> Tile:
        return functools.reduce(functools.partial(self.op, "arith.andi"), conditions)

    def negated(self, x: Tile) -> Tile:
        return self.k.same("arith.xori", x, self.k.full(x.shape, np.True_, "i1"))

    def square_root(self, x: Tile) -> Tile:
        return self.k.library(_SQUARE_ROOTS[self.kind], x)

    def inverted(self, x: Tile) -> Tile:
        return self.k.library(_QUOTIENTS[self.kind], self.number(1), x)

    def reciprocal(self, x: Tile) -> Reciprocal:
        half = np.finfo(self.dtype).maxexp // 2
        small, large = self.number(2.0**-half), self.number(2.0**half)
        size = self.op("math.absf", x)
        scale = self.select(self.greater(size, large), small, self.number(1))
        scale = self.select(self.greater(small, size), large, scale)
        return Reciprocal(self.inverted(self.times(x, scale)), scale)

    def over(self, x: Tile, divisor: Reciprocal) -> Tile:
        return self.times(self.times(x, divisor.scale), divisor.value)

    def at(self, row: Tile, j: int) -> Tile:
        """The number in column j: the sum with nothing but -0.0, which changes no bit."""
        there = self.select(self.column_is("eq", j), row, self.number(-0.0))
        return self.k.reduce("arith.addf", there, 1)

    def column_is(self, relation: str, j: int) -> Tile:
        """Where a column's number is `eq`, `sle`, `sgt` ... another."""
        one = self.k.full((1, self.width), np.int32(j), "i32")
        return self.k.compare(f"arith.cmpi {relation}", self.column, one)

    def _alike(self, xs: Sequence[Tile]) -> list[Tile]:
        first, second = (max(sizes) for sizes in zip(*[x.shape for x in xs], strict=True))
        return [self.k.broadcast(x, (first, second)) for x in xs]

    # -- memory ------------------------------------------------------------------------------------

    def load(self, argument: int, i: int, column: Tile, k: int, transposed: bool = False) -> Tile:
        """Row i of matrices that have k columns, or of their transposes; zeros behind its end."""
        place = self._place(argument, i, column, k, transposed)
        return self.k.load(place, self._mask(column, k))

    def store(
        self, argument: int, i: int, column: Tile, k: int, x: Tile, transposed: bool = False
    ) -> None:
        place = self._place(argument, i, column, k, transposed)
        self.k.store(place, self.k.broadcast(x, self.shape), self._mask(column, k))

    def store_number(self, argument: int, i: int, x: Tile) -> None:
        """Store element i of a vector of n numbers for each matrix."""
        place = self.k.add_pointer(self._start(argument, self.n), self.integer(i))
        self.k.store(place, x, self._exists())

    def _start(self, argument: int, size: int) -> Tile:
        """Pointers to the first of the `size` elements of each matrix."""
        k, index, kind = self.k, self.matrix, "i32"
        if self.count * size >= 1 << 31:
            index, kind = k.convert("arith.extsi", index, "i64"), "i64"
        offset = k.same("arith.muli", index, k.full(index.shape, np.int64(size), kind))
        return k.add_pointer(k.splat(k.arguments[argument], index.shape), offset)

    def _place(self, argument: int, i: int, column: Tile, k: int, transposed: bool) -> Tile:
        start = self._start(argument, self.n * k)
        if transposed:
            column = self.k.same("arith.muli", column, self._like(column, k))
        offset = self.k.same("arith.addi", column, self._like(column, i if transposed else i * k))
        return self.k.add_pointer(*self._alike((start, offset)))

    def _mask(self, column: Tile, k: int) -> Tile | None:
        inside = self._less(column, k) if k % self.width else None
        found = [c for c in (self._exists(), inside) if c is not None]
        return self.k.broadcast(self.all(found), self.shape) if found else None

    def _exists(self) -> Tile | None:
        return self._less(self.matrix, self.count) if self.count % self.height else None

    def _less(self, x: Tile, limit: int) -> Tile:
        return self.k.compare("arith.cmpi slt", x, self._like(x, limit))

    def _like(self, x: Tile, value: int) -> Tile:
        return self.k.full(x.shape, np.int32(value), "i32")
