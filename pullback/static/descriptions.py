"""Descriptions of the instructions that a module may use, generated from the op table."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import PullbackError
from pullback.graph.dtypes import ALL, dtype
from pullback.graph.graph import Graph
from pullback.graph.node import results
from pullback.graph.table import TABLE
from pullback.graph.types import Type
from pullback.ops.sources import placeholder
from pullback.static.extensions import derivative, summary
from pullback.static.flatten import flattened
from pullback.static.profiles import CORE, EXTENDED, PROFILES
from pullback.static.text import Writer

# Instructions that are not ops: name, example, dtypes, summary.
_SOURCES = (
    ("Input", 'Input() {name: "x"} : f32[2,3]', "all", "An argument of the module."),
    ("ConstI64", "ConstI64(7) : i64[]", "i64", "A single number."),
    ("ConstF32", "ConstF32(0.5) : f32[]", "f32", "A single number."),
    ("ConstF64", "ConstF64(0.5) : f64[]", "f64", "A single number."),
    ("ConstTensor", "ConstTensor([[1, 2], [3, 4]]) : i32[2,2]", "all",
     "Any constant, as nested lists or one flat list."),
)  # fmt: skip


class InstructionEntry(NamedTuple):
    """The description of an instruction.

    `example` is a sample with types instead of operands, and `types` are the dtypes that the
    first operand may have. `derivative` has a formula for each operand; it is None for an
    instruction that has no derivative in the requested profile.
    """

    name: str
    profile: str
    summary: str
    example: str
    types: str
    derivative: tuple[str, ...] | None


def instruction_entries(
    names: Sequence[str] | None = None, profile: str = EXTENDED
) -> list[InstructionEntry]:
    """The instructions of a profile, or those in `names`: Core v1 first, then by name."""
    level = PROFILES[profile].level
    made = [
        InstructionEntry(name, CORE, text, example, types, None)
        for name, example, types, text in _SOURCES
        if names is None or name in names
    ]
    classes = [
        cls
        for name, cls in sorted(TABLE.items())
        if cls.text.profile and is_builtin(cls) and PROFILES[cls.text.profile].level <= level
        if names is None or name in names
    ]
    classes.sort(key=lambda c: PROFILES[c.text.profile].level)
    return made + [_entry(c, profile) for c in classes]


def is_builtin(cls: type) -> bool:
    """Whether an op is pullback's own, not one of a user or of an example in the documentation."""
    module = sys.modules.get(cls.__module__)
    ours = cls.__module__.startswith("pullback.")
    return ours and getattr(module, cls.__qualname__, None) is cls


def _entry(cls: Any, profile: str) -> InstructionEntry:
    samples = list(islice(cls.samples(), 4))
    # The sample whose operands have the most dimensions shows the most.
    chosen = max(samples, key=lambda s: sum(np.ndim(x) for x in s[1]), default=None)
    example, types = _example(*chosen) if chosen else (f"{cls.name}(...)", "")
    formulas = derivative(cls, profile)
    return InstructionEntry(cls.name, cls.text.profile, summary(cls), example, types, formulas)


def _example(op: Any, arrays: Sequence[Any]) -> tuple[str, str]:
    """The text of an application with types instead of operands, and the accepted dtypes."""
    types = [Type(a.shape, dtype(a.dtype)) for a in map(np.asarray, arrays)]
    xs = [placeholder(f"x{i}", t) for i, t in enumerate(types)]
    made = op(*xs)
    ys = results(made) if isinstance(made.type, tuple) else (made,)
    line = flattened(Graph(xs, ys))[0].instructions[-1]
    operands = re.sub(r"%([0-9]+)", lambda m: str(types[int(m[1])]), _Short().application(line))
    return f"{operands} : {', '.join(map(str, line.types))}", _dtypes(op, types)


class _Short(Writer):
    """Leaves out the contents of inner graphs."""

    def inner(self, lines: list[str]) -> str:
        return "graph(...)"


def _dtypes(op: Any, types: Sequence[Type]) -> str:
    """The dtypes that the first operand may have, with the others of its dtype."""
    if not types:
        return ""
    first = types[0].dtype
    taken = [
        d for d in ALL if _accepts(op, [t.with_dtype(d) if t.dtype is first else t for t in types])
    ]
    for name, has in _GROUPS.items():
        if taken == [d for d in ALL if has(d)]:
            return name
    return ", ".join(d.name for d in taken)


_GROUPS = {
    "all": lambda d: True,
    "all but bool": lambda d: d.kind != "b",
    "float, complex": lambda d: d.is_float or d.is_complex,
    "float": lambda d: d.is_float,
    "integer": lambda d: d.is_integer,
    "integer, float": lambda d: d.is_integer or d.is_float,
    "bool, integer": lambda d: d.is_integer or d.kind == "b",
    "all but complex": lambda d: not d.is_complex,
    "complex": lambda d: d.is_complex,
}


def _accepts(op: Any, types: Sequence[Type]) -> bool:
    try:
        op.type_of(*types)
    except PullbackError:
        return False
    return True
