"""Optimizers as objects, which update leaves in place by their `.grad`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, ClassVar

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.boundary import boundary_methods
from pullback.graph.html import html_table
from pullback.lazy.foreign_names import add_foreign_members
from pullback.lazy.frozen import is_frozen
from pullback.lazy.record import record_at_one_line
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.optim.optimizer_state_dicts import (
    optimizer_state_from_dict,
    plain_state,
    track_optimizer_state,
)
from pullback.optim.parameter_groups import ParameterGroup, collect_parameter_groups, grouped_rule
from pullback.optim.parameter_trees import parameter_leaf_types
from pullback.optim.rules import OptimizerRule, require_optimizer_rule, rule_with_learning_rate
from pullback.optim.schedules import LearningRate


@boundary_methods
class Optimizer:
    """An optimizer that updates parameters in place, by their `.grad`.

    `params` is a tree of tensors, such as a list, a dict or a module; an iterator of tensors or of
    pairs of a name and a tensor; or a list of dicts, each with its `params` and options of its own.
    Parameters that do not require a gradient are made to, except frozen ones: those are trained as
    soon as their `requires_grad` is switched on. Leaves without derivative are left alone.

    The class takes any rule, so that wrapped ones have an object form too:

    >>> w = pb.tensor([3.0, 4.0])
    >>> rule = pb.optim.clip_by_global_norm(pb.optim.sgd(1.0), 1.0)
    >>> opt = pb.optim.Optimizer([w], rule)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.numpy().round(3).tolist()
    [2.4000000953674316, 3.200000047683716]
    """

    _name: ClassVar[str] = "Optimizer"

    def __init__(self, params: object, rule: OptimizerRule) -> None:
        require_optimizer_rule(self._name, rule)
        self.params: list[Tensor]
        self.params, self._tree, options = collect_parameter_groups(params, self._name)
        self._asleep = {id(p) for p in self.params if is_frozen(p)}  # they have no slots
        self._structure = tree.structure(self._tree)
        self._rules = (
            [rule] if options is None else [_optimizer_with_options(rule, o) for o in options]
        )
        self._grouped = options is not None
        self.state = self._first_state()

    @property
    def rule(self) -> OptimizerRule:
        """The rule in functional form. With several groups, each has its own."""
        return grouped_rule(self._rules) if self._grouped else self._rules[0]

    @property
    def groups(self) -> list[ParameterGroup]:
        """The groups of parameters, each with its `params` and `learning_rate`."""
        trees = self._tree if self._grouped else [self._tree]
        return [ParameterGroup(self, i, tree.leaves(part)) for i, part in enumerate(trees)]

    def __repr__(self) -> str:
        return f"<{self._name} of {parameter_leaf_types(self.params)}: {self.rule}>"

    def _repr_html_(self) -> str:
        rows = [("rule", self.rule), ("parameters", parameter_leaf_types(self.params))]
        return html_table(self._name, rows)

    @property
    def learning_rate(self) -> LearningRate:
        """The learning rate. Setting it never recompiles: it is an input of the program."""
        return self._rules[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, value: LearningRate) -> None:
        self._rules = [rule_with_learning_rate(rule, value) for rule in self._rules]

    lr = learning_rate

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        With a function that computes the gradients and returns the loss, call it first, and return
        the loss.
        """
        loss = None if closure is None else closure()
        self._wake()
        asleep = self._asleep
        found = [None if id(p) in asleep else p.grad for p in self.params]
        grads = tree.unflatten(self._structure, found)
        with no_grad(), record_at_one_line():
            new, self.state = self.rule.advance(grads, self.state, self._tree)
            for p, value in zip(self.params, tree.leaves(new), strict=True):
                if value is not p:
                    p.assign(value)
        return loss

    def _first_state(self) -> Any:
        kept = [None if id(p) in self._asleep else p for p in self.params]
        return track_optimizer_state(self.rule.init(tree.unflatten(self._structure, kept)))

    def _wake(self) -> None:
        """Begin with parameters that were frozen until now."""
        if not self._asleep:
            return
        woken = {id(p) for p in self.params if id(p) in self._asleep and not is_frozen(p)}
        if woken:
            self._asleep -= woken
            self.state = self._extended_state(self._first_state())

    def _extended_state(self, first: Any) -> Any:
        return optimizer_state_from_dict(first, plain_state(first) | plain_state(self.state))

    def zero_grad(self) -> None:
        """Clear the gradients, which `backward()` would otherwise add to."""
        for p in self.params:
            p.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the learning rates as dicts of tensors and numbers.

        Learning rates that are schedules are not in it: the schedule continues by its step count.

        >>> opt = pb.optim.SGD({"w": pb.ones(2)}, lr=0.1, momentum=0.9)
        >>> {name: value.tolist() for name, value in opt.state_dict()["state"].items()}
        {'slots.velocity.w': [0.0, 0.0]}
        """
        rates = {str(i): rule.learning_rate for i, rule in enumerate(self._rules)}
        kept = {i: r for i, r in rates.items() if isinstance(r, Tensor) or not callable(r)}
        return {"state": plain_state(self.state), "learning_rates": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with a state that `state_dict` returned, of the same kind of optimizer.

        >>> opt = pb.optim.SGD({"w": pb.ones(2)}, lr=0.1)
        >>> opt.load_state_dict(pb.optim.SGD({"w": pb.ones(2)}, lr=0.5).state_dict())
        >>> opt.learning_rate
        0.5
        """
        fits = isinstance(state_dict, dict) and set(state_dict) == {"state", "learning_rates"}
        if not fits or not set(state_dict["learning_rates"]) <= {
            *map(str, range(len(self._rules)))
        }:
            raise ArgumentError(
                "load_state_dict: the argument must be what state_dict() of an optimizer with as "
                "many groups returned"
            )
        self.state = optimizer_state_from_dict(self.state, state_dict["state"])
        for i, rate in state_dict["learning_rates"].items():
            self._rules[int(i)] = rule_with_learning_rate(self._rules[int(i)], rate)


add_foreign_members(Optimizer, "Optimizer")


def _optimizer_with_options(rule: OptimizerRule, options: dict[str, Any]) -> OptimizerRule:
    def change(base: Any) -> Any:
        names = [f.name for f in fields(base)]
        unknown = [name for name in options if name not in names]
        if unknown:
            raise ArgumentError(
                f"{base.name}: a group has no option {unknown[0]!r}; the options are "
                f"params, lr, {', '.join(names)}"
            )
        return replace(base, **options)

    return rule.rebuilt(change)
