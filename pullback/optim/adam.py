"""Adam and AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pullback.errors import ArgumentError
from pullback.graph.arguments import real, validated
from pullback.graph.dtypes import DType
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of, scalar_operand
from pullback.lazy.record import record_several
from pullback.lazy.tensor import Tensor
from pullback.ops.optimizer_steps import AdamCorrections, AdamStep
from pullback.optim.base import Nodes, Optimizer, Slots, UpdateRule


@dataclass(frozen=True)
class AdamRule(UpdateRule):
    """Bias-corrected running means of the gradient and of its square."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled: bool = False

    counts = True

    def __post_init__(self) -> None:
        pair = isinstance(self.betas, (tuple, list)) and len(self.betas) == 2
        if not pair or not all(0.0 <= real("adam", b, "each of betas") < 1.0 for b in self.betas):
            raise ArgumentError(
                f"adam: betas must be two numbers, at least 0 and below 1, got {self.betas!r}"
            )

    @property
    def slots(self) -> dict[str, bool]:
        return {"mean": False, "square": True}

    def factors(self, count: Tensor | None, dtype: DType) -> Nodes:
        """Return the scalar operands of `AdamStep`."""
        assert count is not None
        logarithms = [math.log(beta) if beta else -math.inf for beta in self.betas]
        operands = node_of(count), *[scalar_operand(v, dtype) for v in logarithms]
        filled, correction = record_several(AdamCorrections(), operands)
        step_size = asarray(self.learning_rate / filled, dtype)
        numbers = [v for beta in self.betas for v in (beta, 1.0 - beta)] + [self.eps]
        scalars = [scalar_operand(float(v), dtype) for v in numbers]
        return (node_of(step_size), correction._node, *scalars)

    def change(self, p: Tensor, g: Tensor, slots: Slots, factors: Nodes) -> tuple[Tensor, Slots]:
        if self.weight_decay and not self.decoupled:
            g = g + p * self.weight_decay
        if self.weight_decay and self.decoupled:
            p = p - p * (self.learning_rate * self.weight_decay)
        operands = [node_of(x) for x in (p, g, slots["mean"], slots["square"])]
        p, mean, square = record_several(AdamStep(), (*operands, *factors))
        return p, {"mean": mean, "square": square}


@validated
def adam(
    learning_rate: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8, weight_decay: float = 0.0, decoupled: bool = False,
) -> AdamRule:  # fmt: skip
    """Return Adam in functional form; with `decoupled` weight decay it is AdamW.

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

    >>> w = pb.tensor([4.0, -8.0], requires_grad=True)
    >>> opt = pb.optim.Adam([w], learning_rate=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> opt.zero_grad()
    >>> w.tolist()
    [3.5, -7.5]
    """

    _name = "Adam"

    @validated
    def __init__(
        self, params: object, learning_rate: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
        decoupled: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(params, adam(learning_rate, betas, eps, weight_decay, decoupled))
