"""The parts of docs/ir.md that are written by the op table and the catalogue of errors.

`make docs` brings the page up to date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pullback.errors import PullbackError
from pullback.graph.dtypes import ALL, dtype
from pullback.graph.graph import Graph
from pullback.graph.node import results
from pullback.graph.table import TABLE
from pullback.graph.types import Type
from pullback.ops.sources import placeholder
from pullback.static.autodiff import FORWARD_ONLY
from pullback.static.catalogue import CATALOGUE
from pullback.static.extensions import derivative
from pullback.static.flatten import flattened
from pullback.static.profiles import CORE, EXTENDED, PROFILES
from pullback.static.text import Writer

# Those that are no ops: name, example, element types, summary.
_SOURCES = (
    ("Input", 'Input() {name: "x"} : f32[2,3]', "all", "An argument of the module."),
    ("ConstI64", "ConstI64(7) : i64[]", "i64", "A single number."),
    ("ConstF32", "ConstF32(0.5) : f32[]", "f32", "A single number."),
    ("ConstF64", "ConstF64(0.5) : f64[]", "f64", "A single number."),
    ("ConstTensor", "ConstTensor([[1, 2], [3, 4]]) : i32[2,2]", "all",
     "Any constant, as nested lists or one flat list."),
)  # fmt: skip


class InstructionEntry(NamedTuple):
    """What a reader wants to know about an instruction.

    `example` is a sample with types in place of operands, and `types` are the element types that
    the type rule takes there. `derivative` has a formula for each operand; it is None for
    an instruction that has no derivative in the profile that was asked about.
    """

    name: str
    profile: str
    summary: str
    example: str
    types: str
    derivative: tuple[str, ...] | None

    @property
    def derivative_text(self) -> str:
        return "no derivative" if self.derivative is None else "; ".join(self.derivative)


def entries(names: Sequence[str] | None = None, profile: str = EXTENDED) -> list[InstructionEntry]:
    """The instructions that a text of a profile may name: those of Core v1 first, then by name."""
    level = PROFILES[profile].level
    made = [
        InstructionEntry(name, CORE, summary, example, types, None)
        for name, example, types, summary in _SOURCES
        if names is None or name in names
    ]
    classes = [
        cls
        for name, cls in sorted(TABLE.items())
        if cls.text.profile and is_ours(cls) and PROFILES[cls.text.profile].level <= level
        if names is None or name in names
    ]
    classes.sort(key=lambda c: PROFILES[c.text.profile].level)
    return made + [_entry(c, profile) for c in classes]


def is_ours(cls: Any) -> bool:
    """Whether an op is one of the library's, and of no user, nor of an example in its pages."""
    module = sys.modules.get(cls.__module__)
    ours = cls.__module__.startswith("pullback.")
    return ours and getattr(module, cls.__qualname__, None) is cls


def _entry(cls: Any, profile: str) -> InstructionEntry:
    summary = " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())
    samples = list(islice(cls.samples(), 4))
    example, types = _told(*max(samples, key=_ranks)) if samples else (f"{cls.name}(...)", "")
    return InstructionEntry(
        cls.name, cls.text.profile, summary, example, types, derivative(cls, profile)
    )


def _ranks(sample: tuple[Any, Sequence[Any]]) -> int:
    """How much a sample shows; the first of those that show most is taken."""
    return sum(np.ndim(x) for x in sample[1])


def _told(op: Any, arrays: Sequence[Any]) -> tuple[str, str]:
    types = [Type(a.shape, dtype(a.dtype)) for a in map(np.asarray, arrays)]
    xs = [placeholder(f"x{i}", t) for i, t in enumerate(types)]
    made = op(*xs)
    ys = results(made) if isinstance(made.type, tuple) else (made,)
    line = flattened(Graph(xs, ys))[0].instructions[-1]
    operands = re.sub(r"%([0-9]+)", lambda m: str(types[int(m[1])]), _Short().application(line))
    return f"{operands} : {', '.join(map(str, line.types))}", _element_types(op, types)


class _Short(Writer):
    """Leaves out what is inside graphs."""

    def inner(self, lines: list[str]) -> str:
        return "graph(...)"


def _element_types(op: Any, types: Sequence[Type]) -> str:
    """The element types that the first operand may have, and others that were of its own."""
    if not types:
        return ""
    first = types[0].dtype
    taken = [
        d for d in ALL if _takes(op, [t.with_dtype(d) if t.dtype is first else t for t in types])
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


def _takes(op: Any, types: Sequence[Type]) -> bool:
    try:
        op.type_of(*types)
    except PullbackError:
        return False
    return True


# -- the page -------------------------------------------------------------------------------------


def instructions_table() -> str:
    """Every instruction, as a Markdown table."""
    rows = ["| instruction | profile | element types | derivative |", "|---|---|---|---|"]
    for e in entries():
        told = "-" if e.derivative is None else "; ".join(map(_quoted, e.derivative))
        if e.name in FORWARD_ONLY:
            told = f"{CORE}: E5001; {EXTENDED}: {told}"
        rows.append(_row(f"`{e.example}`<br>{e.summary}", e.profile, e.types, told))
    return "\n".join(rows)


def _quoted(formula: str) -> str:
    """A formula as code; what is told in words stays as it is."""
    return formula if formula.startswith(("by ", "none: ")) else f"`{formula}`"


def _row(*cells: str) -> str:
    return f"| {' | '.join([c.replace('|', '&#124;') for c in cells])} |"


def errors_table() -> str:
    """The catalogue of errors, as a Markdown table."""
    rows = ["| code | meaning |", "|---|---|"]
    for e in CATALOGUE.values():
        rows.append(
            _row(e.code, f"{e.meaning} (reserved: it cannot occur)" if e.reserved else e.meaning)
        )
    return "\n".join(rows)


PARTS = {"instructions": instructions_table, "errors": errors_table}


def updated(page: str) -> str:
    """The page with what stands between its marks written anew."""
    for name, write in PARTS.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, after = page.index(begin) + len(begin), page.index(end)
        page = f"{page[:before]}{write()}\n{page[after:]}"
    return page


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(updated(path.read_text(encoding="utf-8")), encoding="utf-8")
