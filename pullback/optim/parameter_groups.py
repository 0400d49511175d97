"""The parameters of an optimizer object: one tree, or groups with options of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pullback import tree
from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.frozen import is_frozen
from pullback.lazy.tensor import Tensor
from pullback.optim.parameter_trees import is_tree_parameter
from pullback.optim.partition import PartitionRule
from pullback.optim.rules import OptimizerRule, rule_with_learning_rate
from pullback.optim.schedules import LearningRate

if TYPE_CHECKING:
    from pullback.optim.optimizer import Optimizer


class ParameterGroup:
    """Parameters of an optimizer object that share a learning rate."""

    def __init__(self, optimizer: Optimizer, index: int, params: list[Tensor]) -> None:
        self._optimizer, self._index, self.params = optimizer, index, params

    @property
    def rule(self) -> OptimizerRule:
        return self._optimizer._rules[self._index]

    @property
    def learning_rate(self) -> LearningRate:
        return self.rule.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: LearningRate) -> None:
        self._optimizer._rules[self._index] = rule_with_learning_rate(self.rule, value)

    lr = learning_rate

    def __repr__(self) -> str:
        return f"<group of {len(self.params)} parameters: {self.rule}>"


def collect_parameter_groups(
    params: object, name: str
) -> tuple[list[Tensor], Any, list[dict[str, Any]] | None]:
    """Return the distinct parameters, the tree that holds them, and the options of groups."""
    if isinstance(params, Iterator):
        params = list(params)
    if isinstance(params, (int, float)):
        raise ArgumentError(
            f"{name}: params must be tensors, got {shown_argument(params)}",
            hint=f"Write {name}(model.parameters(), lr={params}), or use the functional form,\n"
            f"pb.optim.{name.lower()}.",
        )
    found: dict[int, str] = {}
    if not _are_groups(params):
        kept = _kept_group_tree(params, name, found)
        groups = None
    else:
        assert isinstance(params, list)
        groups = [_group_options(group, name) for group in params]
        kept = [_kept_group_tree(group["params"], name, found) for group in params]
    leaves = tree.leaves(kept)
    _require_trained_group(leaves, name)
    for p in leaves:
        if not p.requires_grad and not is_frozen(p):
            p.requires_grad = True
    return leaves, kept, groups


def _require_trained_group(leaves: list[Tensor], name: str) -> None:
    if not leaves:
        raise ArgumentError(
            f"{name}: params must hold at least one float tensor, got none",
            hint="Pass model.parameters() as they are: the optimizer switches requires_grad on, "
            "except\nof parameters that were frozen with p.requires_grad = False.",
        )
    if all(map(is_frozen, leaves)):
        raise ArgumentError(
            f"{name}: params must hold a tensor to train, but all {len(leaves)} are frozen",
            hint="Write model.requires_grad_() to train them.",
        )


def _are_groups(params: object) -> bool:
    if not isinstance(params, (list, tuple)) or not params:
        return False
    return all(isinstance(group, dict) and "params" in group for group in params)


def _group_options(group: dict[str, Any], name: str) -> dict[str, Any]:
    options = {key: value for key, value in group.items() if key != "params"}
    if "lr" in options:
        if "learning_rate" in options:
            raise ArgumentError("learning_rate and lr are the same, give one of them", op=name)
        options["learning_rate"] = options.pop("lr")
    return options


def _kept_group_tree(params: Any, name: str, found: dict[int, str]) -> Any:
    """Return the tree with None in place of what is not a parameter, or occurs a second time."""
    params = _as_group_tree(params)
    own = _declared_group_parameters(params)
    leaves, structure = tree.flatten(params)
    here: set[int] = set()
    kept: list[Tensor | None] = []
    for leaf, path in zip(leaves, tree.paths(params), strict=True):
        wanted = is_tree_parameter(leaf, path) and (own is None or id(leaf) in own)
        if wanted and id(leaf) in found:
            message = f"{name}: the tensor at {path} is in two groups of parameters"
            raise ArgumentError(message)
        if wanted and id(leaf) not in here:
            _check_group_leaf(leaf, path, name)
            here.add(id(leaf))
            kept.append(leaf)
        else:
            kept.append(None)
    found.update(dict.fromkeys(here, name))
    return tree.unflatten(structure, kept)


def _as_group_tree(params: Any) -> Any:
    """Return pairs of a name and a tensor as a dict, and an iterator as a list."""
    if isinstance(params, Iterator):
        params = list(params)
    pairs = isinstance(params, (list, tuple)) and all(_is_named_group(entry) for entry in params)
    return dict(params) if pairs and params else params


def _is_named_group(entry: Any) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)


def _declared_group_parameters(params: Any) -> set[int] | None:
    """Return the identities of the parameters of a module, which may hold other tensors too."""
    declared = getattr(params, "parameters", None)
    if declared is None or isinstance(params, (list, tuple, dict, Tensor)):
        return None
    return {id(p) for p in tree.leaves(list(declared()))} if callable(declared) else None


def _check_group_leaf(p: Tensor, path: str, name: str) -> None:
    if not p.is_leaf:
        raise ArgumentError(
            f"{name}: a parameter must be a leaf, but the tensor at {path} was computed",
            hint="Only leaves keep a gradient. Make one from its value with\n"
            "`pb.tensor(x.numpy(), requires_grad=True)`.",
        )


def grouped_rule(rules: list[Any]) -> OptimizerRule:
    """Return one rule for all groups: outside as the first one, with the rule of each inside."""
    bases: list[list[Any]] = []
    for rule in rules:
        inner: list[Any] = []
        rule.rebuilt(lambda base, inner=inner: inner.append(base) or base)
        bases.append(inner)
    places = iter(zip(*bases, strict=True))
    labels = list(range(len(rules)))
    return rules[0].rebuilt(lambda _: PartitionRule(dict(enumerate(next(places))), labels))
