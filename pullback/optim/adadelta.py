"""Adadelta: steps scaled by the sizes of recent steps and gradients."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_squared
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class AdadeltaRule(UpdateRule):
    """Steps whose size is that of past steps over that of past gradients."""

    rho: float = 0.9
    eps: float = 1e-6

    name = "adadelta"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps")
        self.require("rho", below=1.0)

    @property
    def slots(self) -> dict[str, bool]:
        return {"square": True, "moved": True}

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        square = slots["square"] * self.rho + adam_squared(g) * (1.0 - self.rho)
        d = g * ((slots["moved"] + self.eps).sqrt() / (square + self.eps).sqrt())
        moved = slots["moved"] * self.rho + adam_squared(d) * (1.0 - self.rho)
        return p - d * at.rate, {"square": square, "moved": moved}


@with_argument_checks
def adadelta(
    learning_rate: LearningRate = 1.0, rho: float = 0.9, eps: float = 1e-6,
    weight_decay: float = 0.0, mask: Mask = None, *, lr: LearningRate | None = None,
) -> AdadeltaRule:  # fmt: skip
    """Return Adadelta in functional form.

    With the gradient g, where g = g + weight_decay * p first:

    - s = rho * s + (1 - rho) * |g|^2
    - d = sqrt(u + eps) / sqrt(s + eps) * g
    - u = rho * u + (1 - rho) * |d|^2
    - p = p - learning_rate * d

    >>> opt = pb.optim.adadelta(1.0, rho=0.0, eps=1.0)
    >>> w = pb.tensor(3.0)
    >>> round(opt.update(w, opt.init(w), w)[0].item(), 4)
    2.0513
    """
    rate = rule_learning_rate("adadelta", learning_rate, lr, 1.0)
    return AdadeltaRule(rate, rho, eps, weight_decay=weight_decay, mask=mask)


class Adadelta(Optimizer):
    """Adadelta as an object: see `adadelta` for the formula."""

    _name = "Adadelta"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1.0, rho: float = 0.9,
        eps: float = 1e-6, weight_decay: float = 0.0, mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, adadelta(learning_rate, rho, eps, weight_decay, mask, lr=lr))
