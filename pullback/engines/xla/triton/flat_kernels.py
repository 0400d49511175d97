"""Kernels for elementwise computations that contain sines or cosines.

XLA fuses elementwise instructions well, but its sine and cosine branch for each element, and take
longer than memory. A kernel works on tiles of the elements in the order in which they are stored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from typing import NamedTuple

import numpy as np

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
)
from pullback.engines.xla.triton.tile_text import KernelText, Tile
from pullback.engines.xla.triton.triton_elementwise import (
    KINDS,
    STORED,
    triton_writes_elementwise,
    write_triton_convert,
    write_triton_elementwise,
)
from pullback.engines.xla.triton.triton_functions import LARGE, write_triton_circular

SMALLEST = 1 << 20  # elements of an array for which a kernel is worth it
TILE, WARPS = 256, 1  # as they were fastest on an H200: a warp needs no barrier
MOST = 12  # arrays that a kernel reads and writes
_COSTLY = ("sine", "cosine")  # what a kernel computes faster than XLA
_REPEATING = ("reshape", "broadcast_in_dim")
# Instructions whose operands and results are in memory in any case
_IN_MEMORY = ("dot_general", "convolution", "custom_call", "fft", "sort", "while", "case", "reduce")


class FlatPart(Enum):
    """What a value is to a kernel: a number for each element, for each column, or one for all."""

    ALL = "all"
    BY_COLUMN = "by column"
    NUMBER = "number"

    __hash__ = object.__hash__


class FlatTerm(NamedTuple):
    """A value, as a part of arrays whose rows have `width` elements, if it belongs to columns."""

    value: HloValue
    part: FlatPart
    width: int = 0


@dataclass(eq=False)
class FlatKernel:
    """What one kernel computes: `results`, in the order of their terms."""

    size: int
    terms: dict[FlatTerm, list[FlatTerm] | None] = field(default_factory=dict)  # None: loaded
    results: list[HloValue] = field(default_factory=list)

    @property
    def loads(self) -> list[FlatTerm]:
        return [t for t, operands in self.terms.items() if operands is None]

    @property
    def operands(self) -> list[HloValue]:
        return list(dict.fromkeys([t.value for t in self.loads]))

    def text(self) -> KernelText:
        return _FlatKernelText(self).k

    @property
    def plan(self) -> tuple[tuple[int, int], int, dict[int, int]]:
        """The grid, the warps of a program, and which results take the memory of operands."""
        return (-(-self.size // TILE), 1), WARPS, {}


def flat_kernels(block: HloBlock, stored: Collection[HloValue]) -> list[FlatKernel]:
    """The kernels of a block; `stored` are values that other kernels compute."""
    if not any(i.name in _COSTLY for i in block.instructions):
        return []
    return list(_FlatKernels(block, stored).found)


class _FlatKernels:
    """Finds kernels: arrays that are needed in memory, with what they are computed from."""

    def __init__(self, block: HloBlock, stored: Collection[HloValue]) -> None:
        self.stored, self.arguments = stored, set(block.arguments)
        self.made = {y: i for i in block.instructions for y in i.results}
        needed = set(block.results)
        for i in block.instructions:
            if i.name in _IN_MEMORY and i.name != "reduce":  # XLA computes what it reduces
                needed.update(i.operands, captured_by_hlo_instruction(i))
        self.found: dict[FlatKernel, None] = {}
        for y in self.made:
            if y in needed and y.type.size >= SMALLEST and y not in stored:
                self._place(y)

    def _place(self, y: HloValue) -> None:
        terms = self._terms(FlatTerm(y, FlatPart.ALL))
        if terms is None or not any(_is_costly(self.made.get(t.value)) for t in terms):
            return
        kernel = next((k for k in self.found if self._joins(terms, k, y)), None)
        if kernel is None:
            kernel = FlatKernel(y.type.size)
            self.found[kernel] = None
        kernel.terms.update(terms)
        kernel.results.append(y)

    def _joins(
        self, terms: dict[FlatTerm, list[FlatTerm] | None], kernel: FlatKernel, y: HloValue
    ) -> bool:
        """Whether a kernel can compute an array, too: what it loads for that is there already.

        A kernel of rows may need one of the results, and compute what another one is made of. So
        where there are such kernels, this one must need nothing but arguments.
        """
        if kernel.size != y.type.size or len(kernel.loads) + len(kernel.results) >= MOST:
            return False
        if self.stored and any(t.value not in self.arguments for t in kernel.loads):
            return False
        loads = [t for t, operands in terms.items() if operands is None]
        known = set(kernel.terms)
        return not known.isdisjoint(t for t in loads if t.part is FlatPart.ALL) and all(
            t in known or t.value in self.arguments for t in loads
        )

    def _terms(self, root: FlatTerm) -> dict[FlatTerm, list[FlatTerm] | None] | None:
        """The terms that a root is computed from, operands first; None if a kernel cannot."""
        found: dict[FlatTerm, list[FlatTerm] | None] = {}
        stack = [(root, False)]
        while stack:
            term, ready = stack.pop()
            if term in found:
                continue
            loaded = term is not root and self._is_loaded(term)
            inner = None if loaded else self._operands(term)
            if term.value.dtype not in KINDS or (inner is None and not loaded):
                return None
            if ready or not inner:
                found[term] = inner
            else:
                stack += [(term, True), *[(x, False) for x in inner]]
        loads = sum([operands is None for operands in found.values()])
        return found if loads < MOST else None

    def _is_loaded(self, term: FlatTerm) -> bool:
        made = self.made.get(term.value)
        if made is None or term.value in self.stored or made.name in _IN_MEMORY:
            return True
        return term.part is FlatPart.NUMBER and made.array is None and made.name not in _REPEATING

    def _operands(self, term: FlatTerm) -> list[FlatTerm] | None:
        """The terms that a term is computed from; None if a kernel cannot compute it."""
        made, part, width = self.made[term.value], term.part, term.width
        if made.array is not None:
            return [] if made.array.size == 1 else None
        if made.name in _REPEATING:
            inner = _repeated(made, term)
            return None if inner is None else [inner]
        if not triton_writes_elementwise(made):
            return None
        return [FlatTerm(x, part, width) for x in made.operands]


def _is_costly(made: HloInstruction | None) -> bool:
    return made is not None and made.name in _COSTLY


def _repeated(made: HloInstruction, term: FlatTerm) -> FlatTerm | None:
    """What a reshape or a broadcast has the elements of, if a kernel knows how."""
    (x,), (y,) = made.operands, made.results
    if x.type.size == y.type.size:
        dims = made.get("broadcast_dimensions", ())
        return term._replace(value=x) if list(dims) == sorted(dims) else None
    if made.name == "broadcast_in_dim" and x.type.size == 1:
        return FlatTerm(x, FlatPart.NUMBER)
    if term.part is FlatPart.ALL and made["broadcast_dimensions"] == (len(y.shape) - 1,):
        return FlatTerm(x, FlatPart.BY_COLUMN, y.shape[-1])
    return None


class _FlatKernelText:
    """The text of a kernel: arguments are what it loads, then its results.

    Sines and cosines are computed for numbers that are not large. If one was, the tile is computed
    again with the functions of CUDA's library, in steps that need few registers.
    """

    def __init__(self, kernel: FlatKernel) -> None:
        stored = [*kernel.operands, *kernel.results]
        name = f"flat_{kernel.size}_{len(kernel.operands)}_{len(kernel.results)}"
        self.kernel = kernel
        self.k = k = KernelText(name, [STORED[x.dtype] for x in stored])
        self.pointers = dict(zip(stored, k.arguments, strict=True))
        self.wide = "i64" if kernel.size >= 1 << 31 else "i32"
        first = write_triton_convert(k, k.program_id("x"), self.wide)
        self.first = k.same("arith.muli", first, k.constant(TILE, self.wide))
        fast = _FlatTile(self, self.first, TILE, precise=False)
        k.branch(fast.is_large(), self._write_again, fast.store)

    def _write_again(self) -> None:
        k, step = self.k, 32 * WARPS
        start, stop, by = (k.constant(n, "i32") for n in (0, TILE, step))
        with k.loop(start, stop, by, [], []) as (at, _, _):
            first = k.same("arith.addi", self.first, write_triton_convert(k, at, self.wide))
            _FlatTile(self, first, step, precise=True).store()


class _FlatTile:
    """What a kernel computes for some elements, from the first one's position on."""

    def __init__(self, text: _FlatKernelText, first: Tile, count: int, precise: bool) -> None:
        self.text, self.k, self.precise, k = text, text.k, precise, text.k
        self.shape = (1, count)
        place = write_triton_convert(k, k.positions(count, 1), text.wide)
        self.place = k.same("arith.addi", place, k.splat(first, self.shape))
        self.inside: Tile | None = None
        if text.kernel.size % TILE:
            end = k.full(self.shape, np.int64(text.kernel.size), text.wide)
            self.inside = k.compare("arith.cmpi slt", self.place, end)
        self.circular: dict[Tile, tuple[Tile, Tile]] = {}  # sines and cosines by their operand
        self.tiles: dict[FlatTerm, Tile] = {}
        for term, operands in text.kernel.terms.items():
            xs = [self.tiles[x] for x in operands or ()]
            self.tiles[term] = self._load(term) if operands is None else self._one(term, xs)

    def is_large(self) -> Tile:
        """Whether there is a number whose sine was not computed."""
        sizes = [self.k.same("math.absf", x) for x in self.circular]
        # Without NaN, which would hide the others
        largest = reduce(lambda x, y: self.k.same("arith.maxnumf", x, y), sizes)
        limit = self.k.op(f"arith.constant {LARGE:e} : f32", (), "f32")
        return self.k.compare("arith.cmpf ogt", self.k.reduce_all("arith.maxnumf", largest), limit)

    def store(self) -> None:
        for y in self.text.kernel.results:
            x = write_triton_convert(self.k, self.tiles[FlatTerm(y, FlatPart.ALL)], STORED[y.dtype])
            self.k.store(self._at(y, self.place), x, self.inside)

    def _one(self, term: FlatTerm, xs: list[Tile]) -> Tile:
        made, kind = term.value.made_by, KINDS[term.value.dtype]
        assert made is not None
        if made.array is not None:
            return self.k.full(self.shape, made.array.reshape(()), kind)
        if made.name in _REPEATING:
            return xs[0]
        if made.name in _COSTLY and not self.precise:
            return write_triton_convert(self.k, self._circular(made.name, xs[0]), kind)
        return write_triton_elementwise(self.k, made, xs)

    def _circular(self, name: str, x: Tile) -> Tile:
        x = write_triton_convert(self.k, x, "f32")
        if x not in self.circular:
            self.circular[x] = write_triton_circular(self.k, x)
        return self.circular[x][name == "cosine"]

    def _load(self, term: FlatTerm) -> Tile:
        k, place = self.k, self.place
        if term.part is FlatPart.NUMBER:
            made = k.splat(k.load(self.text.pointers[term.value], None), self.shape)
        else:
            if term.part is FlatPart.BY_COLUMN:
                width = k.full(self.shape, np.int64(term.width), place.kind)
                place = k.same("arith.remsi", place, width)
            made = k.load(self._at(term.value, place), self.inside)
        if term.value.dtype.kind == "b":
            return k.compare("arith.cmpi ne", made, k.full(self.shape, np.int64(0), "i8"))
        return made

    def _at(self, x: HloValue, place: Tile) -> Tile:
        return self.k.add_pointer(self.k.splat(self.text.pointers[x], self.shape), place)
