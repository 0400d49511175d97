"""Different rules for different parameters, chosen by labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument, with_argument_checks
from pullback.optim.parameter_trees import (
    parameter_tree_gradients,
    parameter_tree_parts,
    parameter_tree_values,
)
from pullback.optim.rules import OptimizerRule
from pullback.optim.schedules import LearningRate

Label = Hashable


class PartitionState(NamedTuple):
    """The states of the rules of a partition, by label."""

    states: dict[Any, Any]


@dataclass(frozen=True)
class PartitionRule(OptimizerRule):
    """The rule of each label updates the parameters with that label."""

    rules: Mapping[Any, OptimizerRule]
    labels: Any

    @property
    def learning_rate(self) -> LearningRate:  # type: ignore[override]
        """The learning rate of the first rule."""
        return next(iter(self.rules.values())).learning_rate

    def rebuilt(self, change: Any) -> OptimizerRule:
        return replace(self, rules={k: rule.rebuilt(change) for k, rule in self.rules.items()})

    def start(self, params: object) -> PartitionState:
        leaves, structure = tree.flatten(params)
        found = self._labels(params)
        return PartitionState({
            label: rule.start(_only_partition(structure, leaves, found, label))
            for label, rule in self.rules.items()
        })  # fmt: skip

    def advance(self, grads: object, state: PartitionState, params: Any) -> tuple[Any, Any]:
        leaves, structure = tree.flatten(params)
        gradients = parameter_tree_gradients(structure, grads, leaves)
        labels, states = self._labels(params), {}
        result = list(leaves)
        for label, rule in self.rules.items():
            own = [
                _only_partition(structure, values, labels, label) for values in (gradients, leaves)
            ]
            new, states[label] = rule.advance(own[0], state.states[label], own[1])
            for i, value in enumerate(parameter_tree_parts(structure, new, "params")):
                if labels[i] == label:
                    result[i] = value
        return tree.unflatten(structure, result), PartitionState(states)

    def _labels(self, params: object) -> list[Any]:
        found = parameter_tree_values(self.labels, params, "partition: labels")
        for label in found:
            if label not in self.rules:
                known = ", ".join(map(repr, self.rules))
                message = f"partition: a label must be one of {known}, got {shown_argument(label)}"
                raise ArgumentError(message)
        return found


def _only_partition(structure: Any, values: list[Any], labels: list[Any], label: Any) -> Any:
    """Return a tree with None in place of the leaves with other labels."""
    kept = [v if l == label else None for v, l in zip(values, labels, strict=True)]  # noqa: E741
    return tree.unflatten(structure, kept)


@with_argument_checks
def partition(
    rules: Mapping[Any, OptimizerRule], labels: Callable[[str], Label] | object
) -> PartitionRule:
    """Return the rule that updates each parameter by the rule of its label.

    `labels` is a function of the path of a parameter, as `pb.tree.paths` writes it, or a tree of
    labels, one for each parameter or for a whole subtree.

    >>> rules = {"fast": pb.optim.sgd(0.5), "slow": pb.optim.sgd(0.25)}
    >>> opt = pb.optim.partition(rules, {"body": "slow", "head": "fast"})
    >>> params = {"body": [pb.tensor(1.0), pb.tensor(2.0)], "head": pb.tensor(3.0)}
    >>> params, _ = opt.update(params, opt.init(params), params)
    >>> pb.tree.map(lambda p: p.item(), params)
    {'body': [0.75, 1.5], 'head': 1.5}
    """
    fits = isinstance(rules, Mapping) and len(rules) > 0
    if not fits or not all(isinstance(rule, OptimizerRule) for rule in rules.values()):
        message = f"rules must be a dict of update rules by label, got {shown_argument(rules)}"
        raise ArgumentError(message, op="partition")
    return PartitionRule(dict(rules), labels)
