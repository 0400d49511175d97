"""Ways to write softmax, its logarithm and log(sum(exp(x))) along the last axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from pullback.ops.elementwise.arithmetic import Add, Sub
from pullback.ops.elementwise.division import Div
from pullback.ops.elementwise.exponential import Exp, Log
from pullback.ops.elementwise.functions import guarded, where
from pullback.ops.elementwise.guarded import MulNoNan
from pullback.ops.elementwise.rounding import IsFinite
from pullback.ops.fused.softmax import (
    BareLogSoftmax,
    BareSoftmax,
    LogSoftmaxGradient,
    LogSumExp,
    LogSumExpGradient,
    SoftmaxGradient,
)
from pullback.ops.fused.spelling import WITH_ROW_KERNELS, Operands, Spelling, spelled_type, spelling
from pullback.ops.prelude import TABLE, Node, results
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import LogSoftmax, Softmax
from pullback.ops.sources import Result


def softmax_axis(x: Node) -> tuple[int, ...]:
    return (x.type.rank - 1,)


def softmax_total(x: Node) -> Node:
    return Sum(softmax_axis(x), True)(x)


# What is subtracted before exponentials


def softmax_largest(x: Node) -> Node:
    return Max(softmax_axis(x), True)(x)


def softmax_largest_held(x: Node) -> Node:
    return TABLE["StopGradient"]()(softmax_largest(x))


def softmax_largest_finite(x: Node) -> Node:
    top = softmax_largest_held(x)
    return where(IsFinite()(top), top, 0)


SHIFTS = (softmax_largest, softmax_largest_held, softmax_largest_finite)


# Softmax


def softmax_formula(shift: Callable[[Node], Node], x: Node) -> Node:
    weights = Exp()(x - shift(x))
    return weights / softmax_total(weights)


def softmax_operand(node: Node) -> Iterator[Operands]:
    above, below = node.inputs
    if isinstance(above.op, Exp) and isinstance(below.op, Sum) and node.type.rank:
        yield (spelled_type(node),)


def softmax_fused(shift: Callable[[Node], Node], x: Node) -> Node:
    op = Softmax if shift is softmax_largest_finite else BareSoftmax
    return op(softmax_axis(x))(x)


def softmax_pull(g: Node, y: Node, x: Node) -> Sequence[Node]:
    return [SoftmaxGradient(softmax_axis(x))(g, y)]


# Its logarithm


def log_softmax_formula(shift: Callable[[Node], Node], again: bool, x: Node) -> Node:
    top = shift(x)
    shifted = x - top
    return (x - top if again else shifted) - Log()(softmax_total(Exp()(shifted)))


def log_softmax_operand(node: Node) -> Iterator[Operands]:
    left, right = node.inputs
    if isinstance(left.op, Sub) and isinstance(right.op, Log) and node.type.rank:
        yield (spelled_type(node),)


def log_softmax_fused(shift: Callable[[Node], Node], x: Node) -> Node:
    op = LogSoftmax if shift is softmax_largest_finite else BareLogSoftmax
    return op(softmax_axis(x))(x)


def log_softmax_pull(g: Node, y: Node, x: Node) -> Sequence[Node]:
    return [LogSoftmaxGradient(softmax_axis(x))(g, y)]


# The logarithm of the sum


def logsumexp_formula(shift: Callable[[Node], Node], again: bool, x: Node) -> Node:
    top = shift(x)
    return Log()(softmax_total(Exp()(x - top))) + (shift(x) if again else top)


def logsumexp_operand(node: Node) -> Iterator[Operands]:
    for x in node.inputs:
        if isinstance(x.op, Log) and isinstance(x.inputs[0].op, Sum):
            terms = x.inputs[0].inputs[0]
            if isinstance(terms.op, Exp) and terms.type.rank:
                yield (spelled_type(terms),)


def logsumexp_fused(shift: Callable[[Node], Node], x: Node) -> Node:
    return results(LogSumExp(softmax_axis(x), shift is not softmax_largest_finite)(x))[0]


def logsumexp_pull(g: Node, y: Node, x: Node) -> Sequence[Node]:
    _, shift, log_sum = results(y.inputs[0])
    return [LogSumExpGradient(softmax_axis(x))(x, shift, log_sum, g)]


# x - logsumexp(x), once the latter is found


def softmax_difference_operand(node: Node) -> Iterator[Operands]:
    right = node.inputs[1]
    if isinstance(right.op, Result) and isinstance(right.inputs[0].op, LogSumExp):
        yield (spelled_type(node),)


def softmax_difference_formula(shift: Callable[[Node], Node], x: Node) -> Node:
    return x - logsumexp_formula(shift, False, x)


def softmax_gradient_operands(node: Node) -> Iterator[Operands]:
    if node.type.dtype.is_float and node.type.rank and isinstance(node.inputs[1].op, MulNoNan):
        yield spelled_type(node), spelled_type(node)


def softmax_gradient(g: Node, y: Node) -> Node | None:
    axes = softmax_axis(y)
    return SoftmaxGradient(axes)(g, y) if y.op is Softmax(axes) else None


def log_softmax_gradient(g: Node, y: Node) -> Node | None:
    axes = softmax_axis(y)
    return LogSoftmaxGradient(axes)(g, y) if y.op is LogSoftmax(axes) else None


def _softmax_spellings() -> Iterator[Spelling]:
    for shift in SHIFTS:
        yield Spelling(
            name="softmax",
            last=Div,
            formula=partial(softmax_formula, shift),
            operands=softmax_operand,
            fused=partial(softmax_fused, shift),
            pull=softmax_pull,
        )
        for again in (False, True):
            yield Spelling(
                name="log-softmax",
                last=Sub,
                formula=partial(log_softmax_formula, shift, again),
                operands=log_softmax_operand,
                fused=partial(log_softmax_fused, shift),
                pull=log_softmax_pull,
            )
            yield Spelling(
                name="logsumexp",
                last=Add,
                formula=partial(logsumexp_formula, shift, again),
                operands=logsumexp_operand,
                fused=partial(logsumexp_fused, shift),
                pull=logsumexp_pull,
            )
        yield Spelling(
            name="log-softmax by logsumexp",
            last=Sub,
            formula=partial(softmax_difference_formula, shift),
            operands=softmax_difference_operand,
            fused=partial(log_softmax_fused, shift),
            pull=log_softmax_pull,
            stage=1,
        )
    # Ops that users recorded, differentiated by their own rules
    yield Spelling(
        name="softmax gradient",
        last=Sub,
        formula=lambda g, y: guarded(g, y) - guarded(softmax_total(guarded(g, y)), y),
        operands=softmax_gradient_operands,
        fused=softmax_gradient,
    )
    yield Spelling(
        name="log-softmax gradient",
        last=Sub,
        formula=lambda g, y: g - guarded(softmax_total(g), Exp()(y)),
        operands=softmax_gradient_operands,
        fused=log_softmax_gradient,
    )


for _made in _softmax_spellings():
    spelling(replace(_made, platforms=WITH_ROW_KERNELS))
