"""StableHLO programs as plain data: instructions in blocks, between reading and writing text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from pullback.engines.xla.builder import dense, mlir_type
from pullback.graph import dtypes
from pullback.graph.types import Type

# Attributes that say what holds without them too; portable programs leave them out.
_DEFAULTS = {
    "indices_are_sorted": "false",
    "unique_indices": "false",
    "is_stable": "false",
    "batch_group_count": "1 : i64",
    "feature_group_count": "1 : i64",
    "dimension": "-1 : i64",
    "compare_type": "#stablehlo<comparison_type NOTYPE>",
    "result_accuracy": "#stablehlo.result_accuracy<mode = "
    "#stablehlo.result_accuracy_mode<DEFAULT>>",
}
_ONES = ("window_strides", "base_dilations", "window_dilations", "lhs_dilation", "rhs_dilation")
_ALWAYS = ("feature_group_count", "batch_group_count")  # an instruction is not valid without them
_DTYPES = {d.hlo: d for d in dtypes.ALL}


@dataclasses.dataclass
class HloInstruction:
    """One instruction: values are numbers, attributes are as MLIR prints them.

    `array` is the data of a constant; `where` is the place in the program's text.
    """

    name: str  # without `stablehlo.`
    operands: tuple[int, ...]
    operand_types: tuple[Type, ...]
    results: tuple[int, ...]
    types: tuple[Type, ...]
    attributes: dict[str, str]
    regions: tuple[Block, ...]
    where: str
    array: np.ndarray | None = None
    graphs: tuple[Any, ...] = ()  # its regions, once they have been read as graphs

    def __getitem__(self, attribute: str) -> Any:
        """An attribute as numbers, strings, tuples of them, or a dict for named lists."""
        return value_of(self.attributes[attribute])

    def get(self, attribute: str, default: Any) -> Any:
        return self[attribute] if attribute in self.attributes else default


@dataclasses.dataclass
class Block:
    """The body of a function or of a region: what it takes, does and gives."""

    arguments: tuple[int, ...]
    types: tuple[Type, ...]
    instructions: list[HloInstruction]
    results: tuple[int, ...]
    result_types: tuple[Type, ...]
    names: tuple[str | None, ...] = ()  # of a function's arguments


def without_defaults(attributes: dict[str, str]) -> dict[str, str]:
    """The attributes that change something, in alphabetical order."""
    return {k: v for k, v in sorted(attributes.items()) if k in _ALWAYS or not _is_default(k, v)}


def _is_default(name: str, text: str) -> bool:
    if name in _ONES:
        return set(value_of(text)) <= {1}
    if name == "window_reversal":
        return not any(value_of(text))
    if name == "padding":
        return not np.any(value_of(text))
    return _DEFAULTS.get(name) == text


def type_of(text: str) -> Type | None:
    """The type that MLIR writes so; None if no tensor of ours has it."""
    found = re.fullmatch(r"tensor<((?:\d+x)*)([a-z0-9<>]+)>", text)
    if found is None or found[2] not in _DTYPES:
        return None
    return Type(tuple(map(int, found[1].split("x")[:-1])), _DTYPES[found[2]])


def value_of(text: str) -> Any:
    """An attribute's text as a value."""
    if text in ("true", "false"):
        return text == "true"
    if found := re.fullmatch(r"(-?\d+) : i\d+", text):
        return int(found[1])
    if found := re.fullmatch(r"array<i\d+(?:: (.*))?>", text):
        return tuple(map(value_of, found[1].split(", "))) if found[1] else ()
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if found := re.fullmatch(r"dense<(.*)> : tensor<((?:\d+x)*)i64>", text):
        shape = tuple(map(int, found[2].split("x")[:-1]))
        flat = np.array([int(n) for n in re.findall(r"-?\d+", found[1])], np.int64)
        made = np.broadcast_to(flat, shape) if flat.size == 1 else flat.reshape(shape)
        return tuple(tuple(map(int, row)) for row in made)
    if found := re.fullmatch(r"#stablehlo<\w+ (\w+)>", text):
        return found[1]
    if found := re.fullmatch(r"#stablehlo\.(dot|gather|scatter)<(.*)>", text, re.DOTALL):
        pairs = re.findall(r"(\w+) = (\[[^]]*\]|\d+)", found[2])
        return {k: _numbers(v) for k, v in pairs}
    if found := re.fullmatch(r"\[(.*)\]", text):
        return tuple(map(value_of, found[1].split(", "))) if found[1] else ()
    return text


def _numbers(text: str) -> Any:
    found = tuple(map(int, re.findall(r"-?\d+", text)))
    return found if text.startswith("[") else found[0]


