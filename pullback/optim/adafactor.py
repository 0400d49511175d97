"""Adafactor: squared gradients as the product of a row and a column, which take little memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback.errors import DTypeError
from pullback.functions.arithmetic import maximum, minimum
from pullback.functions.data_types import finfo
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.dtypes import DType
from pullback.lazy.tensor import Tensor
from pullback.optim.optimizer import Optimizer
from pullback.optim.optimizer_states import Slots
from pullback.optim.parameter_trees import Mask, parameter_tree_slot
from pullback.optim.rules import StepValues, UpdateRule, rule_learning_rate
from pullback.optim.schedules import LearningRate


@dataclass(frozen=True)
class AdafactorRule(UpdateRule):
    """Steps relative to the size of the parameter, with factored squares of gradients."""

    beta2_decay: float = -0.8
    eps: float | None = None
    eps_scale: float = 1e-3
    clip: float = 1.0

    name = "adafactor"
    counts = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("eps_scale", "clip", *(["eps"] if self.eps is not None else []))

    @property
    def slots(self) -> dict[str, bool]:
        return {"row": True, "column": True, "square": True}

    def initial_slots(self, p: Tensor) -> Slots:
        if p.dtype.is_complex:
            raise DTypeError(f"adafactor: a parameter must be real, got {p._node.type}")
        if p.ndim < 2:
            return {"row": None, "column": None, "square": parameter_tree_slot(p)}
        return {
            "row": parameter_tree_slot(p, whole=-1),
            "column": parameter_tree_slot(p, whole=-2),
            "square": None,
        }

    def factors(self, count: Tensor | None, rate: Any, dtype: DType) -> Any:
        """Return the weight of the new squares, and the bound of the relative step."""
        assert count is not None
        steps = count.astype(dtype)
        return steps**self.beta2_decay, minimum(1.0 / steps.sqrt(), rate)

    def decayed(self, p: Tensor, g: Tensor, at: StepValues) -> tuple[Tensor, Tensor]:
        return p, g  # the size of the step is that of the parameter before it decays

    def change(self, p: Tensor, g: Tensor, slots: Slots, at: StepValues) -> tuple[Tensor, Slots]:
        weight, bound = at.factors
        if p.size == 0:
            return p, slots
        eps = finfo(p.dtype).eps if self.eps is None else self.eps
        step_size = maximum(_adafactor_root_mean_square(p), self.eps_scale) * bound
        if at.weight_decay:
            p = p - p * (at.rate * at.weight_decay)
        estimate, new = _adafactor_estimate(g * g, slots, weight, eps)
        step = g / maximum(estimate, eps * eps).sqrt()
        limit = maximum(_adafactor_root_mean_square(step) / self.clip, 1.0)
        return p - step * (step_size / limit), new


def _adafactor_root_mean_square(x: Tensor) -> Tensor:
    return (x * x).mean().sqrt()


def _adafactor_estimate(
    square: Tensor, slots: Slots, weight: Tensor, eps: float
) -> tuple[Tensor, Slots]:
    """Return the running mean of squared gradients, and the slots that it is computed from."""

    def moved(name: str, value: Tensor) -> Tensor:
        return slots[name] + (value - slots[name]) * weight

    if square.ndim < 2:
        new = moved("square", square)
        return new, {"row": None, "column": None, "square": new}
    row = moved("row", square.mean(axis=-1, keepdims=True))
    column = moved("column", square.mean(axis=-2, keepdims=True))
    estimate = row * column / maximum(row.mean(axis=-2, keepdims=True), eps)
    return estimate, {"row": row, "column": column, "square": None}


@with_argument_checks
def adafactor(
    learning_rate: LearningRate = 1e-2, beta2_decay: float = -0.8, eps: float | None = None,
    eps_scale: float = 1e-3, clip: float = 1.0, weight_decay: float = 0.0, mask: Mask = None, *,
    lr: LearningRate | None = None,
) -> AdafactorRule:  # fmt: skip
    """Return Adafactor in functional form.

    In step t, with w = t^beta2_decay, the gradient g, and rms(x) = sqrt(mean(x^2)):

    - a = max(eps_scale, rms(p)) * min(learning_rate, 1 / sqrt(t))
    - r = r + w * (mean of g^2 along rows - r); c = c + w * (mean of g^2 along columns - c);
      v = r c / max(mean(r), eps), over the last two axes
    - v = v + w * (g^2 - v) for vectors and scalars
    - d = g / sqrt(max(v, eps^2))
    - p = (1 - learning_rate * weight_decay) * p - a * d / max(1, rms(d) / clip)

    `eps` is by default the distance from 1 to the next number of the parameter's dtype (f32 for
    half precision). Parameters must be real.

    >>> opt = pb.optim.adafactor(0.5)
    >>> w = pb.tensor([4.0, -4.0])
    >>> opt.update(w, opt.init(w), w)[0].numpy().round(5).tolist()
    [2.0, -2.0]
    """
    rate = rule_learning_rate("adafactor", learning_rate, lr, 1e-2)
    options = {"weight_decay": weight_decay, "mask": mask}
    return AdafactorRule(rate, beta2_decay, eps, eps_scale, clip, **options)  # type: ignore[arg-type]


class Adafactor(Optimizer):
    """Adafactor as an object: see `adafactor` for the formula."""

    _name = "Adafactor"

    @with_argument_checks
    def __init__(
        self, params: object, learning_rate: LearningRate = 1e-2, beta2_decay: float = -0.8,
        eps: float | None = None, eps_scale: float = 1e-3, clip: float = 1.0,
        weight_decay: float = 0.0, mask: Mask = None, *, lr: LearningRate | None = None,
    ) -> None:  # fmt: skip
        options = beta2_decay, eps, eps_scale, clip, weight_decay, mask
        super().__init__(params, adafactor(learning_rate, *options, lr=lr))
