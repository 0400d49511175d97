"""Descriptions of the instructions, with their derivatives, generated from the op table."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

import pullback.ops  # noqa: F401  (fills the op table)
from pullback.errors import PullbackError, UnsupportedOp
from pullback.graph.dtypes import ALL, dtype
from pullback.graph.graph import Graph, graph_ancestors
from pullback.graph.node import Node, result_nodes
from pullback.graph.op_kinds import Transparent
from pullback.graph.op_table import TABLE
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Neg
from pullback.ops.sources import Const, Result, placeholder
from pullback.static.autodiff import FORWARD_ONLY
from pullback.static.differentiate import differentiate_without_guards
from pullback.static.flatten_graph import flatten_graph
from pullback.static.literals import literal_text
from pullback.static.profiles import CORE, EXTENDED, PROFILES
from pullback.static.text import TextWriter
from pullback.transforms.reverse import derive_in_reverse, reverse_reach

INFIX = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
LONGEST = 12  # a longer derivative is described by the names of its instructions


class ExtensionDescription(NamedTuple):
    """An instruction that Core v1 does not have.

    `derivative` has the cotangent of each differentiable operand, as the rule computes it for the
    op's first sample; it is None for an instruction that is not differentiable.
    """

    name: str
    profile: str
    summary: str
    derivative: tuple[str, ...] | None


def extensions() -> list[ExtensionDescription]:
    """Every instruction beyond Core v1, sorted by name, with its derivative.

    >>> import pullback as pb
    >>> for e in pb.ir.extensions():
    ...     if e.name in ("Sin", "Floor"):
    ...         print(e.name, e.derivative)
    Floor ('none: it is 0 everywhere',)
    Sin ('g * Cos(x)',)
    """
    classes = [cls for _, cls in sorted(TABLE.items()) if cls.text.profile not in ("", CORE)]
    own = [cls for cls in classes if cls.__module__.startswith("pullback.")]
    return [
        ExtensionDescription(
            c.name, c.text.profile, _description_summary(c), described_derivative(c)
        )
        for c in own
    ]


def described_derivative(cls: Any, profile: str = EXTENDED) -> tuple[str, ...] | None:
    """The cotangent of each operand, for the first sample of an op that has a derivative.

    None if the op has no derivative rule in the profile.
    """
    core = profile != EXTENDED
    if not cls.differentiable or (core and (cls.text.profile != CORE or cls.name in FORWARD_ONLY)):
        return None
    found = ["by its rule"]  # ops that cannot run alone, such as collectives, have no samples
    for op, arrays in cls.samples():
        try:
            found = _description_cotangents(op, arrays, core)
        except UnsupportedOp:
            return None  # it has only forward mode, such as a loop of unknown length
        if found:
            break
    return tuple(found) or ("none: it is 0 everywhere",)


def _description_cotangents(op: Any, arrays: Sequence[Any], to_the_letter: bool) -> list[str]:
    xs, made, ys = _describe_applied_to(op, arrays)
    names = ["g"] if len(ys) == 1 else [f"g{i}" for i in range(len(ys))]
    pairs = zip(names, ys, strict=True)
    seeds = [placeholder(name, y.type) if y.type.inexact else None for name, y in pairs]
    targets = [x for x in xs if x.type.inexact]
    if not targets or not any(seeds):
        return []
    found, _ = derive_in_reverse(reverse_reach(ys, targets), ys, seeds, targets)
    made_by_rules = [g for g in found if g is not None]
    if to_the_letter:
        made_by_rules = differentiate_without_guards(Graph(xs, ys), made_by_rules)
    known = {x: x.op.label for x in (*xs, *filter(None, seeds))}  # type: ignore[attr-defined]
    known[made] = "result"
    return [_describe_formula(g, known) for g in made_by_rules]


def _description_summary(cls: Any) -> str:
    words = (cls.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(words.split())


def _describe_applied_to(op: Any, arrays: Sequence[Any]) -> tuple[list[Node], Node, Sequence[Node]]:
    """The operands, the node and the results of an op on placeholders for arrays."""
    types = [Type(a.shape, dtype(a.dtype)) for a in map(np.asarray, arrays)]
    names = "xyzuvw" if len(types) <= 6 else [f"x{i}" for i in range(len(types))]
    xs = [placeholder(name, t) for name, t in zip(names, types, strict=False)]
    made = op(*xs)
    return xs, made, result_nodes(made) if isinstance(made.type, tuple) else (made,)


def _describe_formula(g: Node, names: dict[Node, str]) -> str:
    """A cotangent as an expression, or the names of its instructions if it is long."""
    nodes = graph_ancestors([g], names.__contains__)
    inner = [n for n in nodes if n not in names]
    if len(inner) > LONGEST or any(n.op.graphs for n in inner):
        used = [n.op for n in inner if n.inputs and not isinstance(n.op, Transparent)]
        return "by " + ", ".join(dict.fromkeys(op.name for op in used))
    texts = dict(names)
    for node in inner:
        xs = [texts[x] for x in node.inputs]
        texts[node] = xs[0] if isinstance(node.op, Transparent) else _describe_application(node, xs)
    made = texts[g]
    return made[1:-1] if made.startswith("(") else made


def _describe_application(node: Node, xs: Sequence[str]) -> str:
    op: Any = node.op
    if isinstance(op, Const):
        return literal_text(op.array.item()) if not op.shape else "constant"
    if op.name in INFIX:
        return f"({xs[0]} {INFIX[op.name]} {xs[1]})"
    if isinstance(op, Result):
        return f"{xs[0]}{op.index}"
    if isinstance(op, Neg):
        return f"-{xs[0]}"
    return f"{op.name}({', '.join(xs)})"


class InstructionDescription(NamedTuple):
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
    derivative: tuple[str, ...] | None = None


# Instructions that are not ops.
_SOURCES = (
    InstructionDescription(
        "Input", CORE, "An argument of the module.", 'Input() {name: "x"} : f32[2,3]', "all"
    ),
    InstructionDescription("ConstI64", CORE, "A single number.", "ConstI64(7) : i64[]", "i64"),
    InstructionDescription("ConstF32", CORE, "A single number.", "ConstF32(0.5) : f32[]", "f32"),
    InstructionDescription("ConstF64", CORE, "A single number.", "ConstF64(0.5) : f64[]", "f64"),
    InstructionDescription("ConstTensor", CORE, "Any constant, as nested lists or one flat list.",
                     "ConstTensor([[1, 2], [3, 4]]) : i32[2,2]", "all"),
)  # fmt: skip


def described_instructions(
    names: Sequence[str] | None = None, profile: str = EXTENDED
) -> list[InstructionDescription]:
    """The instructions of a profile, or those in `names`: Core v1 first, then by name."""
    classes = [c for _, c in sorted(TABLE.items()) if c.text.profile and is_described_builtin(c)]
    levels = {c: PROFILES[c.text.profile].level for c in classes}
    kept = [c for c in classes if levels[c] <= PROFILES[profile].level]
    if names is not None:
        kept = [c for c in kept if c.name in names]
    entries = [_instruction_description(c, profile) for c in sorted(kept, key=levels.__getitem__)]
    return [*[e for e in _SOURCES if names is None or e.name in names], *entries]


def is_described_builtin(cls: type) -> bool:
    """Whether an op is pullback's own, not one of a user or of an example in the documentation."""
    module = sys.modules.get(cls.__module__)
    ours = cls.__module__.startswith("pullback.")
    return ours and getattr(module, cls.__qualname__, None) is cls


