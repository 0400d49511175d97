"""The training step: gradient, update, state of the model, precision and measured values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from pullback import tree
from pullback.api.grad import value_and_grad
from pullback.compiled.compile import compile
from pullback.errors import ArgumentError
from pullback.functions import sqrt, where
from pullback.graph.argument_checks import shown_argument
from pullback.graph.boundary import boundary_methods
from pullback.lazy.host_data import asarray
from pullback.lazy.settings import no_grad
from pullback.lazy.tensor import Tensor
from pullback.nn.keys import rng
from pullback.nn.module import Module
from pullback.optim.rules import OptimizerRule
from pullback.random.keys import fold_in
from pullback.random.keys import key as make_key
from pullback.train.loss_scale import StaticLossScale, all_finite
from pullback.train.precision import Policy
from pullback.tree_constants import constant_leaves
from pullback.typing import ArrayLike

Loss = Callable[[Any, Any], Any]  # of a model and a batch: a scalar, or a scalar and a dict


class LoopState(NamedTuple):
    """What a step takes and returns; all of it is saved in a checkpoint."""

    model: Any
    optimizer: Any
    step: Tensor
    key: Tensor
    scale: StaticLossScale | None


@dataclass(frozen=True)
class TrainingStep:
    """What a step computes. It is apart from the loop, whose state changes: a compiled function is
    traced again when an object that it refers to has changed."""

    loss: Loss
    optimizer: OptimizerRule
    policy: Policy
    casts: bool
    statistics: bool

    def _loss_and_values(self, model: Any, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        if self.casts:
            batch = self.policy.to_compute(batch)
        found = self.loss(model, batch)
        value, more = found if isinstance(found, tuple) else (found, {})
        if not isinstance(more, dict):
            what = f"loss must return a scalar, or a scalar and a dict, got {type(more).__name__}"
            raise ArgumentError(f"TrainingLoop: {what}")
        if self.casts:
            value, more = self.policy.to_output((value, more))
        return value, {"loss": value, **more}

    def measured(self, model: Any, batch: Any) -> dict[str, Tensor]:
        computed = self.policy.to_compute(model) if self.casts else model
        return self._loss_and_values(computed, batch)[1]

    def stepped(self, state: LoopState, batch: Any) -> tuple[LoopState, dict[str, Tensor]]:
        scale = state.scale

        def objective(model: Any) -> tuple[Tensor, Any]:
            computed = self.policy.to_compute(model) if self.casts else model
            with rng(fold_in(state.key, state.step)):
                value, measured = self._loss_and_values(computed, batch)
            return (value if scale is None else scale.scale(value)), (measured, computed)

        (_, (measured, computed)), grads = value_and_grad(objective, has_aux=True)(state.model)
        if scale is not None:
            grads = scale.unscale(grads)
        measured = {**measured, **self._gradient_values(grads)}
        model, optimizer = self.optimizer.update(grads, state.optimizer, state.model)
        model = _training_loop_model(model, computed)
        if scale is not None:
            finite = all_finite(grads)
            model, optimizer = tree.map(
                lambda new, old: where(finite, new, old) if isinstance(new, Tensor) else new,
                (model, optimizer), (state.model, state.optimizer),
            )  # fmt: skip
            scale = scale.adjust(finite)
        return LoopState(model, optimizer, state.step + 1, state.key, scale), measured

    def _gradient_values(self, grads: Any) -> dict[str, Tensor]:
        """The norm of the whole gradient, and with `statistics` of each parameter's."""
        squares = {
            path: (abs(g.astype("float32") if g.dtype.bits < 32 else g) ** 2).sum()
            for g, path in zip(tree.leaves(grads), tree.paths(grads), strict=True)
            if isinstance(g, Tensor)
        }
        found = {"grad_norm": sqrt(sum(squares.values(), start=0.0))}
        if self.statistics:
            found |= {f"grad_norm{path}": sqrt(s) for path, s in squares.items()}
        return found