# -- the form that is written ---------------------------------------------------------------------


def normal(block: Block) -> Block:
    """The same program without dead instructions; each region has constants of its own.

    A constant stands once, before the first instruction that takes it. Whatever wrote or moved
    constants, the same program has the same form.
    """
    return _Normal().block(block, {})


class _Normal:
    def __init__(self) -> None:
        self.next = 0

    def fresh(self, count: int) -> tuple[int, ...]:
        self.next += count
        return tuple(range(self.next - count, self.next))

    def block(self, block: Block, outer: dict[int, Any]) -> Block:
        """`outer` has the new numbers of values around the block, and constants as they were."""
        known = dict(outer)
        made: list[HloInstruction] = []
        constants: dict[tuple, int] = {}
        arguments = self.fresh(len(block.arguments))
        known.update(zip(block.arguments, arguments, strict=True))

        def value(number: int) -> int:
            found = known[number]
            if not isinstance(found, HloInstruction):
                return found
            array = found.array
            assert array is not None
            key = (found.types, array.tobytes())
            if key not in constants:
                (constants[key],) = self.fresh(1)
                made.append(dataclasses.replace(found, results=(constants[key],)))
            return constants[key]

        needed = live(block)
        for i in block.instructions:
            if not needed.intersection(i.results):
                continue
            if i.name == "constant":
                known[i.results[0]] = i
                continue
            operands = tuple([value(x) for x in i.operands])
            regions = tuple([self.block(r, known) for r in i.regions])
            results = self.fresh(len(i.results))
            known.update(zip(i.results, results, strict=True))
            attributes = without_defaults(i.attributes)
            made.append(
                dataclasses.replace(
                    i, operands=operands, results=results, attributes=attributes, regions=regions
                )
            )
        results = tuple([value(y) for y in block.results])
        return dataclasses.replace(block, arguments=arguments, instructions=made, results=results)


def live(block: Block) -> set[int]:
    """The values that the results of a block depend on, also through regions."""
    needed = set(block.results)
    for i in reversed(block.instructions):
        if needed.intersection(i.results):
            needed.update(i.operands)
            for region in i.regions:
                needed |= live(region)
    return needed


def written(block: Block) -> str:
    """A function's body as a module in MLIR's generic form; names are locations of arguments."""
    names = block.names or (None,) * len(block.arguments)
    header = ", ".join(
        f"%{a}: {mlir_type(t)} loc({'unknown' if n is None else quoted(n)})"
        for a, t, n in zip(block.arguments, block.types, names, strict=True)
    )
    kinds = ", ".join(map(mlir_type, block.result_types))
    values = ", ".join([f"%{y}" for y in block.results])
    lines = list(_lines(block))
    lines.append(f"return {values} : {kinds} loc(unknown)" if values else "return loc(unknown)")
    main = f"func.func public @main({header}) -> ({kinds}) {{"
    return "\n".join(["module @pullback {", main, *lines, "} loc(unknown)", "} loc(unknown)", ""])


def _lines(block: Block) -> Iterator[str]:
    for i in block.instructions:
        results = ", ".join([f"%{r}" for r in i.results])
        if i.array is not None:
            (kind,) = i.types
            value = f"{dense(i.array, kind.dtype)} : {mlir_type(kind)}"
            yield f"{results} = stablehlo.constant {value} loc(unknown)"
            continue
        operands = ", ".join([f"%{x}" for x in i.operands])
        attributes = ", ".join([f"{k} = {v}" for k, v in i.attributes.items()])
        yield f'{results} = "stablehlo.{i.name}"({operands})' + (" (" if i.regions else "")
        for n, region in enumerate(i.regions):
            yield "{" if n == 0 else ", {"
            yield from _region(region)
        ins, outs = map(_types, (i.operand_types, i.types))
        end = f"{') ' if i.regions else ''}{{{attributes}}} : {ins} -> {outs} loc(unknown)"
        yield end


def _region(block: Block) -> Iterator[str]:
    pairs = zip(block.arguments, block.types, strict=True)
    header = ", ".join([f"%{a}: {mlir_type(t)} loc(unknown)" for a, t in pairs])
    yield f"^bb0({header}):"
    yield from _lines(block)
    values = ", ".join([f"%{y}" for y in block.results])
    yield f'"stablehlo.return"({values}) : {_types(block.result_types)} -> () loc(unknown)'
    yield "}"


def _types(types: Sequence[Type]) -> str:
    return f"({', '.join(map(mlir_type, types))})"


def quoted(name: str) -> str:
    """A string as MLIR writes it: bytes that are not plain are two hexadecimal digits."""
    plain = [chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in name.encode()]
    return f'"{"".join(plain)}"'
