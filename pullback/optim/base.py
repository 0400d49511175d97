"""What every optimizer shares: trees, state, checks, and the object form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError, UnsupportedOp
from pullback.functions.sharding import reshard
from pullback.graph.dtypes import DType, float32, int32
from pullback.lazy.host_data import asarray
from pullback.lazy.record import at_one_line
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.sharding.spec import P

Slots = dict[str, Tensor]  # what an optimizer remembers about one parameter, by name


class OptimizerState(NamedTuple):
    """What the functional form hands from step to step: a tree of tensors."""

    step: Tensor | None  # steps taken, where the rule depends on them
    slots: dict[str, Any]  # each a tree like the parameters


@dataclass(frozen=True)
class UpdateRule:
    """An optimizer in functional form: pure functions over trees of tensors.

    A rule names its `slots` and says in `change` what one step does to one parameter.
    """

    learning_rate: float | Tensor

    # Without need there is no count: it would be a computation of its own, beside the step's.
    counts: ClassVar[bool] = False

    @property
    def slots(self) -> dict[str, bool]:
        """The names of the slots, and whether each holds real numbers for a complex parameter."""
        return {}

    def factors(self, count: Tensor | None, dtype: DType) -> Any:
        """What depends on the number of the step alone, computed once for all parameters."""
        return None

    def change(self, p: Tensor, g: Tensor, slots: Slots, factors: Any) -> tuple[Tensor, Slots]:
        """The parameter and its slots after one step."""
        raise UnsupportedOp(f"{type(self).__name__} does not say what a step changes")

    def init(self, params: Any) -> OptimizerState:
        """The state before the first step."""
        leaves, structure = tree.flatten(params)
        for leaf, path in zip(leaves, tree.paths(params), strict=True):
            check_parameter(leaf, path)
        made = [self.fresh(p) for p in leaves]
        return OptimizerState(
            self.zero_count(leaves),
            {name: tree.unflatten(structure, [s[name] for s in made]) for name in self.slots},
        )

    def update(self, grads: Any, state: OptimizerState, params: Any) -> tuple[Any, OptimizerState]:
        """New parameters and new state; nothing is changed in place."""
        leaves, structure = tree.flatten(params)
        gradients = _like(structure, grads, "grads")
        columns = [_like(structure, s, "state") for s in state.slots.values()]
        slots = [dict(zip(state.slots, row)) for row in zip(*columns)] or [{} for _ in leaves]
        with at_one_line():
            count, leaves, slots = self.advance(state.step, leaves, gradients, slots)
        return tree.unflatten(structure, leaves), OptimizerState(
            count,
            {name: tree.unflatten(structure, [s[name] for s in slots]) for name in state.slots},
        )

    def advance(
        self, count: Tensor | None, params: list[Any], grads: list[Any], slots: list[Slots]
    ) -> tuple[Tensor | None, list[Tensor], list[Slots]]:
        """One step of a list of parameters that have taken the same number of steps."""
        count = None if count is None else count + 1
        factors: dict[DType, Any] = {}
        changed, remembered = [], []
        for param, grad, slot in zip(params, grads, slots, strict=True):
            dtype = working_dtype(param.dtype)
            p, g = _cast(param, dtype), _cast(grad, dtype)
            if dtype.real not in factors:
                factors[dtype.real] = self.factors(count, dtype.real)
            p, new = self.change(p, g, slot, factors[dtype.real])
            changed.append(_cast(p, param.dtype))
            remembered.append(new)
        return count, changed, remembered

    def fresh(self, p: Tensor) -> Slots:
        """Slots of zeros. They are values, not promises, so that step 1 is step 2's program."""
        dtype = working_dtype(p.dtype)
        return {
            name: _beside(p, zeros(p.shape, dtype.real if is_real else dtype))
            for name, is_real in self.slots.items()
        }

    def zero_count(self, params: list[Tensor]) -> Tensor | None:
        """On the parameters' mesh, so that a step is one program."""
        if not self.counts:
            return None
        meshes = {p.sharding.mesh for p in params if p.sharding is not None}
        count = zeros((), int32)
        return reshard(count, meshes.pop(), P()) if len(meshes) == 1 else count


