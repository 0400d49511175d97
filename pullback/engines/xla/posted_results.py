"""Let a program on a GPU post results to the host as soon as it has computed them.

The post is a call of a kernel. What follows from the results need not wait for it, and XLA might
put it last, so the next products wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
)
from pullback.engines.xla.post_board import SLOT, posted_size
from pullback.engines.xla.triton.tile_text import KernelText
from pullback.graph.dtypes import bool_, int64, uint8, uint16, uint32
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.engines.xla.builder import Builder

_LONG = ("dot_general", "convolution", "custom_call", "while", "case")  # what waits for a post
SLOT_TYPE = Type((2,), int64)  # an address and a tag
_UNSIGNED = {8: uint8, 16: uint16, 32: uint32}  # by bits


class PostedResults(NamedTuple):
    """What a program posts: results, and the outcomes of checks that they depend on, by number."""

    outputs: tuple[int, ...] = ()
    checks: tuple[int, ...] = ()


def with_posted_results(
    block: HloBlock, graph: Graph, awaited: Sequence[int], b: Builder
) -> tuple[HloBlock, PostedResults]:
    """Return the program of a graph with posts of those awaited results that are small.

    It takes one more argument, which says where to write.
    """
    outputs = [k for k in awaited if _is_posted(graph.outputs[k].type)]
    before = set(graph_ancestors([graph.outputs[k] for k in outputs]))
    checks = [k for k, (_, (_, node)) in enumerate(b.checks) if node in before]
    values = [*(block.results[k] for k in outputs), *(b.checks[k][0] for k in checks)]
    if not outputs or sum([posted_size(x.type) for x in values]) > SLOT:
        return block, PostedResults()
    early = _needed_for_post(block, values)
    start = 1 + max([n for n, i in enumerate(block.instructions) if i in early], default=-1)
    slot = b.value(SLOT_TYPE)
    post, told = _post(values, slot, b)
    rest = list(_after_post(block, start, early, told, b))
    made = dataclasses.replace(
        block, instructions=[*block.instructions[:start], *post, *rest],
        arguments=(*block.arguments, slot),
        names=(*block.names, "slot") if block.names else (),
    )  # fmt: skip
    return made, PostedResults(tuple(outputs), tuple(checks))


def _is_posted(type: Type) -> bool:
    return not type.dtype.is_complex and 0 < posted_size(type) <= SLOT


def _needed_for_post(block: HloBlock, values: Sequence[HloValue]) -> set[HloInstruction]:
    """The instructions that compute some values."""
    needed, early = set(values), set()
    for i in reversed(block.instructions):
        if needed.intersection(i.results):
            early.add(i)
            needed.update(_read_by(i))
    return early


def _read_by(i: HloInstruction) -> Iterator[HloValue]:
    yield from i.operands
    yield from captured_by_hlo_instruction(i)


def _post(
    values: Iterable[HloValue], slot: HloValue, b: Builder
) -> tuple[list[HloInstruction], HloValue]:
    """Instructions that post values, and a result of the last one."""
    outer, b.instructions = b.instructions, []
    words = [_as_words(x, b) for x in values]
    count = sum([x.type.size for x in words])
    joined = words[0]
    if len(words) > 1:
        out = Type((count,), uint32)
        joined = b.op("stablehlo.concatenate", *words, out=out, dimension=0)
    told = b.value(Type((1,), uint32))
    call = b.triton_call(posting_kernel(count), [slot, joined], [told], (1, 1), 1, {})
    call.attributes["has_side_effect"] = "true"
    made, b.instructions = [*b.instructions, call], outer
    return made, told


def _as_words(x: HloValue, b: Builder) -> HloValue:
    """The bits of a value as a vector of u32."""
    bits, size = x.dtype.bits, x.type.size
    if bits > 32:
        halves = b.op("stablehlo.bitcast_convert", x, out=Type((*x.shape, 2), uint32))
        return b.reshape(halves, (2 * size,))
    if x.dtype is not bool_:
        x = b.op("stablehlo.bitcast_convert", x, out=Type(x.shape, _UNSIGNED[bits]))
    return b.reshape(b.convert(x, uint32), (size,))


def _after_post(
    block: HloBlock, start: int, early: set[HloInstruction], told: HloValue, b: Builder
) -> Iterator[HloInstruction]:
    """The instructions from `start`, after a post; the first long ones wait for it.

    Each of them waits for its largest operand that was not needed for the post: only that is held.
    """
    kept = {*block.arguments, *[x for i in early for x in _read_by(i)]}
    later: set[HloValue] = set()  # what is computed from long instructions that wait
    held: dict[HloValue, HloValue] = {}
    for i in block.instructions[start:]:
        if i.name in _LONG and later.isdisjoint(_read_by(i)):
            free = [x for x in i.operands if x not in kept]
            x = max(free, key=lambda x: x.type.nbytes, default=None)
            if x is not None:
                if x not in held:
                    held[x] = b.value(x.type)
                    results = held[x], b.value(told.type)
                    yield HloInstruction("stablehlo.optimization_barrier", (x, told), results, {})
                operands = tuple([held[x] if y is x else y for y in i.operands])
                i = dataclasses.replace(i, operands=operands)
                later.update(i.results)
        elif not later.isdisjoint(_read_by(i)):
            later.update(i.results)
        yield i


def posting_kernel(count: int) -> KernelText:
    """A kernel that writes numbers of 32 bits to an address, each with a tag in its upper half."""
    k = KernelText("post_results", ["i64", "i32", "i32"])
    where, numbers, told = k.arguments
    address = k.load(where, None)
    tag = k.load(k.add_pointer(where, k.constant(1, "i32")), None)
    width = 1 << (count - 1).bit_length()
    place = k.positions(width, 1)
    inside = k.compare("arith.cmpi slt", place, k.splat(k.constant(count, "i32"), place.shape))
    loaded = k.load(k.add_pointer(k.splat(numbers, place.shape), place), inside)
    wide = k.convert("arith.extui", loaded, "i64")
    upper = k.same("arith.shli", tag, k.constant(32, "i64"))
    words = k.same("arith.ori", wide, k.splat(upper, place.shape))
    base = k.op(f"tt.int_to_ptr {address.name} : i64 -> !tt.ptr<i64>", (), "!tt.ptr<i64>")
    k.store(k.add_pointer(k.splat(base, place.shape), place), words, inside)
    k.store(told, k.constant(0, "i32"), None)
    return k
