"""Base classes of optimizers: update rules over trees of parameters, and the object form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError, UnsupportedOp
from pullback.functions.sharding import reshard
from pullback.graph.boundary import public_methods
from pullback.graph.dtypes import DType, float32
from pullback.graph.html import html_table
from pullback.graph.node import Node
from pullback.lazy.host_data import asarray
from pullback.lazy.record import at_one_line
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.sharding.spec import P
from pullback.tree_nodes import register_hint

Slots = dict[str, Tensor]  # the state of one parameter, by name
Nodes = tuple[Node, ...]
Params = TypeVar("Params")  # a tensor, or a tree of tensors


def _leaf_types(values: Any) -> str:
    """The types of the tensors in a tree, those of many in short."""
    types = [str(x._node.type) if isinstance(x, Tensor) else "?" for x in tree.leaves(values)]
    return ", ".join(types) if len(types) <= 4 else f"{len(types)} tensors, {types[0]} ..."


class OptimizerState(NamedTuple):
    """The state of the functional form between steps: a tree of tensors."""

    step: Tensor | None  # number of steps taken, if the rule depends on it
    slots: dict[str, Any]  # each a tree with the structure of the parameters

    def __repr__(self) -> str:
        """Show types, not values: there may be as many as parameters."""
        return f"OptimizerState({', '.join(f'{name}={value}' for name, value in self._rows())})"

    def _repr_html_(self) -> str:
        return html_table("OptimizerState", self._rows())

    def _rows(self) -> list[tuple[str, Any]]:
        step = "none" if self.step is None else str(self.step)
        return [("step", step), *[(name, _leaf_types(x)) for name, x in self.slots.items()]]


@public_methods
@dataclass(frozen=True)
class UpdateRule:
    """An optimizer in functional form: pure functions over trees of tensors.

    A subclass names its `slots` and defines in `change` one step of one parameter.
    """

    learning_rate: float | Tensor

    # Whether the rule depends on the number of steps; counting costs a separate computation.
    counts: ClassVar[bool] = False

    @property
    def slots(self) -> dict[str, bool]:
        """The slot names; True for a slot that is real even for a complex parameter."""
        return {}

    def factors(self, count: Tensor | None, dtype: DType) -> Nodes:
        """Return values that depend on the step number only, shared by all parameters."""
        return ()

    def change(self, p: Tensor, g: Tensor, slots: Slots, factors: Nodes) -> tuple[Tensor, Slots]:
        """Return the parameter and its slots after one step."""
        raise UnsupportedOp(f"{type(self).__name__} must define `change`, one step of a parameter")

    def init(self, params: object) -> OptimizerState:
        """Return the state before the first step."""
        leaves, structure = tree.flatten(params)
        for leaf, path in zip(leaves, tree.paths(params), strict=True):
            check_optimizer_parameter(leaf, path)
        slots = [self.initial_slots(p) for p in leaves]
        return _optimizer_state(self.zero_count(leaves), structure, self.slots, slots)

    def update(
        self, grads: object, state: OptimizerState, params: Params
    ) -> tuple[Params, OptimizerState]:
        """Return new parameters and new state; nothing is changed in place."""
        leaves, structure = tree.flatten(params)
        gradients = _optimizer_leaves_like(structure, grads, "grads")
        columns = [_optimizer_leaves_like(structure, s, "state") for s in state.slots.values()]
        slots = [dict(zip(state.slots, row)) for row in zip(*columns)] or [{} for _ in leaves]
        with at_one_line():
            count, leaves, slots = self.advance(state.step, leaves, gradients, slots)
        return tree.unflatten(structure, leaves), _optimizer_state(
            count, structure, state.slots, slots
        )

    def advance(
        self, count: Tensor | None, params: list[Tensor], grads: list[Any], slots: list[Slots]
    ) -> tuple[Tensor | None, list[Tensor], list[Slots]]:
        """Take one step with parameters that have taken the same number of steps."""
        count = None if count is None else count + 1
        factors: dict[DType, Nodes] = {}
        new_params, new_slots = [], []
        for param, grad, slot in zip(params, grads, slots, strict=True):
            dtype = optimizer_dtype(param.dtype)
            p, g = _cast_optimizer_leaves(param, dtype), _cast_optimizer_leaves(grad, dtype)
            if dtype.real not in factors:
                factors[dtype.real] = self.factors(count, dtype.real)
            p, new = self.change(p, g, slot, factors[dtype.real])
            new_params.append(_cast_optimizer_leaves(p, param.dtype))
            new_slots.append(new)
        return count, new_params, new_slots

    def initial_slots(self, p: Tensor) -> Slots:
        """Return slots of zeros, sharded like the parameter.

        They are computed values, not pending ones, so that steps 1 and 2 run the same program.
        """
        dtype, slots = optimizer_dtype(p.dtype), {}
        for name, is_real in self.slots.items():
            slot = asarray(np.zeros(p.shape, (dtype.real if is_real else dtype).numpy))
            slots[name] = slot if p.sharding is None else reshard(slot, p.sharding)
        return slots

    def zero_count(self, params: list[Tensor]) -> Tensor | None:
        """Return a step count of 0 on the parameters' mesh, so that a step is one program."""
        if not self.counts:
            return None
        meshes = {p.sharding.mesh for p in params if p.sharding is not None}
        count = asarray(np.int32(0))
        return reshard(count, meshes.pop(), P()) if len(meshes) == 1 else count


