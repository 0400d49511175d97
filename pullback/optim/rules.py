"""Base classes of optimizers in functional form: rules over trees of parameters."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

from pullback import tree
from pullback.errors import ArgumentError, UnsupportedOp
from pullback.graph.argument_checks import real, shown_argument
from pullback.graph.boundary import boundary_methods
from pullback.graph.dtypes import DType
from pullback.lazy.foreign_names import add_foreign_members
from pullback.lazy.operators import operator_number
from pullback.lazy.record import record_at_one_line
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.optim.optimizer_states import OptimizerState, Params, Slots, TrackedState
from pullback.optim.parameter_trees import (
    Mask,
    cast_tree_parameter,
    decayed_tree_parameters,
    parameter_tree_count,
    parameter_tree_dtype,
    parameter_tree_gradients,
    parameter_tree_parts,
    parameter_tree_requires_leaves,
    parameter_tree_slot,
    renewed_parameter_leaf,
    require_parameters,
    which_tree_parameters,
)
from pullback.optim.schedules import LearningRate


class StepValues(NamedTuple):
    """What is the same for the parameters in one step."""

    rate: Any  # the learning rate: a number, or a tensor in the dtype of the computation
    step: Tensor | None  # the number of steps with this one, if the rule counts them
    weight_decay: float  # 0 where the mask says so
    factors: Any  # what `factors` returned


@boundary_methods
class OptimizerRule:
    """An optimizer in functional form: pure functions over trees of tensors."""

    learning_rate: LearningRate

    def init(self, params: object) -> Any:
        """Return the state before the first step."""
        require_parameters(params, type(self).__name__)
        return self.start(params)

    def update(self, grads: object, state: Any, params: Params) -> tuple[Params, Any]:
        """Return new parameters and new state; nothing is changed in place.

        A leaf without derivative, or whose gradient is None, comes back as it is. A parameter that
        is a leaf that requires a gradient comes back as such a leaf, without history.
        """
        leaves, structure = tree.flatten(params)
        if not parameter_tree_requires_leaves(leaves):
            with record_at_one_line():
                return self.advance(grads, state, params)
        with no_grad(), record_at_one_line():
            new, state = self.advance(grads, state, params)
        renewed = map(
            renewed_parameter_leaf, leaves, parameter_tree_parts(structure, new, "params")
        )
        return tree.unflatten(structure, renewed), state

    def start(self, params: object) -> Any:
        """Return the state before the first step."""
        raise UnsupportedOp(f"{type(self).__name__} must define `start`, the state before a step")

    def advance(self, grads: object, state: Any, params: Any) -> tuple[Any, Any]:
        """Return new parameters and new state."""
        raise UnsupportedOp(f"{type(self).__name__} must define `advance`, one step")

    def rebuilt(self, change: Any) -> OptimizerRule:
        """Return this rule with every `UpdateRule` in it replaced by `change` of it."""
        return change(self)


@boundary_methods
@dataclass(frozen=True)
class UpdateRule(OptimizerRule):
    """A rule that treats each parameter by itself.

    A subclass names its `slots` and defines in `change` one step of one parameter.
    """

    learning_rate: LearningRate
    weight_decay: float = field(default=0.0, kw_only=True)
    mask: Mask = field(default=None, kw_only=True)

    name: ClassVar[str] = "optim"
    # Whether the rule depends on the number of steps; counting costs a separate computation.
    counts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        rate = self.learning_rate
        if not callable(rate):
            real(self.name, rate, "learning_rate")
        self.require("weight_decay")

    def require(self, *names: str, below: float | None = None) -> None:
        """Refuse fields that are numbers below 0, or not below a limit."""
        for name in names:
            value = getattr(self, name)
            if not isinstance(value, (int, float)):
                real(self.name, value, name)
            elif not value >= 0 or (below is not None and not value < below):
                limit = "" if below is None else f" and below {below:g}"
                message = f"{name} must be at least 0{limit}, got {shown_argument(value)}"
                raise ArgumentError(message, op=self.name)

    @property
    def slots(self) -> dict[str, bool]:
        """The slot names; True for a slot that is real even for a complex parameter."""
        return {}

    def initial_slots(self, p: Tensor) -> Slots:
        """Return the slots of a parameter before the first step: zeros, sharded like it."""
        return {name: parameter_tree_slot(p, is_real) for name, is_real in self.slots.items()}

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        """Return values that depend on the step number only, shared by all parameters."""
        return ()

    def decayed(self, p: Tensor, g: Tensor, at: StepValues) -> tuple[Tensor, Tensor]:
        """Apply weight decay: it is part of the gradient, unless a rule defines it otherwise."""
        return p, g + p * at.weight_decay

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        """Return the parameter and its slots after one step."""
        raise UnsupportedOp(f"{type(self).__name__} must define `change`, one step of a parameter")

    def start(self, params: object) -> OptimizerState:
        leaves, structure = tree.flatten(params)
        empty = dict.fromkeys(self.slots)
        changed = zip(leaves, which_tree_parameters(params), strict=True)
        rows = [self.initial_slots(p) if wanted else empty for p, wanted in changed]
        count = parameter_tree_count(leaves) if self._needs_count else None
        return OptimizerState(count, _rule_slot_trees(structure, self.slots, rows))

    @property
    def _needs_count(self) -> bool:
        rate = self.learning_rate
        return self.counts or (callable(rate) and not isinstance(rate, Tensor))

    def advance(
        self, grads: object, state: OptimizerState | TrackedState, params: Any
    ) -> tuple[Any, Any]:
        leaves, structure = tree.flatten(params)
        gradients = parameter_tree_gradients(structure, grads, leaves)
        columns = [parameter_tree_parts(structure, s, "state") for s in state.slots.values()]
        rows = [dict(zip(state.slots, row)) for row in zip(*columns)] or [{} for _ in leaves]
        count = state.step
        if count is None and self._needs_count:
            count = parameter_tree_count(leaves)
        before, count = count, None if count is None else count + 1
        missed = dict(state.missed) if isinstance(state, TrackedState) else None
        values = _RuleStepValues(self, before, count)
        decays = decayed_tree_parameters(
            self.mask if self.weight_decay else None, params, len(leaves)
        )
        for i, (p, g) in enumerate(zip(leaves, gradients, strict=True)):
            if g is not None:
                late = missed.get(i, 0) if missed else 0
                leaves[i], rows[i] = self._changed(p, g, rows[i], values, late, decays[i])
            elif missed is not None:
                missed[i] = missed.get(i, 0) + 1
        slots = _rule_slot_trees(structure, state.slots, rows)
        new = OptimizerState(count, slots) if missed is None else TrackedState(count, slots, missed)
        return tree.unflatten(structure, leaves), new

    def _changed(
        self,
        param: Tensor,
        g: Tensor,
        slots: Slots,
        values: _RuleStepValues,
        late: int,
        decays: bool,
    ) -> tuple[Tensor, Slots]:
        """Take one step of one parameter, in the dtype of the computation."""
        dtype = parameter_tree_dtype(param.dtype)
        p, g = cast_tree_parameter(param, dtype), cast_tree_parameter(g, dtype)
        at = values.of(dtype.real, late, self.weight_decay if decays else 0.0)
        if at.weight_decay:
            p, g = self.decayed(p, g, at)
        p, slots = self.change(p, g, slots, at)
        return cast_tree_parameter(p, param.dtype), slots


class _RuleStepValues:
    """The values of one step, computed once for all parameters of a dtype."""

    def __init__(self, rule: UpdateRule, before: Tensor | None, count: Tensor | None) -> None:
        self.rule, self.before, self.count = rule, before, count
        self.found: dict[Any, Any] = {}

    def of(self, dtype: DType, late: int, weight_decay: float) -> StepValues:
        key = dtype, late
        if key not in self.found:
            count = self.count
            if count is not None and late:
                count = count - late
            rate = self._rate(dtype)
            self.found[key] = rate, count, self.rule.factors(count, rate, dtype)
        rate, count, factors = self.found[key]
        return StepValues(rate, count, weight_decay, factors)

    def _rate(self, dtype: DType) -> Any:
        rate = operator_number(self.rule.learning_rate)
        if not isinstance(rate, Tensor) and callable(rate):
            assert self.before is not None
            rate = rate(self.before.astype(dtype))
        return cast_tree_parameter(rate, dtype) if isinstance(rate, Tensor) else rate


def _rule_slot_trees(structure: Any, names: Any, rows: list[Slots]) -> dict[str, Any]:
    return {name: tree.unflatten(structure, [row[name] for row in rows]) for name in names}


def rule_with_learning_rate(rule: OptimizerRule, rate: LearningRate) -> OptimizerRule:
    """Return a rule with another learning rate."""
    return rule.rebuilt(lambda base: replace(base, learning_rate=rate))


def rule_learning_rate(
    op: str, learning_rate: LearningRate, lr: LearningRate | None, default: float
) -> LearningRate:
    """Return the learning rate of an optimizer, which `lr` is another name for."""
    if lr is None:
        return learning_rate
    if not isinstance(learning_rate, (int, float)) and not callable(learning_rate):
        hint = (
            "Parameters are an argument of init and update, and of classes such as pb.optim.Adam."
        )
        message = (
            f"learning_rate must be a number or a schedule, got {shown_argument(learning_rate)}"
        )
        raise ArgumentError(message, op=op, hint=hint)
    if not isinstance(learning_rate, float) or learning_rate != default:
        raise ArgumentError("learning_rate and lr are the same, give one of them", op=op)
    return lr


def require_optimizer_rule(op: str, value: object) -> None:
    """Raise unless the value is an optimizer in functional form."""
    if not isinstance(value, OptimizerRule):
        hint = "Write for example pb.optim.adam(1e-3)."
        raise ArgumentError(
            f"rule must be an update rule, got {shown_argument(value)}", op=op, hint=hint
        )


add_foreign_members(OptimizerRule, "OptimizerRule")
