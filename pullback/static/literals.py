"""Literals of the text form: numbers that read back to the same bits, strings, lists, types."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Any

import numpy as np

from pullback.graph.dtypes import DType, bfloat16, dtype, float64
from pullback.graph.graph import Graph, graphs_in_parameters
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.text import OpTextApplied, OpTextNan, OpTextPair, OpTextRange, OpTextWord

ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
WORDS = {None: "none", True: "true", False: "false"}


def literal_text(value: Any) -> str:
    """The text of a parameter's value."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return WORDS[None if value is None else bool(value)]
    if isinstance(value, enum.Enum):
        return quoted_literal(value.name)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, complex, np.generic)):
        return array_literal(np.asarray(value))
    if isinstance(value, str):
        return quoted_literal(value)
    if isinstance(value, bytes):
        return quoted_literal(value.hex())
    if isinstance(value, (tuple, list)):
        return bracketed_literal(map(literal_text, value))
    if isinstance(value, (set, frozenset)):
        return bracketed_literal(sorted(map(literal_text, value)))
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Type):
        return type_literal(value)
    return _symbol_literal(value) or quoted_literal(_literal_stable_name(value))


def _symbol_literal(value: Any) -> str:
    """The text of a value that has no Python literal; empty for anything else."""
    if isinstance(value, OpTextWord):
        return value.name
    if isinstance(value, OpTextRange):
        return f"{value.start}:{value.stop}:{value.step}"
    if isinstance(value, OpTextNan):
        return f"nan(0x{value.bits:x})"
    if isinstance(value, OpTextPair):
        return f"({literal_text(value.real)}, {literal_text(value.imag)})"
    if isinstance(value, OpTextApplied):
        return applied_literal(
            value.name, map(literal_text, value.arguments), value.keys, literal_text
        )
    if hasattr(value, "type_of") and has_literal(value):  # an op
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return applied_literal(value.name, (), fields, literal_text)
    return ""


def applied_literal(name: str, arguments: Any, keys: Any, write: Any) -> str:
    """`Op(arguments) {key: value}`."""
    pairs = ", ".join([f"{k}: {write(v)}" for k, v in keys.items()])
    return f"{name}({', '.join(arguments)})" + (f" {{{pairs}}}" if pairs else "")


def has_literal(value: Any) -> bool:
    """Whether a parameter can be read back from its text."""
    if isinstance(value, tuple):
        return all(map(has_literal, value))
    if isinstance(value, OpTextApplied):
        return all(map(has_literal, (*value.arguments, *value.keys.values())))
    if hasattr(value, "type_of"):  # an op; the text cannot hold a graph inside it
        plain = not graphs_in_parameters(value.parameters()) and has_literal(value.parameters())
        return TABLE.get(value.name) is type(value) and plain
    kinds = (bool, int, float, complex, str, bytes, DType, Type, OpTextWord, OpTextRange)
    return value is None or type(value) in kinds or isinstance(value, Graph)


def _literal_stable_name(value: Any) -> str:
    """A name for an object that has no literal; never its address, which is not reproducible."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    plain = type(value).__repr__ is object.__repr__
    return type(value).__qualname__ if plain else repr(value)


def quoted_literal(text: str) -> str:
    return f'"{text.translate(ESCAPES)}"'


def bracketed_literal(items: Any) -> str:
    return f"[{', '.join(items)}]"


def type_literal(type: Type) -> str:
    """`Tensor<f32, [8, 4]>`, with the sharding and the varying axes if there are any."""
    more = {} if type.sharding is None else type.sharding.short
    more |= {"varying": tuple(type.varying)} if type.varying else {}
    shape = bracketed_literal(["?" if n == -1 else str(n) for n in type.shape])
    fields = "".join([f", {name}: {literal_text(value)}" for name, value in more.items()])
    return f"Tensor<{type.dtype.name}, {shape}{fields}>"


def array_literal(array: np.ndarray) -> str:
    """An array as nested lists, or a scalar as a number."""
    kind = dtype(array.dtype)
    items = [number_literal(x, kind) for x in array.reshape(-1)]
    for axis in reversed(range(array.ndim)):
        n, rows = array.shape[axis], math.prod(array.shape[:axis])
        items = [bracketed_literal(items[k * n : (k + 1) * n]) for k in range(rows)]
    return items[0]


def number_literal(value: Any, kind: DType) -> str:
    """The shortest text that reads back to the same bits in the value's dtype."""
    if kind.kind == "b":
        return WORDS[bool(value)]
    if kind.is_integer:
        return str(int(value))
    if kind.is_complex:
        return f"({number_literal(value.real, kind.real)}, {number_literal(value.imag, kind.real)})"
    wide = float(value)
    if math.isfinite(wide):
        return repr(wide) if kind is float64 else repr(_shortest_literal(value, wide, kind))
    return _nan_literal(value, kind) if math.isnan(wide) else repr(wide)


def _shortest_literal(value: Any, wide: float, kind: DType) -> float:
    """The number with the fewest digits that rounds to `value`."""
    if kind is not bfloat16:
        return float(str(value))  # NumPy's own types print the fewest digits
    for digits in range(1, 10):
        short = float(f"{wide:.{digits}g}")
        if bfloat16.numpy.type(short) == value:
            return short
    return wide


def _nan_literal(value: Any, kind: DType) -> str:
    """`nan`; a NaN other than the default one shows its bits, which results may depend on."""
    usual = kind.numpy.type(math.nan).tobytes()
    bits = kind.numpy.type(value).tobytes()
    return "nan" if bits == usual else f"nan(0x{int.from_bytes(bits, 'little'):x})"
