"""Write the kernel of a cluster.

Each program of the kernel takes a tile of rows at a time. A row of at most `RESIDENT` elements is
kept in registers, so each array is read once. A longer row is read in chunks: once for each
reduction that needs another one's result, and once for the arrays; after the first time, it comes
from the caches. Sums of all rows are added up in registers by a fixed number of programs, which
store one row each, so the bits do not depend on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.engines.xla.hlo_instructions import HloValue
from pullback.engines.xla.triton.row_clusters import RowCluster
from pullback.engines.xla.triton.row_terms import (
    RowTermPart,
    Term,
    row_term_combination,
    term_operands,
    walk_terms,
)
from pullback.engines.xla.triton.tile_text import KernelText, Tile
from pullback.engines.xla.triton.triton_elementwise import (
    COMBINATIONS,
    KINDS,
    STORED,
    TritonCombination,
    write_triton_convert,
    write_triton_elementwise,
)  # fmt: skip

PROGRAMS = 1056  # that add up rows: eight for each multiprocessor of a large GPU
CHUNK = 4096  # elements of a row that is longer than a tile
_REGISTERS = 1 << 16  # of a multiprocessor: elements of all arrays of a tile with whole rows
_FEWEST = 1024  # elements of a tile with whole rows
_SUMMED = (2, 1024)  # the tile of a kernel that only adds up rows
_FIRST_OF = {
    RowTermPart.ALL: "rc",
    RowTermPart.BY_ROW: "r",
    RowTermPart.BY_COLUMN: "c",
    RowTermPart.NUMBER: "",
}


@dataclass(frozen=True)
class RowKernelPlan:
    """The sizes of a kernel: of its tiles, and of its grid."""

    rows: int  # of a tile
    columns: int
    grid: tuple[int, int]
    warps: int


def plan_row_kernel(cluster: RowCluster) -> RowKernelPlan:
    """Choose the sizes, as they were fastest on an H200.

    One warp computes a row of up to 1,024 elements: its sums need no shared memory.
    """
    rows, width = cluster.space
    tall, columns, across, per_thread = 1, 1 << (width - 1).bit_length(), 1, 32
    if not cluster.by_row:
        tall, columns, per_thread = _SUMMED[0], min(columns, _SUMMED[1]), 8
        across = -(-width // columns)
    elif cluster.wide or (not cluster.by_column and columns * cluster.traffic > _REGISTERS):
        columns, per_thread = CHUNK, 8
    else:
        tall = max(1, _FEWEST // columns)
        per_thread = 32 if columns <= 4096 else 16
    down = -(-rows // tall)
    if cluster.by_column:
        down = min(down, max(1, PROGRAMS // across))
    return RowKernelPlan(tall, columns, (down, across), max(1, tall * columns // (32 * per_thread)))


class RowKernel:
    """The text of a cluster's kernel: arguments are the loads, then the results.

    The last result, of `sums_shape`, has what each program added up, for all sums of rows.
    """

    def __init__(self, name: str, cluster: RowCluster, needed: Container[HloValue]) -> None:
        self.cluster, self.plan = cluster, plan_row_kernel(cluster)
        self.loads = cluster.operands
        # Most numbers of rows are used by this kernel alone
        self.results = [y for y in (*cluster.arrays, *cluster.by_row) if y in needed]
        stored = [*self.loads, *self.results]
        sums = ["f32"] if cluster.by_column else []
        self.k = KernelText(name, [*[STORED[x.dtype] for x in stored], *sums])
        self.pointers = dict(zip(stored, self.k.arguments, strict=False))
        self.shape = (self.plan.rows, self.plan.columns)
        self.scopes: list[dict[Term, Tile]] = [{}]
        self.row = self.column = Tile("", (), "")  # of the tile's elements
        self.here: Tile | None = None  # which elements exist
        self.whole = False  # whether the tile surely ends before the row does
        self._write()

    def _write(self) -> None:
        k, plan, width = self.k, self.plan, self.cluster.space.width
        self.columns = k.positions(plan.columns, 1)
        self.lines = k.positions(plan.rows, 0)
        program = k.program_id("x")
        if plan.grid[1] > 1:
            self._move_right(
                k.same("arith.muli", k.program_id("y"), k.constant(plan.columns, "i32"))
            )
        else:
            self.column = self.columns
        first = k.same("arith.muli", program, k.constant(plan.rows, "i32"))
        if not self.cluster.by_column:
            self._move_down(first)
            self._chunks() if self.cluster.by_row and width > plan.columns else self._tile()
            return
        self._hoist((RowTermPart.BY_COLUMN, RowTermPart.NUMBER))
        self._store_sums(program, self._row_loop(first))

    def _row_loop(self, first: Tile) -> list[Tile]:
        """Compute tiles of rows one after the other; return the sums. The next tile is loaded while
        this one is computed."""
        k, rows, count = self.k, self.cluster.space.rows, len(self.cluster.by_column)
        step = k.constant(self.plan.rows * self.plan.grid[0], "i32")
        ahead = [t for t in self.cluster.loads if t.part in (RowTermPart.ALL, RowTermPart.BY_ROW)]
        self._move_down(first)
        zero = k.full(self.shape, np.float32(0), "f32")
        carried = [*[zero] * count, *[self._load(t) for t in ahead]]
        made: list[Tile] = []
        with k.loop(first, k.constant(rows, "i32"), step, carried, made) as (at, now, following):
            self._move_down(k.same("arith.addi", at, step), surely=False)
            later = [self._load(t) for t in ahead]
            self._move_down(at)
            self.scopes.append(dict(zip(ahead, now[count:], strict=True)))
            self._tile()
            added = [self._operand(y) for y in self.cluster.by_column]
            sums = [k.same("arith.addf", a, b) for a, b in zip(now, added, strict=False)]
            following([*sums, *later])
            self.scopes.pop()
        return made[:count]

    @property
    def sums_shape(self) -> tuple[int, int, int]:
        return (len(self.cluster.by_column), self.plan.grid[0], self.cluster.space.width)

    def _store_sums(self, program: Tile, sums: Iterable[Tile]) -> None:
        k, (_, rows, width) = self.k, self.sums_shape
        base = k.same("arith.muli", program, k.constant(width, "i32"))
        column = k.same("arith.addi", self.column, k.splat(base, self.column.shape))
        mask = self._inside_row()
        for n, total in enumerate(sums):
            start = k.add_pointer(k.arguments[-1], k.constant(n * rows * width, "i32"))
            at = k.add_pointer(k.splat(start, column.shape), column)
            k.store(at, k.reduce("arith.addf", total, 0), mask)

    def _tile(self) -> None:
        """Compute everything for one tile that holds whole rows, or needs none."""
        self._evaluate_rows(self.cluster.by_row)
        self._store_arrays([])

    @property
    def _arrays(self) -> list[HloValue]:
        return [y for y in self.cluster.arrays if y in self.pointers]

    def _evaluate_rows(self, reductions: Iterable[HloValue]) -> None:
        for y in reductions:
            if Term(y, RowTermPart.BY_ROW) not in self.scopes[-1] and not self._finish_search(y):
                how = _row_kernel_combination(y)
                self._finish_row(y, self.k.reduce(how.operation, self._operand(y), 1))

    def _finish_search(self, y: HloValue) -> bool:
        """Whether a row has a NaN, from its largest or smallest element, which is then NaN."""
        extremum = self._extremum(y)
        if extremum is None:
            return False
        self._evaluate_rows([extremum])
        top = self._found(Term(extremum, RowTermPart.BY_ROW))
        self._finish_row(y, self.k.compare("arith.cmpf une", top, top))
        return True

    def _extremum(self, y: HloValue) -> HloValue | None:
        """The largest or smallest elements of the array in which a reduction looks for NaN."""
        made = _reduced_row(y).made_by
        if row_kernel_combination_name(y) != "or" or made is None or made.name != "compare":
            return None
        x, other = made.operands
        if x is not other or made["comparison_direction"] != "NE":
            return None
        found = [z for z in self.cluster.by_row if _reduced_row(z) is x]
        return next(
            (z for z in found if row_kernel_combination_name(z) in ("maximum", "minimum")), None
        )

    def _finish_row(self, y: HloValue, total: Tile) -> None:
        if total.kind != KINDS[y.dtype]:  # whether a bool was found, as an integer
            zero = self.k.full(total.shape, np.int32(0), total.kind)
            total = self.k.compare("arith.cmpi ne", total, zero)
        self.scopes[-1][Term(y, RowTermPart.BY_ROW)] = total
        if y in self.pointers:
            mask = self._inside(self.row, self.cluster.space.rows, self.covered)
            self._store(Term(y, RowTermPart.BY_ROW), mask)

    def _operand(self, y: HloValue) -> Tile:
        """What a reduction combines, with its identity where the tile has no elements."""
        how = _row_kernel_combination(y)
        x = self._all(self.value(Term(_reduced_row(y), RowTermPart.ALL)))
        x = write_triton_convert(self.k, x, how.kind)
        if self.here is None:
            return x
        return self.k.select(self.here, x, self.k.full(self.shape, how.identity, how.kind))

    def _chunks(self) -> None:
        """Compute rows that are longer than a tile."""
        k = self.k
        for level in self._levels():
            searches = [y for y in level if self._extremum(y) is not None]
            sums = [y for y in level if y not in searches]
            self._hoist((RowTermPart.BY_ROW, RowTermPart.NUMBER), map(_reduced_row, sums))
            ways = list(map(_row_kernel_combination, sums))

            def combine(carried: list[Tile], sums: Any = sums, ways: Any = ways) -> list[Tile]:
                parts = zip(ways, carried, map(self._operand, sums), strict=True)
                return [k.same(how.operation, a, b) for how, a, b in parts]

            made = self._over_chunks(
                [k.full(self.shape, how.identity, how.kind) for how in ways], combine
            )
            for y, how, total in zip(sums, ways, made, strict=True):
                self._finish_row(y, k.reduce(how.operation, total, 1))
            for y in searches:
                self._finish_search(y)
        if self._arrays:
            self._hoist((RowTermPart.BY_ROW, RowTermPart.NUMBER), self._arrays)
            self._over_chunks([], self._store_arrays)

    def _store_arrays(self, carried: list[Tile]) -> list[Tile]:
        for y in self._arrays:
            self._store(Term(y, RowTermPart.ALL), self.here)
        return carried

    def _over_chunks(
        self, starts: list[Tile], body: Callable[[list[Tile]], list[Tile]]
    ) -> list[Tile]:
        """Run `body` on all chunks of a row; it gets the carried tiles and returns the next ones.
        Only the last chunk may have fewer elements, and needs masks."""
        k, columns, width = self.k, self.plan.columns, self.cluster.space.width
        whole, made = width // columns * columns, list[Tile]()
        zero, stop, step = (k.constant(n, "i32") for n in (0, whole, columns))
        with k.loop(zero, stop, step, starts, made) as (at, carried, following):
            self._enter_chunk(at, whole=True)
            following(body(carried))
            self.scopes.pop()
        if whole < width:
            self._enter_chunk(stop, whole=False)
            made = body(made)
            self.scopes.pop()
        return made

    def _enter_chunk(self, at: Tile, whole: bool) -> None:
        self.scopes.append({})
        self.whole = whole
        self._move_right(at)
        self._find_elements()

    def _levels(self) -> list[list[HloValue]]:
        """The reductions of rows, each after those that it needs."""
        level: dict[HloValue, int] = {}
        for y in self.cluster.by_row:
            terms = walk_terms(Term(_reduced_row(y), RowTermPart.ALL), self.cluster.stops)
            needs = [level[t.value] for t, _ in terms if t.value in level]
            level[y] = 1 + max(needs, default=-1)
        return [[y for y in level if level[y] == n] for n in range(max(level.values()) + 1)]

    def _hoist(
        self, parts: tuple[RowTermPart, ...], values: Iterable[HloValue] | None = None
    ) -> None:
        """Compute what is the same for all turns of the loop that follows, before it."""
        if values is None:
            reduced = [*self.cluster.by_row, *self.cluster.by_column]
            values = [*map(_reduced_row, reduced), *self._arrays]
        for root in values:
            for term, _ in walk_terms(Term(root, RowTermPart.ALL), self.cluster.stops):
                if term.part in parts:
                    self.value(term)

    def value(self, term: Term) -> Tile:
        """The tile of a term: broadcast only where an operation needs it."""
        for scope in self.scopes:
            if term in scope:
                return scope[term]
        made = self._computed(term)
        self.scopes[-1][term] = made
        return made

    def _computed(self, term: Term) -> Tile:
        order: list[Term] = []
        seen: set[Term] = set()
        stack = [(term, False)]
        while stack:
            t, ready = stack.pop()
            if ready:
                order.append(t)
            elif t not in seen and not any(t in scope for scope in self.scopes):
                seen.add(t)
                stack.append((t, True))
                if not self.cluster.stops(t):
                    stack += [(x, False) for x in term_operands(t) or ()]
        for t in order:
            self.scopes[-1][t] = self._one(t)
        return self.scopes[-1][term]

    def _one(self, term: Term) -> Tile:
        """The tile of a term whose operands are there. What is the same for all columns, or for all
        rows, is computed once: tiles are broadcast only where they meet others."""
        inner = None if self.cluster.stops(term) else term_operands(term)
        if inner is None:
            return self._load(term)
        made = term.value.made_by
        assert made is not None
        if made.array is not None:
            return self.k.full((1, 1), made.array.reshape(()), KINDS[term.value.dtype])
        if made.name == "iota":
            return write_triton_convert(self.k, self.column, KINDS[term.value.dtype])
        xs = [self._found(x) for x in inner]
        if made.name in ("broadcast_in_dim", "reshape"):
            return xs[0]
        extent = tuple([max(sizes) for sizes in zip(*[x.shape for x in xs], strict=True)])
        return write_triton_elementwise(self.k, made, [self.k.broadcast(x, extent) for x in xs])

    def _found(self, term: Term) -> Tile:
        return next(scope[term] for scope in self.scopes if term in scope)

    def _extent(self, part: RowTermPart) -> tuple[int, int]:
        rows, columns = self.shape
        names = _FIRST_OF[part]
        return (rows if "r" in names else 1, columns if "c" in names else 1)

    def _all(self, x: Tile) -> Tile:
        return self.k.broadcast(x, self.shape)

    def _at(self, term: Term) -> tuple[Tile, Tile | None]:
        """Where the elements of a term's tile are in memory, and which of them exist."""
        k, (rows, width), extent = self.k, self.cluster.space, self._extent(term.part)
        pointer, mask = self.pointers[term.value], None
        if term.part is RowTermPart.ALL:
            wide = "i64" if rows * width >= 1 << 31 else "i32"
            row = write_triton_convert(k, self.row, wide)
            start = k.same("arith.muli", row, k.full(row.shape, np.int64(width), wide))
            at = k.broadcast(k.add_pointer(k.splat(pointer, row.shape), start), extent)
            return k.add_pointer(at, k.broadcast(self.column, extent)), self.here
        if term.part is RowTermPart.BY_ROW:
            offset, mask = self.row, self._inside(self.row, rows, self.covered)
        elif term.part is RowTermPart.BY_COLUMN:
            offset, mask = self.column, self._inside_row()
        else:
            offset = k.full((1, 1), np.int64(0), "i32")
        return k.add_pointer(k.splat(pointer, extent), offset), mask

    def _load(self, term: Term) -> Tile:
        at, mask = self._at(term)
        made = self.k.load(at, mask)
        if term.value.dtype.kind == "b":
            zero = self.k.full(made.shape, np.int64(0), "i8")
            return self.k.compare("arith.cmpi ne", made, zero)
        return made

    def _store(self, term: Term, mask: Tile | None) -> None:
        at, _ = self._at(term)
        x = self.k.broadcast(self.value(term), self._extent(term.part))
        self.k.store(at, write_triton_convert(self.k, x, STORED[term.value.dtype]), mask)

    def _move_down(self, first: Tile, surely: bool = True) -> None:
        """Go to a tile of rows; it surely exists, or all its rows may be too many."""
        self.covered = -(-self.cluster.space.rows // self.plan.rows) * self.plan.rows
        self.covered += not surely
        self.row = self.k.same("arith.addi", self.lines, self.k.splat(first, self.lines.shape))
        self._find_elements()

    def _move_right(self, first: Tile) -> None:
        shape = self.columns.shape
        self.column = self.k.same("arith.addi", self.columns, self.k.splat(first, shape))

    def _find_elements(self) -> None:
        down = self._inside(self.row, self.cluster.space.rows, self.covered)
        right = self._inside_row()
        found = [self._all(m) for m in (down, right) if m is not None]
        self.here = (
            self.k.same("arith.andi", *found) if len(found) > 1 else found[0] if found else None
        )

    def _inside_row(self) -> Tile | None:
        """Which columns of the tile exist; None if all do."""
        width, columns = self.cluster.space.width, self.plan.columns
        covered = width if self.whole else -(-width // columns) * columns
        return self._inside(self.column, width, covered)

    def _inside(self, position: Tile, count: int, covered: int) -> Tile | None:
        """Where a position is less than a count; None if all of those covered are."""
        if covered == count:
            return None
        limit = self.k.full(position.shape, np.int64(count), "i32")
        return self.k.compare("arith.cmpi slt", position, limit)


def _reduced_row(y: HloValue) -> HloValue:
    """What a reduction combines."""
    assert y.made_by is not None
    return y.made_by.operands[0]


def row_kernel_combination_name(y: HloValue) -> str:
    assert y.made_by is not None
    return row_term_combination(y.made_by)


def _row_kernel_combination(y: HloValue) -> TritonCombination:
    return COMBINATIONS[row_kernel_combination_name(y)]
