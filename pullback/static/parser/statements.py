"""Make instructions of parsed lines; different spellings give the same instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pullback.errors import PullbackError, TextPosition, VerificationError
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.text import OpTextWord
from pullback.static.instructions import BINARY, CONSTANTS, Instruction, constant_instruction_name
from pullback.static.op_parameters import bind_parameters
from pullback.static.parser.constants import array_of_constant

_CONSTANTS = {*CONSTANTS.values(), "ConstTensor"}
_DTYPES = {name: dtype for dtype, name in CONSTANTS.items()}


def instruction_of_statement(
    results: tuple[int, ...], op: str, operands: tuple[int, ...], arguments: tuple,
    keys: Mapping[str, Any], types: tuple[Type, ...], place: TextPosition,
) -> Instruction:  # fmt: skip
    """The instruction of a line; an error in it is stored as its `problem`, not raised."""
    if op == "BinOp":
        op, arguments, keys = _binary_statement(arguments, keys)
    made = Instruction(results, op, operands, types=types, line=place.line, column=place.column)
    try:
        if op == "Input":
            return _input_statement(made, arguments, keys)
        if op in _CONSTANTS:
            return _constant_statement(made, arguments, keys)
        if op in TABLE and TABLE[op].text.profile:
            return made._replace(parameters=bind_parameters(TABLE[op], arguments, keys))
    except PullbackError as error:
        problem = error.with_traceback(None)
        return made._replace(parameters=_statement_as_given(arguments, keys), problem=problem)
    return made._replace(parameters=_statement_as_given(arguments, keys))


def _binary_statement(
    arguments: tuple, keys: Mapping[str, Any]
) -> tuple[str, tuple, Mapping[str, Any]]:
    """Replace `BinOp(Add, ...)` by the op; a BinOp of an unknown op is kept."""
    if len(arguments) == 1 and not keys:
        word, rest = arguments[0], dict[str, Any]()
    else:
        rest = dict(keys)
        word = rest.pop("op", None)
    if not isinstance(word, OpTextWord) or word.name not in BINARY or (arguments and keys):
        return "BinOp", arguments, keys
    return word.name, (), rest


def _statement_as_given(arguments: tuple, keys: Mapping[str, Any]) -> Mapping:
    return {**dict(enumerate(arguments)), **keys}


def _input_statement(made: Instruction, arguments: tuple, keys: Mapping[str, Any]) -> Instruction:
    name = keys.get("name", "")
    if arguments or type(name) is not str or not name or len(keys) > 1:
        what = 'an input needs a name and nothing else: Input() {name: "x"}'
        raise VerificationError(what, code="E4004")
    return made._replace(name=name)


def _constant_statement(
    made: Instruction, arguments: tuple, keys: Mapping[str, Any]
) -> Instruction:
    """The constant, under the name that belongs to its type."""
    if not arguments and list(keys) == ["value"]:
        arguments, keys = (keys["value"],), {}
    if keys or len(arguments) != 1:
        raise VerificationError("a constant needs one literal: ConstF32(0.5)", code="E4005")
    made = made._replace(literal=arguments[0])
    if len(made.types) != 1:
        return made
    type = made.types[0]
    expected = _DTYPES.get(made.op)
    if expected is not None and (type.shape or type.dtype is not expected):
        problem = VerificationError(
            f"declared type is {type}, a {made.op} is {expected}[]",
            code="E2001", declared=type, inferred=Type((), expected),
        )  # fmt: skip
        return made._replace(problem=problem)
    try:
        array = array_of_constant(arguments[0], type)
    except PullbackError as error:
        return made._replace(problem=error.with_traceback(None))
    return made._replace(op=constant_instruction_name(type), literal=array)
