"""Bind the parameters that a text states to names, and convert them to the types of fields."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from pullback.errors import VerificationError
from pullback.graph.dtypes import NAMES, DType
from pullback.graph.graph import Graph
from pullback.graph.interned import exact_key
from pullback.graph.op_table import TABLE
from pullback.ops.text import OpTextApplied, OpTextNan, OpTextPair, OpTextWord
from pullback.static.instructions import InstructionList

_MISSING = inspect.Parameter.empty


class OpParameter(NamedTuple):
    """A parameter's type and default."""

    hint: Any
    default: Any


@cache
def op_parameters_of(cls: Any) -> dict[str, OpParameter]:
    """What a text states about an op: the keywords of its `text.read`, and its fields."""
    given = inspect.signature(cls.text.read).parameters.values()
    hints = _op_parameter_hints(cls.text.read)
    stated = {
        p.name: OpParameter(hints.get(p.name, Any), p.default)
        for p in given if p.kind is p.KEYWORD_ONLY
    }  # fmt: skip
    others = any(p.kind is p.VAR_KEYWORD for p in given)
    return {**parameter_fields(cls), **stated} if others else stated


@cache
def parameter_fields(cls: Any) -> dict[str, OpParameter]:
    hints = _op_parameter_hints(cls)
    missing = dataclasses.MISSING
    return {
        f.name: OpParameter(hints.get(f.name, Any), _MISSING if f.default is missing else f.default)
        for f in dataclasses.fields(cls)
    }


def _op_parameter_hints(annotated: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(annotated)
    except NameError:  # an annotation that only a type checker can resolve
        return {}


def bind_parameters(cls: Any, arguments: Sequence, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by name: `arguments` fill the positional ones, then the others in order."""
    known = op_parameters_of(cls)
    if not (known or arguments or keys):
        return {}
    order = [*cls.text.positional, *(n for n in known if n not in cls.text.positional)]
    if cls.text.spellings:
        keys = {cls.text.spellings.get(name, name): value for name, value in keys.items()}
    return op_parameters_without_defaults(cls, _bound_op_parameters(known, order, arguments, keys))


def _bound_op_parameters(
    known: dict[str, OpParameter],
    order: Sequence[str],
    arguments: Sequence,
    keys: Mapping[str, Any],
) -> dict[str, Any]:
    if len(arguments) > len(order):
        raise _wrong_op_parameter(f"it takes {len(order)} parameters, got {len(arguments)}")
    given = dict(zip(order, arguments, strict=False))
    for name, value in keys.items():
        if name not in known:
            listed = f"its parameters are {', '.join(known)}" if known else "it has none"
            raise _wrong_op_parameter(f"it has no parameter {name}; {listed}")
        if name in given:
            raise _wrong_op_parameter(f"the parameter {name} is given twice")
        given[name] = value
    made = {}
    for name, (hint, default) in known.items():
        if name in given:
            made[name] = convert_op_parameter(given[name], hint, name)
        elif default is not _MISSING:
            made[name] = default
        else:
            raise _wrong_op_parameter(f"the parameter {name} is missing")
    return made


def op_parameters_without_defaults(cls: Any, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters to write: positional ones that are set, others unless they are defaults."""
    known = op_parameters_of(cls)
    made = {}
    for name, value in stated.items():
        default = known[name].default
        usual = default is not _MISSING and exact_key(value) == exact_key(default)
        if not usual or (name in cls.text.positional and value is not None):
            made[name] = value
    return made


def _wrong_op_parameter(what: str) -> VerificationError:
    return VerificationError(what, code="E2007")


def convert_op_parameter(value: Any, hint: Any, name: str) -> Any:
    """Convert a value to the annotated type `hint`."""
    made = _convert_parameter_value(value, hint)
    if made is _MISSING:
        wanted = getattr(hint, "__name__", None) if isinstance(hint, type) else None
        wanted = wanted or str(hint).replace("typing.", "")
        raise VerificationError(f"the parameter {name} must be of type {wanted}", code="E2001")
    return made


def _convert_parameter_value(value: Any, hint: Any) -> Any:
    """The value converted to `hint`, or `_MISSING` if it has another type."""
    if hint is Any:
        return _plain_parameter(value)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        made = [m for m in (_convert_parameter_value(value, h) for h in inner) if m is not _MISSING]
        return made[0] if made else _MISSING
    if origin is tuple:
        return _convert_parameter_list(value, inner)
    if hint in (None, type(None)):
        return None if value is None else _MISSING
    return _convert_one_op_parameter(value, hint)


def _convert_parameter_list(value: Any, inner: tuple) -> Any:
    if type(value) is not tuple:
        return _MISSING
    if len(inner) == 2 and inner[1] is Ellipsis:
        inner = (inner[0],) * len(value)
    if len(inner) != len(value):
        return _MISSING
    made = tuple([_convert_parameter_value(v, h) for v, h in zip(value, inner, strict=True)])
    return _MISSING if any(m is _MISSING for m in made) else made


def _convert_one_op_parameter(value: Any, hint: Any) -> Any:
    kind = type(value)
    if hint is DType:
        return NAMES.get(value.name, _MISSING) if kind is OpTextWord else _MISSING
    if hint is bytes:
        return _op_parameter_bytes(value)
    if hint is float and kind is int:
        return float(value)
    if hint is complex and kind is OpTextPair:
        return _plain_parameter(value)
    if hint is Graph:
        return value if isinstance(value, InstructionList) else _MISSING
    if kind is OpTextApplied and value.name in TABLE and issubclass(TABLE[value.name], hint):
        return _plain_parameter(value)
    return value if kind is hint else _MISSING


def _op_parameter_bytes(value: Any) -> Any:
    try:
        return bytes.fromhex(value) if type(value) is str else _MISSING
    except ValueError:
        return _MISSING


def _plain_parameter(value: Any) -> Any:
    """A value for a parameter without an annotation."""
    if type(value) is tuple:
        made = tuple(map(_plain_parameter, value))
        return _MISSING if any(m is _MISSING for m in made) else made
    if type(value) is OpTextWord:
        return NAMES.get(value.name, value)
    if type(value) is OpTextPair:
        odd = OpTextNan in map(type, (value.real, value.imag))
        return _MISSING if odd else complex(value.real, value.imag)
    if type(value) is OpTextApplied and value.name in TABLE:
        fields = parameter_fields(TABLE[value.name])
        return TABLE[value.name](
            **_bound_op_parameters(fields, list(fields), value.arguments, value.keys)
        )
    return value
