"""The data of modules: instructions as a text states them, which may be wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pullback.errors import ArgumentError, PullbackError, TextPosition
from pullback.graph.dtypes import DType, float32, float64, int64
from pullback.graph.types import Type
from pullback.static.profiles import CORE, PROFILES

# Instructions with a syntax of their own. The writer and the parser share these tables.
BINARY = ("Add", "Sub", "Mul", "Div")  # BinOp(Add, %0, %1)
CONSTANTS: dict[DType, str] = {float32: "ConstF32", float64: "ConstF64", int64: "ConstI64"}


class Instruction(NamedTuple):
    """One line of a module.

    `op` is a name of the op table, of a constant (`ConstF32`, `ConstTensor` ...), `Input`, or
    `Copy` for `%8 = %7`. `operands` and `results` are numbers of values. `parameters` are those
    that have to be written, by name; graphs among them are instruction lists. `problem` is an
    error in the line itself, which linking raises. `line` is 0 if there is no text.
    """

    results: tuple[int, ...]
    op: str
    operands: tuple[int, ...] = ()
    parameters: Mapping[Any, Any] = MappingProxyType({})
    types: tuple[Type, ...] = ()
    name: str = ""
    literal: np.ndarray | Any = None
    line: int = 0
    column: int = 0
    problem: PullbackError | None = None
    comment: str = ""


class InstructionList:
    """The instructions of a module or of an inner graph, with their outputs. It is frozen."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    profile: str
    end: TextPosition | None  # where the text lists the outputs

    def __init__(
        self, instructions: Iterable[Instruction], outputs: Iterable[int], profile: str = CORE,
        end: TextPosition | None = None,
    ) -> None:  # fmt: skip
        if profile not in PROFILES:
            raise ArgumentError(f"the profile must be one of {', '.join(PROFILES)}, got {profile}")
        self.__dict__.update(
            instructions=tuple(instructions), outputs=tuple(outputs), profile=profile, end=end
        )

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot change {name!r}: modules are frozen")


def constant_instruction_name(type: Type) -> str:
    """The name of the instruction for a constant of a type."""
    return "ConstTensor" if type.shape else CONSTANTS.get(type.dtype, "ConstTensor")