@boundary_methods
class TrainingLoop:
    """Trains a model step by step: one compiled program for each shape of a batch.

    `loss(model, batch)` returns a scalar, or a scalar and a dict of further scalars to measure. The
    model that is given stays as it is; the trained one is `loop.model`. State of the model, such as
    running means, is updated. Each step has a key of its own for dropout. With `statistics`, the
    norm of each parameter's gradient is measured too.

    >>> model = pb.nn.Linear(2, 1, key=pb.random.key(0))
    >>> def loss(model, batch):
    ...     x, y = batch
    ...     return ((model(x) - y) ** 2).mean()
    >>> loop = pb.train.TrainingLoop(model, loss, pb.optim.sgd(0.1))
    >>> batch = pb.tensor([[1.0, 2.0], [0.0, 1.0]]), pb.tensor([[1.0], [0.5]])
    >>> first = loop.step(batch)["loss"].item()
    >>> loop.step(batch)["loss"].item() < first
    True
    """

    def __init__(
        self, model: Any, loss: Loss, optimizer: OptimizerRule, *, key: ArrayLike | None = None,
        policy: Policy | None = None, loss_scale: StaticLossScale | None = None,
        statistics: bool = False,
    ) -> None:  # fmt: skip
        if not isinstance(optimizer, OptimizerRule):
            what = f"optimizer must be a rule such as pb.optim.adam(1e-3), got {optimizer!r}"
            raise ArgumentError(f"TrainingLoop: {what}")
        _check_training_loop(model, loss)
        with no_grad():
            own = tree.map(lambda x: x.copy() if isinstance(x, Tensor) else x, model)
            own = own if policy is None else policy.to_params(own)
        given = make_key(0) if key is None else asarray(key)
        self.state = LoopState(own, optimizer.init(own), asarray(0, "int32"), given, loss_scale)
        casts = policy is not None
        step = TrainingStep(loss, optimizer, policy or Policy(), casts, bool(statistics))
        self._step = compile(step.stepped, donate_argnums=0, name="train_step")
        self._measure = compile(step.measured, name="evaluate")

    @property
    def model(self) -> Any:
        """The model as it is after the last step."""
        return self.state.model

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        return int(self.state.step.item())

    def step(self, batch: Any) -> dict[str, Tensor]:
        """Take one step; return the measured values, which are read when they are needed."""
        self.state, measured = self._step(self.state, batch)
        return measured

    def evaluate(self, batches: Iterable[Any]) -> dict[str, float]:
        """Return the means of the measured values over batches, without training.

        >>> loop = pb.train.TrainingLoop(
        ...     pb.nn.Linear(2, 1), lambda model, x: model(x).mean(), pb.optim.sgd(0.1)
        ... )
        >>> sorted(loop.evaluate([pb.ones((3, 2))]))
        ['loss']
        """
        totals: dict[str, float] = {}
        weight = 0
        model = _loop_in_evaluation(self.model)
        for batch in batches:
            size = _loop_batch_size(batch)
            for name, value in self._measure(model, batch).items():
                totals[name] = totals.get(name, 0.0) + size * value.item()
            weight += size
        if not weight:
            raise ArgumentError("evaluate: there is no batch")
        return {name: total / weight for name, total in totals.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on, as a tree."""
        return self.state._asdict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.state = LoopState(**{name: state[name] for name in LoopState._fields})


def _check_training_loop(model: Any, loss: Any) -> None:
    if not callable(loss) or isinstance(loss, Module):
        raise ArgumentError(
            "TrainingLoop: loss must be a function of a model and a batch, "
            f"got {shown_argument(loss)}",
            hint="Write a function such as\n"
            "`lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1])`.",
        )
    if isinstance(model, Module) and not model.training:
        raise ArgumentError(
            "TrainingLoop: the model is in evaluation mode, after model.eval()",
            hint="Write model.train() first. Modules in it may stay in evaluation mode.",
        )


def _training_loop_model(model: Any, source: Any) -> Any:
    """The model with the state of another copy of it."""
    leaves, structure = tree.flatten(model)
    is_state = constant_leaves(model, state_only=True)
    if not any(is_state):
        return model
    rows = zip(leaves, tree.leaves(source), is_state, strict=True)
    return tree.unflatten(structure, [new if s else old for old, new, s in rows])


def _loop_in_evaluation(model: Any) -> Any:
    """A copy of a model in evaluation mode; other trees have no modes."""
    copied = tree.map(lambda x: x, model)
    return copied.eval() if hasattr(copied, "eval") else copied


def _loop_batch_size(batch: Any) -> int:
    """The number of examples: the length of the first tensor or array."""
    shapes = [x.shape for x in tree.leaves(batch) if getattr(x, "shape", ())]
    return shapes[0][0] if shapes else 1