def _beside(p: Tensor, slot: Tensor) -> Tensor:
    """What is remembered about a parameter lies on the mesh as it does."""
    return slot if p.sharding is None else reshard(slot, p.sharding)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    return x if x.dtype is dtype else x.astype(dtype)


class Optimizer:
    """An optimizer as an object: it changes leaves that require a gradient, by their `.grad`."""

    _name: ClassVar[str] = "optimizer"

    def __init__(self, params: Any, rule: UpdateRule) -> None:
        self.rule = rule
        self.params = _leaves(params, self._name)
        self.slots = [rule.fresh(p) for p in self.params]
        self._counts = [rule.zero_count(self.params)] * len(self.params)

    @property
    def learning_rate(self) -> float | Tensor:
        """May be set at any time; a number is an input of the program, so nothing recompiles."""
        return self.rule.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: float | Tensor) -> None:
        self.rule = replace(self.rule, learning_rate=value)

    def step(self) -> None:
        """Change every parameter that has a gradient; one without is left as it is."""
        with no_grad(), at_one_line():
            for members in self._together():
                count, params, slots = self.rule.advance(
                    self._counts[members[0]],
                    [self.params[i] for i in members],
                    [self.params[i].grad for i in members],
                    [self.slots[i] for i in members],
                )
                for i, value, remembered in zip(members, params, slots, strict=True):
                    self.params[i].assign(value)
                    self.slots[i], self._counts[i] = remembered, count

    def zero_grad(self) -> None:
        """Forget the gradients, so that the next `backward()` starts anew."""
        for p in self.params:
            p.zero_grad()

    def _together(self) -> list[list[int]]:
        """The parameters with a gradient, grouped by the step that they have reached."""
        groups: dict[int, list[int]] = {}
        for i, p in enumerate(self.params):
            if p.grad is not None:
                groups.setdefault(id(self._counts[i]), []).append(i)
        return list(groups.values())


def working_dtype(dtype: DType) -> DType:
    """The type that a step is computed and remembered in: f32 for half precision."""
    return float32 if dtype.is_float and dtype.bits < 32 else dtype


def zeros(shape: tuple[int, ...], dtype: DType) -> Tensor:
    return asarray(np.zeros(shape, dtype.numpy))


def check_parameter(p: Any, path: str) -> None:
    if not isinstance(p, Tensor):
        raise ArgumentError(
            f"optim: a parameter must be a tensor, got {type(p).__name__} at {path or 'the root'}",
        )
    if not p.dtype.is_inexact:
        raise ArgumentError(
            f"optim: a parameter must be float or complex, got {p.dtype}{list(p.shape)} "
            f"at {path or 'the root'}",
        )


def _like(structure: Any, tree_: Any, what: str) -> list[Any]:
    """The leaves of a tree that must have the structure of the parameters."""
    leaves, found = tree.flatten(tree_)
    if found != structure:
        expected, got = tree.show(structure), tree.show(found)
        raise ArgumentError(f"update: {what} must be a tree like params, {expected}, got {got}")
    return leaves


def _leaves(params: Any, name: str) -> list[Tensor]:
    """The parameters of the object form, each once, checked."""
    if isinstance(params, Iterator):
        params = list(params)
    made: dict[int, Tensor] = {}
    for p, path in zip(tree.leaves(params), tree.paths(params), strict=True):
        check_parameter(p, path)
        if not p.is_leaf:
            raise ArgumentError(
                f"{name}: a parameter must be a leaf, the tensor at {path} was computed",
                hint="Only leaves keep a gradient. Make one from its value with\n"
                "`pb.tensor(x.numpy(), requires_grad=True)`.",
            )
        if not p.requires_grad:
            raise ArgumentError(
                f"{name}: a parameter must require a gradient, the tensor at {path} does not",
                hint="Without it backward() never gives it a gradient and step() never changes "
                "it.\nMake it with `pb.tensor(data, requires_grad=True)`.",
            )
        made[id(p)] = p
    if not made:
        raise ArgumentError(f"{name}: there are no parameters")
    return list(made.values())
