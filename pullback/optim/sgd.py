"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from pullback.errors import ArgumentError
from pullback.graph.arguments import validated
from pullback.lazy.tensor import Tensor
from pullback.optim.base import Nodes, Optimizer, Slots, UpdateRule


@dataclass(frozen=True)
class SGDRule(UpdateRule):
    """velocity = momentum * velocity + g; p = p - learning_rate * velocity."""

    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if self.nesterov and not self.momentum:
            raise ArgumentError("sgd: nesterov=True needs a momentum that is not 0")

    @property
    def slots(self) -> dict[str, bool]:
        return {"velocity": False} if self.momentum else {}

    def change(self, p: Tensor, g: Tensor, slots: Slots, factors: Nodes) -> tuple[Tensor, Slots]:
        if self.weight_decay:
            g = g + p * self.weight_decay
        if not self.momentum:
            return p - g * self.learning_rate, slots
        velocity = slots["velocity"] * self.momentum + g
        direction = velocity * self.momentum + g if self.nesterov else velocity
        return p - direction * self.learning_rate, {"velocity": velocity}


@validated
def sgd(
    learning_rate: float | Tensor = 1e-2, momentum: float = 0.0, nesterov: bool = False,
    weight_decay: float = 0.0,
) -> SGDRule:  # fmt: skip
    """Return stochastic gradient descent in functional form.

    >>> opt = pb.optim.sgd(learning_rate=0.5)
    >>> params = {"w": pb.tensor([4.0, 8.0])}
    >>> state = opt.init(params)
    >>> grads = pb.grad(lambda p: (p["w"] * p["w"]).sum() / 2)(params)
    >>> params, state = opt.update(grads, state, params)
    >>> params["w"].tolist()
    [2.0, 4.0]
    """
    return SGDRule(learning_rate, momentum, nesterov, weight_decay)


class SGD(Optimizer):
    """Stochastic gradient descent over leaves that require a gradient.

    >>> w = pb.tensor([4.0, 8.0], requires_grad=True)
    >>> opt = pb.optim.SGD([w], learning_rate=0.5)
    >>> ((w * w).sum() / 2).backward()
    >>> opt.step()
    >>> w.tolist()
    [2.0, 4.0]
    """

    _name = "SGD"

    @validated
    def __init__(
        self, params: object, learning_rate: float | Tensor = 1e-2, momentum: float = 0.0,
        nesterov: bool = False, weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(params, sgd(learning_rate, momentum, nesterov, weight_decay))
