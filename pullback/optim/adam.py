"""Adam, and AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pullback.ir.dtypes import DType
from pullback.ir.errors import ArgumentError
from pullback.ir.where import user_line
from pullback.optim.base import Optimizer, Rule, Slots
from pullback.tensor.functions import conj, expm1, real, sqrt
from pullback.tensor.tensor import Tensor


@dataclass(frozen=True)
class AdamRule(Rule):
    """Running means of the gradient and of its square, corrected for their start at zero."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    counts = True

    def __post_init__(self) -> None:
        if not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ArgumentError(
                f"adam: betas must be at least 0 and below 1, got {self.betas}", where=user_line()
            )

    @property
    def slots(self) -> dict[str, bool]:
        return {"mean": False, "square": True}

    def factors(self, count: Any, dtype: DType) -> tuple[Tensor, Tensor]:
        """The length of the step, and the correction of the root of `square`."""
        steps = count.astype(dtype)
        first, second = (_filled(beta, steps) for beta in self.betas)
        return self.learning_rate / first, 1.0 / sqrt(second)

    def change(self, p: Tensor, g: Tensor, slots: Slots, factors: Any) -> tuple[Tensor, Slots]:
        length, correction = factors
        first, second = self.betas
        if self.weight_decay and not self.decoupled:
            g = g + p * self.weight_decay
        mean = slots["mean"] * first + g * (1.0 - first)
        square = slots["square"] * second + _absolute_square(g) * (1.0 - second)
        if self.weight_decay and self.decoupled:
            p = p - p * (self.learning_rate * self.weight_decay)
        p = p - mean * length / (sqrt(square) * correction + self.eps)
        return p, {"mean": mean, "square": square}


def _filled(beta: float, steps: Tensor) -> Tensor:
    """1 - beta ** steps, without the cancellation: a running mean of ones that began at zero."""
    return -expm1(steps * (math.log(beta) if beta else -math.inf))


def _absolute_square(g: Tensor) -> Tensor:
    return real(g * conj(g)) if g.dtype.is_complex else g * g


def adam(
    learning_rate: float | Tensor = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decoupled: bool = False,
) -> AdamRule:
    """Adam in functional form; with `decoupled` weight decay it is AdamW.

    >>> import pullback as pb
    >>> opt = pb.optim.adam(learning_rate=0.5)
    >>> params = {"w": pb.tensor([4.0, -8.0])}
    >>> state = opt.init(params)
    >>> grads = pb.grad(lambda p: (p["w"] * p["w"]).sum())(params)
    >>> params, state = opt.update(grads, state, params)
    >>> params["w"].tolist()
    [3.5, -7.5]
    >>> state.step.item()
    1
    """
    return AdamRule(learning_rate, betas, eps, weight_decay, decoupled)


class Adam(Optimizer):
    """Adam over leaves that require a gradient; with `decoupled` weight decay it is AdamW.

    >>> import pullback as pb
    >>> w = pb.tensor([4.0, -8.0], requires_grad=True)
    >>> opt = pb.optim.Adam([w], learning_rate=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> opt.zero_grad()
    >>> w.tolist()
    [3.5, -7.5]
    """

    _name = "Adam"

    def __init__(
        self,
        params: Any,
        learning_rate: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled: bool = False,
    ) -> None:
        super().__init__(params, adam(learning_rate, betas, eps, weight_decay, decoupled))
