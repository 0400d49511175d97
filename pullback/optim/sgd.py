"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.errors import ArgumentError
from pullback.functions.where_take import where
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.tensor import Tensor
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class SGDRule(UpdateRule):
    """velocity = momentum * velocity + (1 - dampening) * g; p = p - learning_rate * velocity."""

    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    name = "sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("momentum", "dampening")
        if self.nesterov and not self.momentum:
            raise ArgumentError("sgd: nesterov=True needs a momentum that is not 0")
        if self.nesterov and self.dampening:
            raise ArgumentError("sgd: nesterov=True needs a dampening of 0")

    @property
    def counts(self) -> bool:  # type: ignore[override]
        return bool(self.momentum and self.dampening)  # the first gradient is not dampened

    @property
    def slots(self) -> dict[str, bool]:
        return {"velocity": False} if self.momentum else {}

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        if not self.momentum:
            return p - g * at.rate, slots
        taken = g
        if self.dampening:
            assert at.step is not None
            taken = where(at.step == 1, g, g * (1.0 - self.dampening))
        velocity = slots["velocity"] * self.momentum + taken
        direction = velocity * self.momentum + g if self.nesterov else velocity
        return p - direction * at.rate, {"velocity": velocity}


@with_argument_checks
def sgd(
    learning_rate: LearningRate = 1e-2, momentum: float = 0.0, nesterov: bool = False,
    weight_decay: float = 0.0, dampening: float = 0.0, mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> SGDRule:  # fmt: skip
    """Return stochastic gradient descent in functional form.

    With the gradient g, where g = g + weight_decay * p first:

    - v = momentum * v + (1 - dampening) * g (v = g in the first step)
    - d = g + momentum * v if `nesterov`, else v
    - p = p - learning_rate * d

    >>> opt = pb.optim.sgd(learning_rate=0.5)
    >>> params = {"w": pb.tensor([4.0, 8.0])}
    >>> state = opt.init(params)
    >>> grads = pb.grad(lambda p: (p["w"] * p["w"]).sum() / 2)(params)
    >>> params, state = opt.update(grads, state, params)
    >>> params["w"].tolist()
    [2.0, 4.0]
    """
    rate = rule_learning_rate("sgd", learning_rate, lr, 1e-2)
    return SGDRule(rate, momentum, nesterov, dampening, weight_decay=weight_decay, mask=mask)


class SGD(Optimizer):
    """Stochastic gradient descent as an object: see `sgd` for the formula.

    >>> w = pb.tensor([4.0, 8.0])
    >>> opt = pb.optim.SGD([w], learning_rate=0.5)
    >>> ((w * w).sum() / 2).backward()
    >>> opt.step()
    >>> w.tolist()
    [2.0, 4.0]
    """

    _name = "SGD"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-2, momentum: float = 0.0,
        nesterov: bool = False, weight_decay: float = 0.0, dampening: float = 0.0,
        mask: Mask = None, *, lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = sgd(learning_rate, momentum, nesterov, weight_decay, dampening, mask, lr=lr)
        super().__init__(params, rule)
