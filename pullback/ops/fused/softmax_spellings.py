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
from pullback.ops.elementwise.rounding_predicates import IsFinite
from pullback.ops.fused.softmax_logsumexp import (
    BareLogSoftmax,
    BareSoftmax,
    LogSoftmaxGradient,
    LogSumExp,
    LogSumExpGradient,
    SoftmaxGradient,
)
from pullback.ops.fused.spelling import (
    WITH_ROW_KERNELS,
    Operands,
    Spelling,
    spelling,
    spelling_operand_type,
)
from pullback.ops.prelude import TABLE, Node, result_nodes
from pullback.ops.reduce.extrema import Max
from pullback.ops.reduce.reductions import Sum
from pullback.ops.reduce.softmax import LogSoftmax, Softmax
from pullback.ops.sources import Result


def spelled_softmax_axis(x: Node) -> tuple[int, ...]:
    return (x.type.rank - 1,)


def spelled_softmax_total(x: Node) -> Node:
    return Sum(spelled_softmax_axis(x), True)(x)


# What is subtracted before exponentials


def spelled_softmax_largest(x: Node) -> Node:
    return Max(spelled_softmax_axis(x), True)(x)


def spelled_softmax_largest_held(x: Node) -> Node:
    return TABLE["StopGradient"]()(spelled_softmax_largest(x))


def spelled_softmax_largest_finite(x: Node) -> Node:
    top = spelled_softmax_largest_held(x)
    return where(IsFinite()(top), top, 0)


SHIFTS = (spelled_softmax_largest, spelled_softmax_largest_held, spelled_softmax_largest_finite)


# Softmax


def spelled_softmax(shift: Callable[[Node], Node], x: Node) -> Node:
    weights = Exp()(x - shift(x))
    return weights / spelled_softmax_total(weights)


def softmax_operand(node: Node) -> Iterator[Operands]:
    above, below = node.inputs
    if isinstance(above.op, Exp) and isinstance(below.op, Sum) and node.type.rank:
        yield (spelling_operand_type(node),)


def fuse_softmax_spelling(shift: Callable[[Node], Node], x: Node) -> Node:
    op = Softmax if shift is spelled_softmax_largest_finite else BareSoftmax
    return op(spelled_softmax_axis(x))(x)


def pull_softmax_spelling(g: Node, y: Node, x: Node) -> Sequence[Node]:
    return [SoftmaxGradient(spelled_softmax_axis(x))(g, y)]


# Its logarithm


def spelled_log_softmax(shift: Callable[[Node], Node], again: bool, x: Node) -> Node:
    top = shift(x)
    shifted = x - top
    return (x - top if again else shifted) - Log()(spelled_softmax_total(Exp()(shifted)))


def log_softmax_operand(node: Node) -> Iterator[Operands]:
    left, right = node.inputs
    if isinstance(left.op, Sub) and isinstance(right.op, Log) and node.type.rank:
        yield (spelling_operand_type(node),)


def fuse_log_softmax_spelling(shift: Callable[[Node], Node], x: Node) -> Node:
    op = LogSoftmax if shift is spelled_softmax_largest_finite else BareLogSoftmax
    return op(spelled_softmax_axis(x))(x)


def pull_log_softmax_spelling(g: Node, y: Node, x: Node) -> Sequence[Node]:
    return [LogSoftmaxGradient(spelled_softmax_axis(x))(g, y)]


# The logarithm of the sum


def spelled_logsumexp(shift: Callable[[Node], Node], again: bool, x: Node) -> Node:
    top = shift(x)
    return Log()(spelled_softmax_total(Exp()(x - top))) + (shift(x) if again else top)


def logsumexp_operand(node: Node) -> Iterator[Operands]:
    for x in node.inputs:
        if isinstance(x.op, Log) and isinstance(x.inputs[0].op, Sum):
            terms = x.inputs[0].inputs[0]
            if isinstance(terms.op, Exp) and terms.type.rank:
                yield (spelling_operand_type(terms),)


def fuse_logsumexp_spelling(shift: Callable[[Node], Node], x: Node) -> Node:
    return result_nodes(
        LogSumExp(spelled_softmax_axis(x), shift is not spelled_softmax_largest_finite)(x)
    )[0]


def pull_logsumexp_spelling(g: Node, y: Node, x: Node) -> Sequence[Node]:
    _, shift, log_sum = result_nodes(y.inputs[0])
    return [LogSumExpGradient(spelled_softmax_axis(x))(x, shift, log_sum, g)]


# x - logsumexp(x), once the latter is found


def softmax_difference_operand(node: Node) -> Iterator[Operands]:
    right = node.inputs[1]
    if isinstance(right.op, Result) and isinstance(right.inputs[0].op, LogSumExp):
        yield (spelling_operand_type(node),)


def spelled_softmax_difference(shift: Callable[[Node], Node], x: Node) -> Node:
    return x - spelled_logsumexp(shift, False, x)


def softmax_gradient_operands(node: Node) -> Iterator[Operands]:
    if node.type.dtype.is_float and node.type.rank and isinstance(node.inputs[1].op, MulNoNan):
        yield spelling_operand_type(node), spelling_operand_type(node)


def fuse_softmax_gradient_spelling(g: Node, y: Node) -> Node | None:
    axes = spelled_softmax_axis(y)
    return SoftmaxGradient(axes)(g, y) if y.op is Softmax(axes) else None


def fuse_log_softmax_gradient_spelling(g: Node, y: Node) -> Node | None:
    axes = spelled_softmax_axis(y)
    return LogSoftmaxGradient(axes)(g, y) if y.op is LogSoftmax(axes) else None


def _softmax_spellings() -> Iterator[Spelling]:
    for shift in SHIFTS:
        yield Spelling(
            name="softmax",
            last=Div,
            formula=partial(spelled_softmax, shift),
            operands=softmax_operand,
            fused=partial(fuse_softmax_spelling, shift),
            pull=pull_softmax_spelling,
        )
        for again in (False, True):
            yield Spelling(
                name="log-softmax",
                last=Sub,
                formula=partial(spelled_log_softmax, shift, again),
                operands=log_softmax_operand,
                fused=partial(fuse_log_softmax_spelling, shift),
                pull=pull_log_softmax_spelling,
            )
            yield Spelling(
                name="logsumexp",
                last=Add,
                formula=partial(spelled_logsumexp, shift, again),
                operands=logsumexp_operand,
                fused=partial(fuse_logsumexp_spelling, shift),
                pull=pull_logsumexp_spelling,
            )
        yield Spelling(
            name="log-softmax by logsumexp",
            last=Sub,
            formula=partial(spelled_softmax_difference, shift),
            operands=softmax_difference_operand,
            fused=partial(fuse_log_softmax_spelling, shift),
            pull=pull_log_softmax_spelling,
            stage=1,
        )
    # Ops that users recorded, differentiated by their own rules
    yield Spelling(
        name="softmax gradient",
        last=Sub,
        formula=lambda g, y: guarded(g, y) - guarded(spelled_softmax_total(guarded(g, y)), y),
        operands=softmax_gradient_operands,
        fused=fuse_softmax_gradient_spelling,
    )
    yield Spelling(
        name="log-softmax gradient",
        last=Sub,
        formula=lambda g, y: g - guarded(spelled_softmax_total(g), Exp()(y)),
        operands=softmax_gradient_operands,
        fused=fuse_log_softmax_gradient_spelling,
    )


for _made in _softmax_spellings():
    spelling(replace(_made, platforms=WITH_ROW_KERNELS))
