"""Rules around rules: gradient accumulation, averages of parameters, steps that are skipped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

from pullback import tree
from pullback.errors import ArgumentError
from pullback.functions.creation import zeros_like
from pullback.functions.where_take import where
from pullback.graph.argument_checks import shown_argument, with_argument_checks
from pullback.lazy.tensor import Tensor
from pullback.optim.parameter_trees import (
    cast_tree_parameter,
    parameter_tree_count,
    parameter_tree_dtype,
    parameter_tree_gradients,
    parameter_tree_parts,
    parameter_tree_slot,
    select_parameter_tree,
    which_tree_parameters,
)
from pullback.optim.rules import OptimizerRule, require_optimizer_rule
from pullback.optim.schedules import LearningRate


class AccumulationState(NamedTuple):
    """The state of a rule that accumulates gradients."""

    inner: Any
    gathered: Tensor  # gradients since the last step
    total: Any  # their sum


class AverageState(NamedTuple):
    """The state of a rule that averages parameters."""

    inner: Any
    average: Any  # a tree like the parameters


class FiniteState(NamedTuple):
    """The state of a rule that skips steps with gradients that are not finite."""

    inner: Any
    skipped: Tensor  # number of skipped steps
    in_a_row: Tensor  # how many of them came last, one after the other


@dataclass(frozen=True)
class WrappedRule(OptimizerRule):
    """A rule around another one."""

    rule: OptimizerRule

    @property
    def learning_rate(self) -> LearningRate:  # type: ignore[override]
        return self.rule.learning_rate

    def rebuilt(self, change: Any) -> OptimizerRule:
        return replace(self, rule=self.rule.rebuilt(change))


@dataclass(frozen=True)
class AccumulationRule(WrappedRule):
    """A step of the rule with the mean of every `every` gradients."""

    every: int

    def start(self, params: object) -> AccumulationState:
        leaves, structure = tree.flatten(params)
        mine = which_tree_parameters(params)
        total = [
            parameter_tree_slot(p) if own else None for p, own in zip(leaves, mine, strict=True)
        ]
        inner = self.rule.start(params)
        return AccumulationState(
            inner, parameter_tree_count(leaves), tree.unflatten(structure, total)
        )

    def advance(self, grads: object, state: AccumulationState, params: Any) -> tuple[Any, Any]:
        leaves, structure = tree.flatten(params)
        gradients = parameter_tree_gradients(structure, grads, leaves)
        total = parameter_tree_parts(structure, state.total, "state")
        total = [
            t if g is None else t + cast_tree_parameter(g, t.dtype)
            for t, g in zip(total, gradients)
        ]
        mean = [None if g is None else t / self.every for t, g in zip(total, gradients)]
        count = state.gathered + 1
        full = count == self.every
        new, inner = self.rule.advance(tree.unflatten(structure, mean), state.inner, params)
        rest = [t if g is None else where(full, zeros_like(t), t) for t, g in zip(total, gradients)]
        return select_parameter_tree(full, new, params), AccumulationState(
            select_parameter_tree(full, inner, state.inner),
            where(full, zeros_like(count), count),
            tree.unflatten(structure, rest),
        )


@dataclass(frozen=True)
class AverageRule(WrappedRule):
    """The steps of the rule, with a running average of the parameters beside them."""

    decay: float

    def start(self, params: object) -> AverageState:
        leaves, structure = tree.flatten(params)
        mine = which_tree_parameters(params)
        average = [
            _first_wrapper_average(p) if own else p for p, own in zip(leaves, mine, strict=True)
        ]
        return AverageState(self.rule.start(params), tree.unflatten(structure, average))

    def advance(self, grads: object, state: AverageState, params: Any) -> tuple[Any, Any]:
        new, inner = self.rule.advance(grads, state.inner, params)
        leaves, structure = tree.flatten(new)
        before, keep = parameter_tree_parts(structure, state.average, "state"), self.decay
        average = [
            a
            if a is None
            else a * keep + cast_tree_parameter(p, a.dtype) * (1.0 - keep)
            if own
            else p
            for a, p, own in zip(before, leaves, which_tree_parameters(new), strict=True)
        ]
        return new, AverageState(inner, tree.unflatten(structure, average))


@dataclass(frozen=True)
class FiniteRule(WrappedRule):
    """The steps of the rule, except those with gradients that are not finite."""

    max_in_a_row: int | None

    def start(self, params: object) -> FiniteState:
        leaves = tree.leaves(params)
        return FiniteState(
            self.rule.start(params), parameter_tree_count(leaves), parameter_tree_count(leaves)
        )

    def advance(self, grads: object, state: FiniteState, params: Any) -> tuple[Any, Any]:
        found = [g.isfinite().all() for g in tree.leaves(grads) if _is_wrapper_gradient(g)]
        new, inner = self.rule.advance(grads, state.inner, params)
        if not found:
            return new, state._replace(inner=inner)
        finite = reduce(lambda a, b: a & b, found)
        bad = (~finite).astype(state.skipped.dtype)
        in_a_row = (state.in_a_row + bad) * bad
        taken = finite if self.max_in_a_row is None else finite | (in_a_row > self.max_in_a_row)
        skipped = state.skipped + (~taken).astype(state.skipped.dtype)
        chosen = select_parameter_tree(taken, inner, state.inner)
        return select_parameter_tree(taken, new, params), FiniteState(chosen, skipped, in_a_row)


def _is_wrapper_gradient(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype.is_inexact


def _first_wrapper_average(p: Tensor) -> Tensor:
    """Return the first value of an average, as a constant."""
    return cast_tree_parameter(p.detach(), parameter_tree_dtype(p.dtype))


@with_argument_checks
def accumulate(rule: OptimizerRule, every: int) -> AccumulationRule:
    """Return the rule that takes a step with the mean of every `every` gradients.

    The other updates return the parameters as they are. All are the same program.

    >>> opt = pb.optim.accumulate(pb.optim.sgd(1.0), every=2)
    >>> w = pb.tensor(10.0)
    >>> state = opt.init(w)
    >>> for g in (1.0, 3.0):
    ...     w, state = opt.update(pb.tensor(g), state, w)
    ...     print(w.item())
    10.0
    8.0
    """
    require_optimizer_rule("accumulate", rule)
    if every < 1:
        raise ArgumentError(
            f"every must be at least 1, got {shown_argument(every)}", op="accumulate"
        )
    return AccumulationRule(rule, every)


@with_argument_checks
def ema(rule: OptimizerRule, decay: float = 0.999) -> AverageRule:
    """Return the rule that also keeps an exponential moving average of the parameters.

    average = decay * average + (1 - decay) * p after each step, beginning with the initial
    parameters. `state.average` is a tree like the parameters, in f32 for half precision.

    >>> opt = pb.optim.ema(pb.optim.sgd(1.0), decay=0.5)
    >>> w = pb.tensor(4.0)
    >>> w, state = opt.update(pb.tensor(2.0), opt.init(w), w)
    >>> w.item(), state.average.item()
    (2.0, 3.0)
    """
    require_optimizer_rule("ema", rule)
    if isinstance(decay, (int, float)) and not 0.0 <= decay < 1.0:
        message = f"decay must be at least 0 and below 1, got {shown_argument(decay)}"
        raise ArgumentError(message, op="ema")
    return AverageRule(rule, decay)


@with_argument_checks
def apply_if_finite(rule: OptimizerRule, max_in_a_row: int | None = None) -> FiniteRule:
    """Return the rule that skips steps in which a gradient is infinite or NaN.

    Parameters and state stay as they are in such a step. `state.skipped` counts them. After
    `max_in_a_row` of them, one after the other, steps are taken as they come.

    >>> opt = pb.optim.apply_if_finite(pb.optim.sgd(1.0))
    >>> w = pb.tensor(4.0)
    >>> w, state = opt.update(pb.tensor(float("nan")), opt.init(w), w)
    >>> w.item(), state.skipped.item()
    (4.0, 1)
    """
    require_optimizer_rule("apply_if_finite", rule)
    return FiniteRule(rule, max_in_a_row)