def _instruction_description(cls: Any, profile: str) -> InstructionDescription:
    samples = list(islice(cls.samples(), 4))
    # The sample whose operands have the most dimensions shows the most.
    chosen = max(samples, key=lambda s: sum(np.ndim(x) for x in s[1]), default=None)
    example, types = _description_example(*chosen) if chosen else (f"{cls.name}(...)", "")
    formulas = described_derivative(cls, profile)
    return InstructionDescription(
        cls.name, cls.text.profile, _description_summary(cls), example, types, formulas
    )


def _description_example(op: Any, arrays: Sequence[Any]) -> tuple[str, str]:
    """The text of an application with types instead of operands, and the accepted dtypes."""
    xs, _, ys = _describe_applied_to(op, arrays)
    types = [x.type for x in xs]
    line = flatten_graph(Graph(xs, ys))[0].instructions[-1]
    operands = re.sub(
        r"%([0-9]+)", lambda m: str(types[int(m[1])]), _ShortDescription().application(line)
    )
    return f"{operands} : {', '.join(map(str, line.types))}", _description_dtypes(op, types)


class _ShortDescription(TextWriter):
    """Leaves out the contents of inner graphs."""

    def inner(self, lines: list[str]) -> str:
        return "graph(...)"


def _description_dtypes(op: Any, types: Sequence[Type]) -> str:
    """The dtypes that the first operand may have, with the others of its dtype."""
    if not types:
        return ""
    first = types[0].dtype
    given = {d: [t.with_dtype(d) if t.dtype is first else t for t in types] for d in ALL}
    taken = [d for d, ts in given.items() if _described_op_accepts(op, ts)]
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


def _described_op_accepts(op: Any, types: Sequence[Type]) -> bool:
    try:
        op.type_of(*types)
    except PullbackError:
        return False
    return True
