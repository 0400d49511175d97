"""Write kernels for stacks of small matrices: a tile has one row of each of several matrices.

A lane of a warp has as many numbers of each row as it can load at once, four of f32, so a few lanes
share a matrix. A number that all of a row needs comes from another lane; rows meet in a lane.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from pullback.engines.xla.triton.tile_text import KernelText, Tile

LANES = 32  # of a program, which is one warp
ACCESS = 16  # bytes that a lane loads at once
PROGRAMS = 4224  # the most along a stack: 32 for each multiprocessor of a large GPU
MATRIX_KINDS: dict[str, Any] = {"f32": np.float32, "f64": np.float64}
_SQUARE_ROOTS = {"f32": "__nv_fsqrt_rn", "f64": "__nv_dsqrt_rn"}
_QUOTIENTS = {"f32": "__nv_fdiv_rn", "f64": "__nv_ddiv_rn"}


class Reciprocal(NamedTuple):
    """`scale / x` for a power of two: it neither overflows nor is subnormal, as `1 / x` may be."""

    value: Tile
    scale: Tile


class MatrixStack(NamedTuple):
    """An argument: matrices of as many rows as the others, with these numbers of columns."""

    columns: int
    transposed: bool = False  # whether the transposes are in memory
    wide: bool = False  # whether programs share the columns, along the second axis of the grid
    kind: str = ""  # of its elements, if it is not that of the others


class MatrixTiles:
    """The text of a kernel for `count` matrices of n rows, and its operations.

    Programs walk over the matrices in a loop, with pointers to each row of each argument: Triton
    looks for what has to do with the pointers of a load, but not past the head of a loop. Where
    they are computed beside the loads, this takes most of the time to compile, 50 s for n = 16.
    """

    def __init__(
        self, name: str, kind: str, count: int, n: int, stacks: Sequence[MatrixStack]
    ) -> None:
        """`kind` is the type of the elements."""
        pointers = [stack.kind or kind for stack in stacks]
        self.k, self.kind, self.count, self.n = KernelText(name, pointers), kind, count, n
        self.stacks, self.dtype = stacks, MATRIX_KINDS[kind]
        together = self._together()
        self.width = max(together, 1 << (n - 1).bit_length())
        self.height = LANES * together // self.width
        self.shape = (self.height, self.width)
        parts = -(-count // self.height)
        widest = max([stack.columns if stack.wide else 1 for stack in stacks])
        self.grid = (min(parts, PROGRAMS), -(-widest // self.width))
        self.parts, self.step = (self.k.constant(i, "i32") for i in (parts, self.grid[0]))
        self.column = self.k.positions(self.width, 1)
        self.wide_column = self._part(self.column, self.k.program_id("y"))
        self.matrix = Tile("", (), "")  # of each row of a tile
        self.pointers: list[list[Tile]] = []  # to the rows of each argument

    @contextmanager
    def loop(self) -> Iterator[None]:
        """The loop over matrices: its body loads, computes and stores."""
        k, n, down = self.k, self.n, self.k.positions(self.height, 0)
        first = k.program_id("x")
        self.matrix = self._part(down, first)
        starts = [p for i in range(len(self.stacks)) for p in self._rows(i)]
        with k.loop(first, self.parts, self.step, starts, []) as (part, pointers, following):
            self.pointers = [pointers[i * n : (i + 1) * n] for i in range(len(self.stacks))]
            self.matrix = self._part(down, part)
            yield
            following([
                k.add_pointer(p, k.full(p.shape, np.int64(self._step(stack)), "i64"))
                for rows, stack in zip(self.pointers, self.stacks, strict=True) for p in rows
            ])  # fmt: skip

    def _together(self) -> int:
        """How many elements of a row a lane has. If not all arguments can be accessed so, Triton
        would move rows to other lanes."""
        together: int = ACCESS // self.dtype().itemsize
        apart = [stack.transposed or stack.columns % together for stack in self.stacks]
        return 1 if any(apart) else together

    def _part(self, place: Tile, number: Tile) -> Tile:
        """Places in a part of as many matrices or columns as a tile has."""
        size = self.k.constant(max(place.shape), "i32")
        first = self.k.splat(self.k.same("arith.muli", number, size), place.shape)
        return self.k.same("arith.addi", place, first)

    def _step(self, stack: MatrixStack) -> int:
        """How far the next matrices of a program are."""
        return self.grid[0] * self.height * self.n * stack.columns

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
        return self.op("math.fma", y, self.op("arith.negf", z), x)

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

    def load(self, argument: int) -> list[Tile]:
        """The rows of matrices, with zeros behind their ends."""
        mask = self._mask(self.stacks[argument])
        return [self.k.load(pointers, mask) for pointers in self.pointers[argument]]

    def store(self, argument: int, rows: Sequence[Tile]) -> None:
        mask = self._mask(self.stacks[argument])
        for pointers, row in zip(self.pointers[argument], rows, strict=True):
            self.k.store(pointers, self.k.broadcast(row, self.shape), mask)

    def _rows(self, argument: int) -> list[Tile]:
        """Pointers to the rows of the first matrices."""
        k, stack, index, kind = self.k, self.stacks[argument], self.matrix, "i32"
        size, column = self.n * stack.columns, self._column(stack)
        if self.count * size >= 1 << 31:
            index, kind = k.convert("arith.extsi", index, "i64"), "i64"
        offset = k.same("arith.muli", index, k.full(index.shape, np.int64(size), kind))
        start = k.add_pointer(k.splat(k.arguments[argument], index.shape), offset)
        across, down = (self.n, 1) if stack.transposed else (1, stack.columns)
        column = k.same("arith.muli", column, self._like(column, across))
        first = k.add_pointer(*self._alike((start, column)))
        return [k.add_pointer(first, self._like(first, i * down)) for i in range(self.n)]

    def _column(self, stack: MatrixStack) -> Tile:
        return self.wide_column if stack.wide else self.column

    def _mask(self, stack: MatrixStack) -> Tile | None:
        """Which elements of a tile there are; None for all."""
        found = []
        if self.count % self.height:
            found.append(self._less(self.matrix, self.count))
        if stack.columns % self.width:
            found.append(self._less(self._column(stack), stack.columns))
        return self.k.broadcast(self.all(found), self.shape) if found else None

    def _less(self, x: Tile, limit: int) -> Tile:
        return self.k.compare("arith.cmpi slt", x, self._like(x, limit))

    def _like(self, x: Tile, value: int) -> Tile:
        return self.k.full(x.shape, np.int32(value), "i32")
