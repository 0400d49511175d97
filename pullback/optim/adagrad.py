"""Adagrad, RMSProp and Adadelta: steps scaled by the size of past gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.functions.arithmetic import maximum
from pullback.graph.arguments import validated
from pullback.graph.dtypes import DType
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_squared
from pullback.optim.base import Slots, StepValues, UpdateRule, base_learning_rate
from pullback.optim.optimizer import Optimizer
from pullback.optim.parameter_trees import Mask, parameter_slot_like
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
        return {"total": parameter_slot_like(p, True, self.initial)}

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        """Return the learning rate, which falls with the number of steps."""
        if not self.decay:
            return rate
        assert count is not None
        return rate / ((count - 1).astype(dtype) * self.decay + 1.0)

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        total = slots["total"] + adam_squared(g)
        return p - g * at.factors / (total.sqrt() + self.eps), {"total": total}


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


@validated
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
    rate = base_learning_rate("adagrad", learning_rate, lr, 1e-2)
    return AdagradRule(rate, eps, initial, decay, weight_decay=weight_decay, mask=mask)


@validated
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
    rate = base_learning_rate("rmsprop", learning_rate, lr, 1e-2)
    options = {"weight_decay": weight_decay, "mask": mask}
    return RMSPropRule(rate, alpha, eps, momentum, centered, **options)  # type: ignore[arg-type]


@validated
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
    rate = base_learning_rate("adadelta", learning_rate, lr, 1.0)
    return AdadeltaRule(rate, rho, eps, weight_decay=weight_decay, mask=mask)


class Adagrad(Optimizer):
    """Adagrad as an object: see `adagrad` for the formula."""

    _name = "Adagrad"

    @validated
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-2, eps: float = 1e-10,
        weight_decay: float = 0.0, initial: float = 0.0, decay: float = 0.0, mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = adagrad(learning_rate, eps, weight_decay, initial, decay, mask, lr=lr)
        super().__init__(params, rule)


class RMSProp(Optimizer):
    """RMSProp as an object: see `rmsprop` for the formula."""

    _name = "RMSProp"

    @validated
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-2, alpha: float = 0.99,
        eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0,
        centered: bool = False, mask: Mask = None, *, lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = rmsprop(learning_rate, alpha, eps, weight_decay, momentum, centered, mask, lr=lr)
        super().__init__(params, rule)


class Adadelta(Optimizer):
    """Adadelta as an object: see `adadelta` for the formula."""

    _name = "Adadelta"

    @validated
    def __init__(
        self, params: object, learning_rate: LearningRate = 1.0, rho: float = 0.9,
        eps: float = 1e-6, weight_decay: float = 0.0, mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        super().__init__(params, adadelta(learning_rate, rho, eps, weight_decay, mask, lr=lr))
