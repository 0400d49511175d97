"""RMSProp: steps scaled by the size of recent gradients."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.functions.arithmetic import maximum
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_squared
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class RMSPropRule(UpdateRule):
    """square = alpha * square + (1 - alpha) * |g|^2; p = p - learning_rate * g / sqrt(square)."""

    alpha: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    name = "rmsprop"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps", "momentum")
        self.require("alpha", below=1.0)

    @property
    def slots(self) -> dict[str, bool]:
        more = {"mean": False} if self.centered else {}
        return {"square": True, **more, **({"velocity": False} if self.momentum else {})}

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        new = {"square": slots["square"] * self.alpha + adam_squared(g) * (1.0 - self.alpha)}
        variance = new["square"]
        if self.centered:
            new["mean"] = slots["mean"] * self.alpha + g * (1.0 - self.alpha)
            variance = maximum(
                variance - adam_squared(new["mean"]), 0.0
            )  # rounding may make it less
        direction = g / (variance.sqrt() + self.eps)
        if self.momentum:
            direction = new["velocity"] = slots["velocity"] * self.momentum + direction
        return p - direction * at.rate, new


@with_argument_checks
def rmsprop(
    learning_rate: LearningRate = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
    weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> RMSPropRule:  # fmt: skip
    """Return RMSProp in functional form.

    With the gradient g, where g = g + weight_decay * p first:

    - s = alpha * s + (1 - alpha) * |g|^2
    - d = g / (sqrt(s) + eps); if `centered`, s - |a|^2 is in place of s, where
      a = alpha * a + (1 - alpha) * g
    - v = momentum * v + d
    - p = p - learning_rate * v

    >>> opt = pb.optim.rmsprop(0.5, alpha=0.0)
    >>> w = pb.tensor([4.0, -8.0])
    >>> opt.update(w, opt.init(w), w)[0].tolist()
    [3.5, -7.5]
    """
    rate = rule_learning_rate("rmsprop", learning_rate, lr, 1e-2)
    options = {"weight_decay": weight_decay, "mask": mask}
    return RMSPropRule(rate, alpha, eps, momentum, centered, **options)  # type: ignore[arg-type]


class RMSProp(Optimizer):
    """RMSProp as an object: see `rmsprop` for the formula."""

    _name = "RMSProp"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-2, alpha: float = 0.99,
        eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
        centered: bool = False, mask: Mask = None, *, lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = rmsprop(learning_rate, alpha, eps, weight_decay, momentum, centered, mask, lr=lr)
        super().__init__(params, rule)
