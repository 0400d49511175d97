"""Why a gradient is zero: the read, the cut or the dead op on each path to an argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.api.recording import RecordingTransform
from pullback.debug.debugged_function import DebuggedFunction, exact_debugged_lines
from pullback.debug.gradient_flow import BESIDE, GradientFlow, GradientFlowCut
from pullback.errors import NonDifferentiableInput
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.node import Node
from pullback.graph.types import Type
from pullback.lazy.value_reports import ValueRangeReport, value_range_report


@dataclass(frozen=True)
class ArgumentGradient:
    """The gradient of one argument.

    `status` is "flows", "zero" (all elements are), "cut" (no path carries a derivative), "unused"
    (the result does not depend on it) or "discrete" (its elements are integers or bools). `cuts`
    say why; those of a gradient that flows are the paths on which it does not.
    """

    name: str
    type: Type
    status: str
    gradient: ValueRangeReport | None
    zeros: int
    cuts: tuple[GradientFlowCut, ...]

    @property
    def summary(self) -> str:
        if self.status == "unused":
            return "unused: the result does not depend on it"
        if self.status == "discrete":
            return "no gradient: its elements are not float or complex"
        if self.status == "cut":
            return "cut: no derivative arrives"
        if self.status == "zero":
            return "zero: all derivatives that arrive are 0"
        _, _, spread = str(self.gradient).partition(": ")
        if self.zeros:
            return f"flows: {spread}; {self.zeros} of {self.type.size} elements are 0"
        return f"flows: {spread}"


@dataclass(frozen=True)
class GradientExplanation:
    """What `explain_grad` found: an entry for each argument, by position or by name."""

    arguments: tuple[ArgumentGradient, ...]

    def __getitem__(self, key: int | str) -> ArgumentGradient:
        if isinstance(key, int):
            return self.arguments[key]
        for argument in self.arguments:
            if argument.name == key:
                return argument
        raise KeyError(key)

    def __str__(self) -> str:
        labels = [f"{a.name}: {a.type}" for a in self.arguments]
        width = max(map(len, labels), default=0)
        lines = []
        for label, a in zip(labels, self.arguments, strict=True):
            lines.append(f"{label:<{width}}  {a.summary}")
            lines += [f"    {line}" for cut in a.cuts for line in str(cut).splitlines()]
        return "\n".join(lines) or "no arguments"

    __repr__ = __str__


@with_argument_checks
def explain_grad(f: Callable[..., Any]) -> Callable[..., GradientExplanation]:
    """Return a function that tells for each argument of `f` whether a gradient arrives, or why not.

    The gradient is that of the sum of all results. Every path from an argument to a result is
    followed: a value may have been read by the host, detached, or made an integer; an op may have
    a derivative of zero everywhere, or for these values, such as `relu` of negative numbers.

    >>> def f(x, w):
    ...     return pb.relu(x @ w).sum() + x.detach().sum()
    >>> report = pb.debug.explain_grad(f)(pb.ones((2, 3)), -pb.ones(3))
    >>> report["w"].status, report["w"].cuts[0].kind, report["w"].cuts[0].op
    ('zero', 'dead', 'relu')
    """

    @boundary
    @functools.wraps(f)
    def explained(*args: Any, **kwargs: Any) -> GradientExplanation:
        program = DebuggedFunction("explain_grad", f, args, kwargs)
        if not any(y.type.inexact for y in program.outputs):
            got = ", ".join(str(y.type) for y in program.outputs) or "nothing"
            message = f"explain_grad: a result must be float or complex, got {got}"
            raise NonDifferentiableInput(message)
        with RecordingTransform(), exact_debugged_lines():
            flow = GradientFlow(program.outputs, program.differentiable, program.closed)
        named = zip(program.names, program.inputs, strict=True)
        return GradientExplanation(tuple([_explain(program, flow, name, x) for name, x in named]))

    return explained


def _explain(program: DebuggedFunction, flow: GradientFlow, name: str, x: Node) -> ArgumentGradient:
    if not x.type.inexact:
        return ArgumentGradient(name, x.type.plain, "discrete", None, 0, ())
    reads = [GradientFlowCut.read(line) for line in program.reads(x)]
    g = flow.gradients[x]
    value = None if g is None else flow.values[g]
    spread = None if value is None else value_range_report(value, x.type)
    zeros = x.type.size if value is None else int(np.sum(value == 0))
    cuts = flow.cuts(x)
    if not flow.depends(x):
        status = "cut" if reads else "unused"
        return ArgumentGradient(name, x.type.plain, status, None, zeros, tuple(reads))
    if value is not None and zeros < value.size:
        cuts = [c for c in cuts if c.kind in BESIDE]
        return ArgumentGradient(name, x.type.plain, "flows", spread, zeros, tuple(cuts))
    status = "zero" if value is not None else "cut"
    if not cuts and value is not None:
        cuts = [GradientFlowCut.cancelled(x)]
    return ArgumentGradient(name, x.type.plain, status, spread, zeros, (*cuts, *reads))
