"""StableHLO programs as plain data: the Builder and the reader make it, the printer writes it."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pullback.graph import dtypes
from pullback.graph.dtypes import DType
from pullback.graph.types import Type

# Attributes whose default means the same as leaving them out, as portable programs do.
_DEFAULTS = {
    "indices_are_sorted": "false",
    "unique_indices": "false",
    "is_stable": "false",
    "batch_group_count": "1 : i64",
    "feature_group_count": "1 : i64",
    "dimension": "-1 : i64",
    "backend_config": '""',
    "compare_type": "#stablehlo<comparison_type NOTYPE>",
    "result_accuracy": "#stablehlo.result_accuracy<mode = "
    "#stablehlo.result_accuracy_mode<DEFAULT>>",
}
_ONES = ("window_strides", "base_dilations", "window_dilations", "lhs_dilation", "rhs_dilation")
_ALWAYS = ("feature_group_count", "batch_group_count")  # an instruction is invalid without them
_DTYPES = {d.hlo: d for d in dtypes.ALL}

Key = tuple[Any, ...]


class HloValue:
    """An SSA value. Values are compared by identity; `name` is what the text calls it."""

    __slots__ = ("made_by", "name", "type")

    def __init__(self, name: str, type: Type) -> None:
        self.name, self.type = name, type
        self.made_by: HloInstruction | None = None  # known while a program is written

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype


@dataclasses.dataclass(eq=False, slots=True)
class HloInstruction:
    """One instruction; attributes are MLIR text, `where` is the place it was read from.

    `location` is MLIR's: XLA keeps its name. It is empty, except in programs that are profiled.
    """

    mnemonic: str  # with the dialect: `stablehlo.add`
    operands: tuple[HloValue, ...]
    results: tuple[HloValue, ...]
    attributes: dict[str, str]
    regions: tuple[HloBlock, ...] = ()
    where: str = ""
    array: np.ndarray | None = None  # the data of a constant
    graphs: tuple[Any, ...] = ()  # the regions as graphs, once they have been read as such
    location: str = ""
    name: str = dataclasses.field(init=False)  # without the dialect

    def __post_init__(self) -> None:
        self.name = self.mnemonic.removeprefix("stablehlo.")

    @property
    def operand_types(self) -> tuple[Type, ...]:
        return tuple([x.type for x in self.operands])

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple([y.type for y in self.results])

    def __getitem__(self, attribute: str) -> Any:
        """An attribute as a number, a string, a tuple of them, or a dict for named lists."""
        found = _known_instruction_value(self.attributes[attribute])
        return dict(found) if isinstance(found, dict) else found

    def get(self, attribute: str, default: Any) -> Any:
        return self[attribute] if attribute in self.attributes else default


@dataclasses.dataclass(eq=False, slots=True)
class HloBlock:
    """The body of a function or of a region."""

    arguments: tuple[HloValue, ...]
    instructions: list[HloInstruction]
    results: tuple[HloValue, ...]
    names: tuple[str | None, ...] = ()  # of a function's arguments

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple([x.type for x in self.arguments])


def is_view_hlo_instruction(i: HloInstruction) -> bool:
    """Whether the result has the operand's elements, maybe in the operand's memory."""
    if i.name not in ("reshape", "transpose", "broadcast_in_dim"):
        return False
    return i.results[0].type.size == i.operands[0].type.size


def captured_by_hlo_instruction(i: HloInstruction) -> list[HloValue]:
    """The values from outside that an instruction's regions use, in the order of use."""
    return list(
        dict.fromkeys([x for region in i.regions for x in _free_in_hlo_instructions(region)])
    )


def _free_in_hlo_instructions(block: HloBlock) -> list[HloValue]:
    inside = {*block.arguments, *[r for i in block.instructions for r in i.results]}
    used = [x for i in block.instructions for x in (*i.operands, *captured_by_hlo_instruction(i))]
    return [x for x in dict.fromkeys([*used, *block.results]) if x not in inside]


def hlo_instruction_key(
    i: HloInstruction, operands: Iterable[Any], known: Mapping[HloValue, Any]
) -> Key:
    """A key that is equal for equal instructions, whatever their values are called.

    `operands` and `known` have keys for the operands and for values that regions capture; a
    captured value without one is its own key.
    """
    regions = tuple([_hlo_instruction_block_key(r, known) for r in i.regions])
    # Without the precision: ours is the highest that has an effect, so at least the requested one.
    attributes = tuple([(k, v) for k, v in i.attributes.items() if k != "precision_config"])
    return i.mnemonic, attributes, i.types, tuple(operands), regions


def constant_hlo_instruction_key(i: HloInstruction) -> Key:
    assert i.array is not None
    return "constant", i.types, i.array.tobytes()