def _optimizer_state(
    count: Tensor | None, structure: Any, names: Iterable[str], slots: Sequence[Slots]
) -> OptimizerState:
    trees = {name: tree.unflatten(structure, [s[name] for s in slots]) for name in names}
    return OptimizerState(count, trees)


def _cast_optimizer_leaves(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else x.astype(dtype)


@public_methods
class Optimizer:
    """An optimizer that updates leaves in place, by their `.grad`."""

    _name: ClassVar[str] = "optimizer"

    def __init__(self, params: object, rule: UpdateRule) -> None:
        self.rule = rule
        self.params = _checked_optimizer_leaves(params, self._name)
        self.slots = [rule.initial_slots(p) for p in self.params]
        self._counts = [rule.zero_count(self.params)] * len(self.params)

    def __repr__(self) -> str:
        return f"<{self._name} of {_leaf_types(self.params)}: {self.rule}>"

    def _repr_html_(self) -> str:
        rows = [("rule", self.rule), ("parameters", _leaf_types(self.params))]
        return html_table(self._name, rows)

    @property
    def learning_rate(self) -> float | Tensor:
        """The learning rate. Setting it never recompiles: it is an input of the program."""
        return self.rule.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float | Tensor) -> None:
        self.rule = replace(self.rule, learning_rate=value)

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        with no_grad(), at_one_line():
            for group in self._groups():
                count, params, slots = self.rule.advance(
                    self._counts[group[0]],
                    [self.params[i] for i in group],
                    [self.params[i].grad for i in group],
                    [self.slots[i] for i in group],
                )
                for i, param, slot in zip(group, params, slots, strict=True):
                    self.params[i].assign(param)
                    self.slots[i], self._counts[i] = slot, count

    def zero_grad(self) -> None:
        """Clear the gradients, which `backward()` would otherwise add to."""
        for p in self.params:
            p.zero_grad()

    def _groups(self) -> list[list[int]]:
        """Group the parameters with a gradient by the number of steps that they have taken."""
        groups: dict[int, list[int]] = {}
        for i, p in enumerate(self.params):
            if p.grad is not None:
                groups.setdefault(id(self._counts[i]), []).append(i)
        return list(groups.values())


def optimizer_dtype(dtype: DType) -> DType:
    """Return the dtype of a step's computation and slots: f32 for half precision."""
    return float32 if dtype.is_float and dtype.bits < 32 else dtype


def check_optimizer_parameter(p: Any, path: str) -> None:
    place = path or "the root"
    if not isinstance(p, Tensor):
        message = f"optim: a parameter must be a tensor, got {type(p).__name__} at {place}"
        raise ArgumentError(message, hint=register_hint(p))
    if not p.dtype.is_inexact:
        raise ArgumentError(
            f"optim: a parameter must be float or complex, got {p.dtype}{list(p.shape)} at {place}"
        )


def _optimizer_leaves_like(structure: Any, other: object, name: str) -> list[Any]:
    """Return the leaves of a tree that must have the structure of the parameters."""
    leaves, found = tree.flatten(other)
    if found != structure:
        wanted, got = tree.show(structure), tree.show(found)
        message = f"update: {name} must have the tree structure of params, {wanted}, got {got}"
        raise ArgumentError(message)
    return leaves


def _checked_optimizer_leaves(params: object, name: str) -> list[Tensor]:
    """Return the distinct parameters of the object form, after checking them."""
    if isinstance(params, Iterator):
        params = list(params)
    found: dict[int, Tensor] = {}
    for p, path in zip(tree.leaves(params), tree.paths(params), strict=True):
        check_optimizer_parameter(p, path)
        if not p.is_leaf:
            raise ArgumentError(
                f"{name}: a parameter must be a leaf, but the tensor at {path} was computed",
                hint="Only leaves keep a gradient. Make one from its value with\n"
                "`pb.tensor(x.numpy(), requires_grad=True)`.",
            )
        if not p.requires_grad:
            raise ArgumentError(
                f"{name}: a parameter must require a gradient, but the tensor at {path} does not",
                hint="Otherwise backward() gives it no gradient and step() never changes it.\n"
                "Create it with `pb.tensor(data, requires_grad=True)`.",
            )
        found[id(p)] = p
    if not found:
        raise ArgumentError(f"{name}: params must hold at least one tensor, got none")
    return list(found.values())
