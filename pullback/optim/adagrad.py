"""Adagrad: steps scaled by the size of all past gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import DType
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_squared
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask, parameter_tree_slot
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class AdagradRule(UpdateRule):
    """total = total + |g|^2; p = p - learning_rate * g / (sqrt(total) + eps)."""

    eps: float = 1e-10
    initial: float = 0.0
    decay: float = 0.0

    name = "adagrad"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps", "initial", "decay")

    @property
    def counts(self) -> bool:  # type: ignore[override]
        return bool(self.decay)

    @property
    def slots(self) -> dict[str, bool]:
        return {"total": True}

    def initial_slots(self, p: Tensor) -> Slots:
        return {"total": parameter_tree_slot(p, True, self.initial)}

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        """Return the learning rate, which falls with the number of steps."""
        if not self.decay:
            return rate
        assert count is not None
        return rate / ((count - 1).astype(dtype) * self.decay + 1.0)

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        total = slots["total"] + adam_squared(g)
        return p - g * at.factors / (total.sqrt() + self.eps), {"total": total}


@with_argument_checks
def adagrad(
    learning_rate: LearningRate = 1e-2, eps: float = 1e-10, weight_decay: float = 0.0,
    initial: float = 0.0, decay: float = 0.0, mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> AdagradRule:  # fmt: skip
    """Return Adagrad in functional form.

    In step t, with the gradient g, where g = g + weight_decay * p first, and s = `initial` at
    the beginning:

    - s = s + |g|^2
    - p = p - learning_rate / (1 + (t - 1) * decay) * g / (sqrt(s) + eps)

    >>> opt = pb.optim.adagrad(0.5)
    >>> w = pb.tensor([4.0, -8.0])
    >>> opt.update(w, opt.init(w), w)[0].tolist()
    [3.5, -7.5]
    """
    rate = rule_learning_rate("adagrad", learning_rate, lr, 1e-2)
    return AdagradRule(rate, eps, initial, decay, weight_decay=weight_decay, mask=mask)


class Adagrad(Optimizer):
    """Adagrad as an object: see `adagrad` for the formula."""

    _name = "Adagrad"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-2, eps: float = 1e-10,
        weight_decay: float = 0.0, initial: float = 0.0, decay: float = 0.0, mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = adagrad(learning_rate, eps, weight_decay, initial, decay, mask, lr=lr)
        super().__init__(params, rule)
