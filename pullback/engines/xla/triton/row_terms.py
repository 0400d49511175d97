"""What a value is to a kernel that works on rows: all of a row, or one number for each row.

A kernel works on an array of `rows` x `width`. A value of the program can be the whole array, one
number a row, one row that is the same for all, or a single number. How a value is used tells which:
the shapes alone could mean several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from pullback.engines.xla.hlo_instructions import HloInstruction, HloValue
from pullback.engines.xla.triton.triton_elementwise import (
    COMBINATIONS,
    KINDS,
    triton_writes_elementwise,
)

# Elements of a row, rows, rows to add up, and elements of an array for which a kernel is worth it
NARROWEST, WIDEST = 256, 1 << 18
FEWEST_ROWS, FEWEST_SUMMED = 64, 1024
SMALLEST = 1 << 18
# Rows for each element of one, beyond which XLA adds up rows faster: means of channels in images
TALLEST = 32


class RowTermPart(Enum):
    """Which part of the array a value is."""

    ALL = "all"
    BY_ROW = "by row"
    BY_COLUMN = "by column"
    NUMBER = "number"

    __hash__ = object.__hash__  # that of Enum is written in Python, and terms are looked up often


class RowTermSpace(NamedTuple):
    """The array that a kernel works on, row by row."""

    rows: int
    width: int


class Term(NamedTuple):
    """A value, and which part of the array it is."""

    value: HloValue
    part: RowTermPart


def row_term_space(x: HloValue) -> RowTermSpace | None:
    """The array of rows that a value is; None if it is too small for a kernel, or too narrow."""
    if not x.shape:
        return None
    width = x.shape[-1]
    rows = math.prod(x.shape[:-1])
    if not NARROWEST <= width <= WIDEST or rows < FEWEST_ROWS or rows * width < SMALLEST:
        return None
    return RowTermSpace(rows, width)


def is_row_term_reduction(i: HloInstruction) -> bool:
    """Whether an instruction combines the elements of each row."""
    return _row_term_reduces(i) and i["dimensions"] == (len(i.operands[0].shape) - 1,)


def is_sum_of_row_terms(i: HloInstruction) -> bool:
    """Whether an instruction adds up all rows."""
    x = i.operands[0] if i.operands else None
    if x is None or not _row_term_reduces(i) or row_term_combination(i) != "add":
        return False
    if i["dimensions"] != tuple(range(len(x.shape) - 1)) or _is_slice_term(x):
        return False
    width = x.shape[-1]
    return FEWEST_SUMMED <= x.type.size // width <= TALLEST * width


def _is_slice_term(x: HloValue) -> bool:
    """Whether a value is a part of another, which XLA need not store to add it up."""
    while (made := x.made_by) is not None and made.name == "convert":
        x = made.operands[0]
    return made is not None and made.name == "slice"


def _row_term_reduces(i: HloInstruction) -> bool:
    if i.name != "reduce" or len(i.results) != 1 or row_term_space(i.operands[0]) is None:
        return False
    start, known = i.operands[1].made_by, COMBINATIONS.get(row_term_combination(i))
    if known is None or i.results[0].dtype is not known.dtype:
        return False
    return start is not None and start.array is not None and start.array == known.identity


def row_term_combination(i: HloInstruction) -> str:
    """The name of the only instruction in the region of a reduction; empty if there are more."""
    body = i.regions[0].instructions
    return body[0].name if len(body) == 1 else ""


def term_operands(term: Term) -> list[Term] | None:
    """The terms that a term is computed from inside of a kernel; None if it cannot be."""
    made, part = term.value.made_by, term.part
    if made is None or term.value.dtype not in KINDS:
        return None
    if made.array is not None:
        return [] if made.array.size == 1 else None
    if part is RowTermPart.NUMBER:
        return None  # one number is loaded as cheaply as it is computed
    if made.name == "broadcast_in_dim":
        return _broadcast_term(made, part)
    if made.name == "reshape":
        return _reshape_term(made, part)
    if made.name == "iota":
        last = made["iota_dimension"] == len(term.value.shape) - 1
        return [] if last and part in (RowTermPart.ALL, RowTermPart.BY_COLUMN) else None
    if not triton_writes_elementwise(made) or any(map(_term_only_repeats, made.operands)):
        return None
    return [Term(x, part) for x in made.operands]


def _term_only_repeats(x: HloValue) -> bool:
    """Whether a value repeats another one in a way that kernels do not know. XLA does not store it,
    so what is computed from it is left to XLA, too."""
    made = x.made_by
    if made is None or made.name not in ("broadcast_in_dim", "iota") or row_term_space(x) is None:
        return False
    return term_operands(Term(x, RowTermPart.ALL)) is None


def _broadcast_term(made: HloInstruction, part: RowTermPart) -> list[Term] | None:
    (x,), (y,) = made.operands, made.results
    dims, rank = made["broadcast_dimensions"], len(y.shape)
    if x.type.size == 1:
        return [Term(x, RowTermPart.NUMBER)]
    if x.type.size == y.type.size:
        return [Term(x, part)]
    if part is not RowTermPart.ALL:
        return None
    if dims == (rank - 1,) and x.shape == y.shape[-1:]:
        return [Term(x, RowTermPart.BY_COLUMN)]
    leading = tuple([n for i, n in enumerate(y.shape[:-1])])
    if dims == tuple(range(rank - 1)) and x.shape == leading:
        return [Term(x, RowTermPart.BY_ROW)]
    return None


def _reshape_term(made: HloInstruction, part: RowTermPart) -> list[Term] | None:
    (x,), (y,) = made.operands, made.results
    if part is RowTermPart.ALL and (not x.shape or x.shape[-1] != y.shape[-1]):
        return None
    return [Term(x, part)]


def term_leaves(root: Term, stops: Callable[[Term], bool]) -> dict[Term, None] | None:
    """The terms that a kernel loads to compute `root`: those at which `stops`, and those that it
    cannot compute; None if it cannot load one of them."""
    found = {term: None for term, inner in walk_terms(root, stops) if inner is None}
    return found if all(term.value.dtype in KINDS for term in found) else None


def walk_terms(
    root: Term, stops: Callable[[Term], bool]
) -> Iterator[tuple[Term, list[Term] | None]]:
    """All terms that `root` depends on, each with its operands, or None for a leaf."""
    seen, stack = {root}, [root]
    while stack:
        term = stack.pop()
        inner = None if term is not root and stops(term) else term_operands(term)
        yield term, inner
        for x in inner or ():
            if x not in seen:
                seen.add(x)
                stack.append(x)
