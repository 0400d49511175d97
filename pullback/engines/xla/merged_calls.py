"""Calls of the same kernel for many arrays, such as the updates of parameters, become one call.

Starting the threads of a call and waiting for them takes some 20 us. A kernel that supports merging
says how many of its last operands its calls must have in common (`shared`).
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from pullback.engines.xla.hlo_instructions import (
    HloBlock,
    HloInstruction,
    HloValue,
    captured_by_hlo_instruction,
)
from pullback.engines.xla.kernel_calls import kernel_call_aliases
from pullback.engines.xla.kernels import PREFIX

if TYPE_CHECKING:
    from pullback.engines.xla.builder import Builder

# A call keeps all of its operands in memory until it starts, so its size has a limit.
_MOST_CALLS, _MOST_BYTES = 64, 128 << 20

_Key = tuple[str, tuple[HloValue, ...]]  # a kernel, and the operands that its arrays share


def with_merged_calls(block: HloBlock, b: Builder) -> HloBlock:
    """The program with such calls merged, each written where its results are needed."""
    written: list[HloInstruction] = []
    waiting: dict[_Key, list[HloInstruction]] = {}
    makers: dict[HloValue, _Key] = {}

    def write(key: _Key) -> None:
        calls = waiting.pop(key)
        for call in calls:
            for y in call.results:
                del makers[y]
        written.append(_merged_call(calls, key, b))

    for i in block.instructions:
        for x in (*i.operands, *captured_by_hlo_instruction(i)):
            if x in makers:
                write(makers[x])
        key = _mergeable_as(i)
        if key is None:
            written.append(i)
            continue
        calls = waiting.setdefault(key, [])
        calls.append(i)
        makers.update(dict.fromkeys(i.results, key))
        size = sum([y.type.nbytes for call in calls for y in call.results])
        if len(calls) == _MOST_CALLS or size >= _MOST_BYTES:
            write(key)
    for key in list(waiting):
        write(key)
    return dataclasses.replace(block, instructions=written)


def _mergeable_as(i: HloInstruction) -> _Key | None:
    """What calls must have in common to be merged."""
    if i.name != "custom_call":
        return None
    found = re.search(r"\bshared = (\d+) : i64", i.attributes.get("backend_config", ""))
    if found is None:
        return None
    name = i.attributes["call_target_name"].strip('"').removeprefix(PREFIX)
    return name, i.operands[-int(found[1]) :]


def _merged_call(calls: list[HloInstruction], key: _Key, b: Builder) -> HloInstruction:
    if len(calls) == 1:
        return calls[0]
    name, shared = key
    arrays: list[HloValue] = []
    results: list[HloValue] = []
    in_place = {}
    for call in calls:
        for k, j in kernel_call_aliases(call).items():
            in_place[len(results) + k] = len(arrays) + j
        arrays += call.operands[: -len(shared)]
        results += call.results
    out = tuple([y.type for y in results])
    b.kernel(name, *arrays, *shared, out=out, in_place=in_place, shared=len(shared))
    made = b.instructions.pop()
    return dataclasses.replace(made, results=tuple(results), location=calls[0].location)
