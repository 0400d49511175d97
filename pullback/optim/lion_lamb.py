"""Lion and LAMB: steps of a fixed size, for each element or for each parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.functions.where_take import where
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import DType
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_bias_corrections, adam_means, adam_squared, check_adam_betas
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class LionRule(UpdateRule):
    """p = p - learning_rate * sign(b1 * mean + (1 - b1) * g), with decoupled weight decay."""

    betas: tuple[float, float] = (0.9, 0.99)

    name = "lion"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_adam_betas(self.name, self.betas)

    @property
    def slots(self) -> dict[str, bool]:
        return {"mean": False}

    def decayed(self, p: Tensor, g: Tensor, at: StepValues) -> tuple[Tensor, Tensor]:
        return p - p * (at.rate * at.weight_decay), g

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        (first, second), mean = self.betas, slots["mean"]
        direction = (mean * first + g * (1.0 - first)).sign()
        return p - direction * at.rate, {"mean": mean * second + g * (1.0 - second)}


@dataclass(frozen=True)
class LAMBRule(UpdateRule):
    """A step of Adam, scaled so that its norm is `learning_rate` times that of the parameter."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6

    name = "lamb"
    counts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps")
        check_adam_betas(self.name, self.betas)

    @property
    def slots(self) -> dict[str, bool]:
        return {"mean": False, "square": True}

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        return adam_bias_corrections(count, self.betas, dtype)

    def decayed(self, p: Tensor, g: Tensor, at: StepValues) -> tuple[Tensor, Tensor]:
        return p, g  # it is part of the step whose norm is scaled

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        filled, correction = at.factors
        mean, square = adam_means(g, slots, self.betas)
        step = mean / filled / (square.sqrt() * correction + self.eps)
        if at.weight_decay:
            step = step + p * at.weight_decay
        size, length = (adam_squared(x).sum().sqrt() for x in (p, step))
        usable = (size > 0.0) & (length > 0.0)
        trust = where(usable, size / where(usable, length, 1.0), 1.0)
        return p - step * (trust * at.rate), {"mean": mean, "square": square}


@with_argument_checks
def lion(
    learning_rate: LearningRate = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
    weight_decay: float = 0.0, mask: Mask = None, *, lr: LearningRate | None = None,
) -> LionRule:  # fmt: skip
    """Return Lion in functional form.

    With betas (b1, b2) and the gradient g:

    - p = p - learning_rate * (sign(b1 * m + (1 - b1) * g) + weight_decay * p)
    - m = b2 * m + (1 - b2) * g

    The sign of a complex number z is z / |z|.

    >>> opt = pb.optim.lion(0.5)
    >>> w = pb.tensor([4.0, -8.0])
    >>> opt.update(w, opt.init(w), w)[0].tolist()
    [3.5, -7.5]
    """
    rate = rule_learning_rate("lion", learning_rate, lr, 1e-4)
    return LionRule(rate, betas, weight_decay=weight_decay, mask=mask)


@with_argument_checks
def lamb(
    learning_rate: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-6, weight_decay: float = 0.0, mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> LAMBRule:  # fmt: skip
    """Return LAMB in functional form.

    In step t, with betas (b1, b2) and the gradient g:

    - m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * |g|^2
    - d = (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + weight_decay * p
    - p = p - learning_rate * (norm(p) / norm(d)) * d; a norm of 0 makes the ratio 1

    >>> opt = pb.optim.lamb(0.5, eps=0.0)
    >>> w = pb.tensor([4.0, -4.0])
    >>> opt.update(w, opt.init(w), w)[0].numpy().round(5).tolist()
    [2.0, -2.0]
    """
    rate = rule_learning_rate("lamb", learning_rate, lr, 1e-3)
    return LAMBRule(rate, betas, eps, weight_decay=weight_decay, mask=mask)


class Lion(Optimizer):
    """Lion as an object: see `lion` for the formula."""

    _name = "Lion"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lion(learning_rate, betas, weight_decay, mask, lr=lr))


class LAMB(Optimizer):
    """LAMB as an object: see `lamb` for the formula."""

    _name = "LAMB"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.0,
        mask: Mask = None, *, lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lamb(learning_rate, betas, eps, weight_decay, mask, lr=lr))
