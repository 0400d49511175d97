"""StableHLO instructions as text: every operation in MLIR's generic form, one a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pullback.engines.xla.hlo_instructions import HloBlock, HloInstruction, HloValue
from pullback.graph.dtypes import DType, bool_, int64
from pullback.graph.types import Type

# All bytes but printable characters, and of these quotes and backslashes
_SPECIAL = re.compile(rb"[^ !#-\[\]-~]")


def print_hlo_module(
    main: HloBlock, marks: Sequence[str] = (), attributes: str = "", location: str = "",
    name: str = "pullback",
) -> str:  # fmt: skip
    """A module whose only function is `main`.

    `marks` follow the types of the arguments; `attributes` are those of the module. `location`
    follows every operation that has none of its own; without one, MLIR takes an operation's place
    in the text.
    """
    marks = marks or [""] * len(main.arguments)
    header = ", ".join(
        [f"{_print_hlo_typed(a)}{m}" for a, m in zip(main.arguments, marks, strict=True)]
    )
    kinds = ", ".join([print_hlo_type(y.type) for y in main.results])
    lines = [_print_hlo_line(i, location) for i in main.instructions]
    lines.append(f"return {_print_hlo_names(main.results)} : {kinds}" if kinds else "return")
    body = "\n".join(lines)
    function = f"func.func public @main({header}) -> ({kinds}) {{\n{body}{location}\n}}{location}"
    return f"module @{name}{attributes} {{\n{function}\n}}{location}\n"


def _print_hlo_line(i: HloInstruction, location: str) -> str:
    results, location = _print_hlo_names(i.results), i.location or location
    if i.array is not None:
        (kind,) = i.types
        value = f"{_print_dense(i.array, kind.dtype)} : {print_hlo_type(kind)}"
        return f"{results} = stablehlo.constant {value}{location}"
    regions = ", ".join([_print_region(r, location) for r in i.regions])
    attributes = ", ".join([f"{k} = {v}" for k, v in i.attributes.items()])
    ins = ", ".join([print_hlo_type(x.type) for x in i.operands])
    outs = ", ".join([print_hlo_type(y.type) for y in i.results])
    return (
        f'{results} = "{i.mnemonic}"({_print_hlo_names(i.operands)})'
        f"{f' ({regions})' if regions else ''}{f' {{{attributes}}}' if attributes else ''}"
        f" : ({ins}) -> {outs if len(i.results) == 1 else f'({outs})'}{location}"
    )


def _print_region(block: HloBlock, location: str) -> str:
    header = ", ".join([f"{_print_hlo_typed(a)}{location}" for a in block.arguments])
    kinds = ", ".join([print_hlo_type(y.type) for y in block.results])
    lines = [_print_hlo_line(i, location) for i in block.instructions]
    end = f'"stablehlo.return"({_print_hlo_names(block.results)}) : ({kinds}) -> (){location}'
    return "\n".join(["{", f"^bb0({header}):", *lines, end, "}"])


def _print_hlo_names(values: Sequence[HloValue]) -> str:
    return ", ".join([v.name for v in values])


def _print_hlo_typed(value: HloValue) -> str:
    return f"{value.name}: {print_hlo_type(value.type)}"


@lru_cache(maxsize=4096)
def print_hlo_type(type: Type) -> str:
    return f"tensor<{''.join([f'{n}x' for n in type.shape])}{type.dtype.hlo}>"


def print_attribute(value: Any) -> str:
    """An attribute: a tuple of ints is a dense i64 array, an int is i64, a string is MLIR text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return f"{int(value)} : {int64.hlo}"
    return f"array<i64{': ' if value else ''}{', '.join([str(int(v)) for v in value])}>"


def _print_dense(array: np.ndarray, dtype: DType) -> str:
    """A dense attribute, as hexadecimal bytes: printing loses nothing."""
    if array.size == 0:
        return "dense<>"
    if dtype is bool_:
        # Only newer encodings pack bools into bits; every version reads the list form.
        return f"dense<{_print_hlo_nested(array.reshape(()) if array.size == 1 else array)}>"
    return f'dense<"0x{np.ascontiguousarray(array).tobytes().hex().upper()}">'


def _print_hlo_nested(array: np.ndarray) -> str:
    if array.ndim == 0:
        return "true" if array else "false"
    return f"[{', '.join([_print_hlo_nested(row) for row in array])}]"


def print_hlo_quoted(name: str) -> str:
    """A string literal of MLIR: special bytes are written as two hexadecimal digits."""
    plain = _SPECIAL.sub(lambda found: b"\\%02X" % found[0][0], name.encode())
    return f'"{plain.decode()}"'
