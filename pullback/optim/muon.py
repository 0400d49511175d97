"""Muon: the momentum of a matrix, orthogonalised by Newton-Schulz iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from pullback.errors import ArgumentError, DTypeError
from pullback.functions.arithmetic import maximum
from pullback.graph.argument_checks import (
    checked_integer_argument,
    shown_argument,
    with_argument_checks,
)
from pullback.graph.dtypes import DType
from pullback.lazy.tensor import Tensor
from pullback.optim.adam import adam_bias_corrections, adam_means, check_adam_betas
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask, parameter_tree_slot
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate

# The quintic whose iteration moves singular values near to 1 fastest, from Jordan's Muon
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_SCALES = {
    "shape": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "rms": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


@dataclass(frozen=True)
class MuonRule(UpdateRule):
    """Orthogonalised momentum for matrices, and AdamW for parameters of other ranks."""

    momentum: float = 0.95
    nesterov: bool = True
    iterations: int = 5
    eps: float = 1e-7
    scale: str = "shape"
    betas: tuple[float, float] = (0.9, 0.999)

    name = "muon"
    counts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps")
        self.require("momentum", below=1.0)
        check_adam_betas(self.name, self.betas)
        if not 1 <= checked_integer_argument(self.name, self.iterations, "iterations") < 100:
            message = (
                "iterations must be at least 1 and below 100, "
                f"got {shown_argument(self.iterations)}"
            )
            raise ArgumentError(message, op=self.name)
        if self.scale not in _SCALES:
            message = f"scale must be 'shape' or 'rms', got {shown_argument(self.scale)}"
            raise ArgumentError(message, op=self.name)

    @property
    def slots(self) -> dict[str, bool]:
        return {"mean": False, "square": True}

    def initial_slots(self, p: Tensor) -> Slots:
        if p.ndim == 2 and p.dtype.is_complex:
            raise DTypeError(f"muon: a matrix must be real, got {p._node.type}")
        return {
            "mean": parameter_tree_slot(p),
            "square": None if p.ndim == 2 else parameter_tree_slot(p, True),
        }

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        return adam_bias_corrections(count, self.betas, dtype)

    def decayed(self, p: Tensor, g: Tensor, at: StepValues) -> tuple[Tensor, Tensor]:
        return p - p * (at.rate * at.weight_decay), g

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        if p.ndim != 2:
            filled, correction = at.factors
            mean, square = adam_means(g, slots, self.betas)
            step = mean / filled / (square.sqrt() * correction + 1e-8)
            return p - step * at.rate, {"mean": mean, "square": square}
        keep = self.momentum
        mean = slots["mean"] * keep + g * (1.0 - keep)
        if 0 in p.shape:
            return p, {"mean": mean, "square": None}
        direction = mean * keep + g * (1.0 - keep) if self.nesterov else mean
        step = orthogonalize(direction, self.iterations, self.eps)
        return p - step * (at.rate * _SCALES[self.scale](*p.shape)), {"mean": mean, "square": None}


def orthogonalize(x: Tensor, iterations: int, eps: float) -> Tensor:
    """Return a matrix with the singular vectors of `x` and singular values near to 1."""
    a, b, c = _COEFFICIENTS
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    x = x / maximum((x * x).sum().sqrt(), eps)
    for _ in range(iterations):
        gram = x @ x.T
        x = x * a + (gram * b + (gram @ gram) * c) @ x
    return x if wide else x.T


@with_argument_checks
def muon(
    learning_rate: LearningRate = 1e-3, momentum: float = 0.95, nesterov: bool = True,
    weight_decay: float = 0.1, iterations: int = 5, eps: float = 1e-7, scale: str = "shape",
    betas: tuple[float, float] = (0.9, 0.999), mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> MuonRule:  # fmt: skip
    """Return Muon in functional form, with AdamW for parameters that are no matrices.

    For a matrix p of m rows and n columns, with the gradient g:

    - v = momentum * v + (1 - momentum) * g
    - d = momentum * v + (1 - momentum) * g if `nesterov`, else v
    - d = d / max(norm(d), eps), and then `iterations` times, with A = d d^T,
      d = 3.4445 d + (-4.775 A + 2.0315 A A) d
    - p = (1 - learning_rate * weight_decay) * p - learning_rate * s * d, where s is
      sqrt(max(1, m / n)) for the scale "shape", and 0.2 * sqrt(max(m, n)) for "rms", which makes
      steps as large as those of AdamW

    Parameters of other ranks are updated by `adamw` with the same learning rate, weight decay and
    `betas`. Use `partition` to choose other rules for embeddings and heads.

    >>> opt = pb.optim.muon(0.5, weight_decay=0.0)
    >>> w = pb.zeros((2, 2))
    >>> new, _ = opt.update(pb.tensor([[3.0, 0.0], [0.0, 2.0]]), opt.init(w), w)
    >>> bool((abs(new.diagonal() + 0.5) < 0.16).all())
    True
    """
    rate = rule_learning_rate("muon", learning_rate, lr, 1e-3)
    options = {"weight_decay": weight_decay, "mask": mask}
    return MuonRule(rate, momentum, nesterov, iterations, eps, scale, betas, **options)  # type: ignore[arg-type]


class Muon(Optimizer):
    """Muon as an object: see `muon` for the formula."""

    _name = "Muon"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-3, momentum: float = 0.95,
        nesterov: bool = True, weight_decay: float = 0.1, iterations: int = 5, eps: float = 1e-7,
        scale: str = "shape", betas: tuple[float, float] = (0.9, 0.999), mask: Mask = None, *,
        lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        options = weight_decay, iterations, eps, scale, betas, mask
        super().__init__(params, muon(learning_rate, momentum, nesterov, *options, lr=lr))
