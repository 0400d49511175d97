"""The instructions beyond Core v1 and their derivatives, generated from the op table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import pullback.ops  # noqa: F401  (fills the op table)
from pullback.errors import UnsupportedOp
from pullback.graph.dtypes import dtype
from pullback.graph.graph import Graph, ancestors
from pullback.graph.kinds import Transparent
from pullback.graph.node import Node, results
from pullback.graph.table import TABLE
from pullback.graph.types import Type
from pullback.ops.elementwise.arithmetic import Neg
from pullback.ops.sources import Const, Result, placeholder
from pullback.static.autodiff import FORWARD_ONLY
from pullback.static.gradients import without_guards
from pullback.static.literals import literal
from pullback.static.profiles import CORE, EXTENDED
from pullback.transforms.reverse import derive, reach

INFIX = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
LONGEST = 12  # a longer derivative is described by the names of its instructions


class Extension(NamedTuple):
    """An instruction that Core v1 does not have.

    `derivative` has the cotangent of each differentiable operand, as the rule computes it for the
    op's first sample; it is None for an instruction that is not differentiable.
    """

    name: str
    profile: str
    summary: str
    derivative: tuple[str, ...] | None


def extensions() -> list[Extension]:
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
    return [Extension(c.name, c.text.profile, summary(c), derivative(c)) for c in own]


def derivative(cls: Any, profile: str = EXTENDED) -> tuple[str, ...] | None:
    """The cotangent of each operand, for the first sample of an op that has a derivative.

    None if the op has no derivative rule in the profile.
    """
    core = profile != EXTENDED
    if not cls.differentiable or (core and (cls.text.profile != CORE or cls.name in FORWARD_ONLY)):
        return None
    found = ["by its rule"]  # ops that cannot run alone, such as collectives, have no samples
    for op, arrays in cls.samples():
        try:
            found = _cotangents(op, arrays, core)
        except UnsupportedOp:
            return None  # it has only forward mode, such as a loop of unknown length
        if found:
            break
    return tuple(found) or ("none: it is 0 everywhere",)


def _cotangents(op: Any, arrays: Sequence[Any], to_the_letter: bool) -> list[str]:
    types = [Type(a.shape, dtype(a.dtype)) for a in map(np.asarray, arrays)]
    xs = [placeholder(_letter(i, len(types)), t) for i, t in enumerate(types)]
    made = op(*xs)
    ys = results(made) if isinstance(made.type, tuple) else (made,)
    names = ["g"] if len(ys) == 1 else [f"g{i}" for i in range(len(ys))]
    seeds = [
        placeholder(name, y.type) if y.type.inexact else None
        for name, y in zip(names, ys, strict=True)
    ]
    targets = [x for x in xs if x.type.inexact]
    if not targets or not any(seeds):
        return []
    found, _ = derive(reach(ys, targets), ys, seeds, targets)
    made_by_rules = [g for g in found if g is not None]
    if to_the_letter:
        made_by_rules = without_guards(Graph(xs, ys), made_by_rules)
    known = {x: x.op.label for x in (*xs, *filter(None, seeds))}  # type: ignore[attr-defined]
    known[made] = "result"
    return [_formula(g, known) for g in made_by_rules]


def summary(cls: Any) -> str:
    words = (cls.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(words.split())


def _letter(i: int, count: int) -> str:
    return "xyzuvw"[i] if count <= 6 else f"x{i}"


def _formula(g: Node, names: dict[Node, str]) -> str:
    """A cotangent as an expression, or the names of its instructions if it is long."""
    nodes = ancestors([g], names.__contains__)
    inner = [n for n in nodes if n not in names]
    if len(inner) > LONGEST or any(n.op.graphs for n in inner):
        return "by " + ", ".join(
            dict.fromkeys(
                n.op.name for n in inner if n.inputs and not isinstance(n.op, Transparent)
            )
        )
    texts = dict(names)
    for node in inner:
        xs = [texts[x] for x in node.inputs]
        texts[node] = xs[0] if isinstance(node.op, Transparent) else _applied(node, xs)
    made = texts[g]
    return made[1:-1] if made.startswith("(") else made


def _applied(node: Node, xs: Sequence[str]) -> str:
    op: Any = node.op
    if isinstance(op, Const):
        return literal(op.array.item()) if not op.shape else "constant"
    if op.name in INFIX:
        return f"({xs[0]} {INFIX[op.name]} {xs[1]})"
    if isinstance(op, Result):
        return f"{xs[0]}{op.index}"
    if isinstance(op, Neg):
        return f"-{xs[0]}"
    return f"{op.name}({', '.join(xs)})"