def _hlo_instruction_block_key(block: HloBlock, around: Mapping[HloValue, Any]) -> Key:
    known = dict(around)
    constants = [i for i in block.instructions if i.array is not None]
    known.update({i.results[0]: constant_hlo_instruction_key(i) for i in constants})
    instructions = [i for i in block.instructions if i.array is None]
    inner = [*block.arguments, *[y for i in instructions for y in i.results]]
    known.update({v: ("here", n) for n, v in enumerate(inner)})
    keys = [
        hlo_instruction_key(i, [known.get(x, x) for x in i.operands], known) for i in instructions
    ]
    return block.types, tuple(keys), tuple([known.get(y, y) for y in block.results])


def hlo_instruction_without_defaults(attributes: dict[str, str]) -> dict[str, str]:
    """The attributes that differ from their defaults, in alphabetical order."""
    return {
        k: v
        for k, v in sorted(attributes.items())
        if k in _ALWAYS or not _is_hlo_instruction_default(k, v)
    }


def _is_hlo_instruction_default(name: str, text: str) -> bool:
    if name in _ONES:
        return set(hlo_instruction_attribute(text)) <= {1}
    if name == "window_reversal":
        return not any(hlo_instruction_attribute(text))
    if name == "padding":
        return not np.any(hlo_instruction_attribute(text))
    return _DEFAULTS.get(name) == text


def hlo_instruction_type(text: str) -> Type | None:
    """The type that MLIR prints as `text`; None if our tensors cannot have it."""
    found = re.fullmatch(r"tensor<((?:\d+x)*)([a-z0-9<>]+)>", text)
    if found is None or found[2] not in _DTYPES:
        return None
    return Type(tuple(map(int, found[1].split("x")[:-1])), _DTYPES[found[2]])


def hlo_instruction_attribute(text: str) -> Any:
    """Parse an attribute."""
    if text in ("true", "false"):
        return text == "true"
    if found := re.fullmatch(r"(-?\d+) : i\d+", text):
        return int(found[1])
    if found := re.fullmatch(r"array<i\d+(?:: (.*))?>", text):
        return tuple(map(hlo_instruction_attribute, found[1].split(", "))) if found[1] else ()
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
        return {k: _hlo_instruction_numbers(v) for k, v in pairs}
    if found := re.fullmatch(r"\[(.*)\]", text):
        return tuple(map(hlo_instruction_attribute, found[1].split(", "))) if found[1] else ()
    return text


_known_instruction_value = functools.lru_cache(maxsize=4096)(hlo_instruction_attribute)


def _hlo_instruction_numbers(text: str) -> Any:
    found = tuple(map(int, re.findall(r"-?\d+", text)))
    return found if text.startswith("[") else found[0]


def normal_hlo_instructions(block: HloBlock) -> HloBlock:
    """The same program without dead instructions, with its own constants in each region.

    A constant comes once, before the first instruction that uses it. So the form does not depend
    on who wrote the program and where its constants were.
    """
    return _HloInstructionNormalizer().block(block, {})


class _HloInstructionNormalizer:
    def __init__(self) -> None:
        self.count = 0

    def fresh(self, values: Iterable[HloValue]) -> tuple[HloValue, ...]:
        made = tuple([HloValue(f"%{n}", v.type) for n, v in enumerate(values, self.count)])
        self.count += len(made)
        return made

    def block(self, block: HloBlock, outer: dict[HloValue, Any]) -> HloBlock:
        """`outer` maps the values around the block to new values, and constants to themselves."""
        known = dict(outer)
        made: list[HloInstruction] = []
        constants: dict[Key, HloValue] = {}
        arguments = self.fresh(block.arguments)
        known.update(zip(block.arguments, arguments, strict=True))

        def value(old: HloValue) -> HloValue:
            found = known[old]
            if not isinstance(found, HloInstruction):
                return found
            key = constant_hlo_instruction_key(found)
            if key not in constants:
                (constants[key],) = self.fresh(found.results)
                made.append(dataclasses.replace(found, results=(constants[key],)))
            return constants[key]

        needed = live_hlo_instructions(block)
        for i in block.instructions:
            if not needed.intersection(i.results):
                continue
            if i.array is not None:
                known[i.results[0]] = i
                continue
            operands = tuple([value(x) for x in i.operands])
            regions = tuple([self.block(r, known) for r in i.regions])
            results = self.fresh(i.results)
            known.update(zip(i.results, results, strict=True))
            new = dataclasses.replace(i, operands=operands, results=results, regions=regions)
            new.attributes = hlo_instruction_without_defaults(i.attributes)
            made.append(new)
        results = tuple([value(y) for y in block.results])
        return dataclasses.replace(block, arguments=arguments, instructions=made, results=results)


def live_hlo_instructions(block: HloBlock) -> set[HloValue]:
    """The values that a block's results depend on, also through regions."""
    needed = set(block.results)
    for i in reversed(block.instructions):
        if needed.intersection(i.results):
            needed.update(i.operands)
            for region in i.regions:
                needed |= live_hlo_instructions(region)
    return needed
