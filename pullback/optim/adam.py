"""Adam and AdamW."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pullback.errors import ArgumentError
from pullback.functions.arithmetic import maximum
from pullback.graph.argument_checks import real, shown_argument, with_argument_checks
from pullback.graph.dtypes import DType
from pullback.lazy.host_data import asarray
from pullback.lazy.operators import node_of, scalar_operator_operand
from pullback.lazy.record import record_several
from pullback.lazy.tensor import Tensor
from pullback.ops.optimizer_steps import AdamCorrections, AdamStep
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate

_STEP, _CORRECTIONS = AdamStep(), AdamCorrections()


@dataclass(frozen=True)
class AdamRule(UpdateRule):
    """Bias-corrected running means of the gradient and of its square."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    decoupled: bool = False
    amsgrad: bool = False

    name = "adam"
    counts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps")
        check_adam_betas(self.name, self.betas)

    @property
    def slots(self) -> dict[str, bool]:
        return {"mean": False, "square": True} | ({"largest": True} if self.amsgrad else {})

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        """Return the operands of `AdamStep` that are numbers."""
        filled, correction = adam_bias_corrections(count, self.betas, dtype)
        step_size = asarray(rate / filled, dtype)
        numbers = [v for beta in self.betas for v in (beta, 1.0 - beta)] + [self.eps]
        scalars = [scalar_operator_operand(float(v), dtype) for v in numbers]
        return step_size, correction, scalars

    def decayed(self, p: Tensor, g: Tensor, at: StepValues) -> tuple[Tensor, Tensor]:
        if self.decoupled:
            return p - p * (at.rate * at.weight_decay), g
        return super().decayed(p, g, at)

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        step_size, correction, scalars = at.factors
        if self.amsgrad:
            mean, square = adam_means(g, slots, self.betas)
            largest = maximum(slots["largest"], square)
            root = largest.sqrt() * correction + self.eps
            return p - mean * step_size / root, {"mean": mean, "square": square, "largest": largest}
        operands = [node_of(x) for x in (p, g, slots["mean"], slots["square"])]
        operands += [node_of(step_size), node_of(correction), *scalars]
        p, mean, square = record_several(_STEP, tuple(operands))
        return p, {"mean": mean, "square": square}


def check_adam_betas(op: str, betas: Any) -> None:
    """Refuse decay rates that are not two numbers from 0 to 1."""
    pair = isinstance(betas, (tuple, list)) and len(betas) == 2
    if not pair or not all(0.0 <= real(op, b, "each of betas") < 1.0 for b in betas):
        message = f"betas must be two numbers, at least 0 and below 1, got {shown_argument(betas)}"
        raise ArgumentError(message, op=op)


def adam_bias_corrections(count: Tensor | None, betas: Any, dtype: DType) -> tuple[Tensor, ...]:
    """Return 1 - b1 ** count and 1 / sqrt(1 - b2 ** count)."""
    assert count is not None
    logarithms = [math.log(beta) if beta else -math.inf for beta in betas]
    operands = node_of(count), *[scalar_operator_operand(v, dtype) for v in logarithms]
    return record_several(_CORRECTIONS, operands)


def adam_means(g: Tensor, slots: Slots, betas: Any) -> tuple[Tensor, Tensor]:
    """Return the running means of the gradient and of its squared magnitude."""
    first, second = betas
    mean = slots["mean"] * first + g * (1.0 - first)
    return mean, slots["square"] * second + adam_squared(g) * (1.0 - second)


def adam_squared(g: Tensor) -> Tensor:
    """Return the squared magnitude, which is real."""
    return (g * g.conj()).real if g.dtype.is_complex else g * g


@with_argument_checks
def adam(
    learning_rate: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8, weight_decay: float = 0.0, decoupled: bool = False, amsgrad: bool = False,
    mask: Mask = None, *, lr: LearningRate | None = None,
) -> AdamRule:  # fmt: skip
    """Return Adam in functional form; with `decoupled` weight decay it is AdamW.

    In step t, with betas (b1, b2) and the gradient g, where g = g + weight_decay * p first:

    - m = b1 * m + (1 - b1) * g
    - v = b2 * v + (1 - b2) * |g|^2; with `amsgrad`, the largest v so far is used below
    - p = p - learning_rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

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
    rate = rule_learning_rate("adam", learning_rate, lr, 1e-3)
    options = {"weight_decay": weight_decay, "mask": mask}
    return AdamRule(rate, betas, eps, decoupled, amsgrad, **options)  # type: ignore[arg-type]


@with_argument_checks
def adamw(
    learning_rate: LearningRate = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> AdamRule:  # fmt: skip
    """Return AdamW in functional form: Adam whose weight decay is not part of the gradient.

    p = p - learning_rate * weight_decay * p, and then a step of `adam` without weight decay.

    >>> opt = pb.optim.adamw(0.5, weight_decay=0.5, mask=lambda path: "w" in path)
    >>> params = {"w": pb.tensor(4.0), "b": pb.tensor(4.0)}
    >>> params, _ = opt.update(params, opt.init(params), params)
    >>> params["w"].item(), params["b"].item()
    (2.5, 3.5)
    """
    rate = rule_learning_rate("adamw", learning_rate, lr, 1e-3)
    return adam(rate, betas, eps, weight_decay, True, amsgrad, mask)


class Adam(Optimizer):
    """Adam as an object: see `adam` for the formula.

    >>> w = pb.tensor([4.0, -8.0])
    >>> opt = pb.optim.Adam([w], learning_rate=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> opt.zero_grad()
    >>> w.tolist()
    [3.5, -7.5]
    """

    _name = "Adam"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
        decoupled: bool = False, amsgrad: bool = False, mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = adam(learning_rate, betas, eps, weight_decay, decoupled, amsgrad, mask, lr=lr)
        super().__init__(params, rule)


class AdamW(Optimizer):
    """AdamW as an object: see `adamw` for the formula.

    >>> w = pb.tensor([4.0, -8.0])
    >>> opt = pb.optim.AdamW([w], lr=0.5, weight_decay=0.5)
    >>> (w * w).sum().backward()
    >>> opt.step()
    >>> w.tolist()
    [2.5, -5.5]
    """

    _name = "AdamW"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
        amsgrad: bool = False, mask: Mask = None, *, lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        rule = adamw(learning_rate, betas, eps, weight_decay, amsgrad, mask, lr=lr)
        super().__init__(params, rule)
