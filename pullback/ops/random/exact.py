"""Functions of samples and parameters in f64, with the same bits in every engine."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import float64, int64
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.prelude import Node, Op, Type, batch_along, op_functions
from pullback.ops.random.sampler_formulas import (
    sampler_exp_formula,
    sampler_log_formula,
    sampler_minus_log_formula,
)
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.random.weighted_choice import Arrival
from pullback.ops.reduce.reductions import Sum
from pullback.ops.samples import positive, real, unit_samples
from pullback.ops.shape.squeeze_flip_axes import check_axes

(reciprocal,) = op_functions("Reciprocal")
TOP = 709.782712893384  # the exponential of more is infinite


class ExactFunction(Elementwise, abstract=True):
    """An elementwise formula of `stepwise` on f64 operands."""

    kinds = ""
    cheap = False
    infer = Arrival.infer  # type: ignore[assignment]

    @abstractmethod
    def formula(self, m: Any, *xs: Any) -> Any:
        """Return the value, for operands of the same shape."""

    def numpy(self, *xs: np.ndarray) -> np.ndarray:
        return np.asarray(self.formula(NUMPY, *np.broadcast_arrays(*xs)))

    def lower(self, b: Any, out: Type, *xs: Any) -> Any:
        return lifted_stepwise(b, self.formula, *xs, unbounded=True)


class ExactExp(ExactFunction):
    """The exponential; 0 below -700."""

    def formula(self, m: Any, *xs: Any) -> Any:
        (x,) = xs
        far = x > 600.0
        y = sampler_exp_formula(m, m.where(far, x - 64.0, x))
        y = m.where(far, m.where(far, y, 0.0) * math.exp(64.0), y)
        return m.where(x <= TOP, y, m.where(x > TOP, math.inf, x))  # NaN stays

    def partials(self, out: Node, x: Node) -> tuple:
        return (out,)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4),)
        yield cls(), (np.array(0.5),)
        yield cls(), (real(2, 0),)


class ExactLog(ExactFunction):
    """The logarithm; NaN for negative numbers, -inf below the least normal number."""

    singular = True

    def formula(self, m: Any, *xs: Any) -> Any:
        (x,) = xs
        inside = (x >= 2.0**-1022) & (x < math.inf)
        y = sampler_log_formula(m, m.where(inside, x, 1.0))
        outside = m.where(x < 0.0, math.nan, m.where(x < 1.0, -math.inf, x))  # NaN stays
        return m.where(inside, y, outside)

    def partials(self, out: Node, x: Node) -> tuple:
        return (reciprocal(x),)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(3, 4),)
        yield cls(), (np.array(0.5),)
        yield cls(), (real(2, 0),)


class FailureEnergy(ExactFunction):
    """-log(1 - p), also accurate where p is small; infinite where p = 1, NaN outside [0, 1]."""

    differentiable: ClassVar[bool] = False

    def formula(self, m: Any, *xs: Any) -> Any:
        (p,) = xs
        inside = m.where((p >= 0.0) & (p < 1.0), p, 0.0)
        y = m.where(p > 0.0, sampler_minus_log_formula(m, 1.0 - inside, inside), 0.0)
        y = m.where((p >= 1.0) & (p <= 1.0), math.inf, y)
        return m.where((p >= 0.0) & (p <= 1.0), y, math.nan)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), ((unit_samples(3, 4) + 1) / 2,)
        yield cls(), (np.array([0.0, 1e-300, 1e-9, 0.5, 1 - 2.0**-53, 1.0, 1.5, -1.0, np.nan]),)


class ExactSoftmax(Op):
    """exp(x) over its sum along `axis`, in f64; NaN where an element is NaN.

    The sum is that of 64-bit integers, so that its order does not count; the relative error is
    below 2**-60 times the number of elements.
    """

    axis: int
    batch = batch_along

    def infer(self, x: Type) -> Type:
        if x.dtype is not float64:
            raise DTypeError(f"operands must be f64, got {x}", code="E2005")
        check_axes((self.axis,), x.rank)
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        top = np.broadcast_to(x.max(self.axis, keepdims=True, initial=-np.inf), x.shape)
        weight, steps = _exact_weight(NUMPY, x, top, self._scale(x.shape))
        total = np.broadcast_to(steps.sum(self.axis, keepdims=True), x.shape)
        return np.asarray(_exact_quotient(NUMPY, weight, total, top, self._scale(x.shape)))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        kept = [i for i in range(out.rank) if i != self.axis]
        top = b.reduce("maximum", x, -math.inf, (self.axis,))
        top = b.broadcast_in_dim(top, out.shape, kept)
        scale = self._scale(out.shape)
        weight, steps = lifted_stepwise(
            b, lambda m, x, top: _exact_weight(m, x, top, scale), x, top
        )
        total = b.broadcast_in_dim(b.reduce("add", steps, 0, (self.axis,)), out.shape, kept)

        def quotient(m: Any, weight: Any, total: Any, top: Any) -> Any:
            return _exact_quotient(m, weight, total, top, scale)

        return lifted_stepwise(b, quotient, weight, total, top)

    def _scale(self, shape: tuple[int, ...]) -> float:
        """Return the number of steps in 1, so that sums fit into 63 bits."""
        return 2.0 ** (61 - shape[self.axis].bit_length())

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [out * (g - Sum((self.axis,), True)(g * out))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        t = ts[0]
        return None if t is None else out * (t - Sum((self.axis,), True)(t * out))

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, (self.axis,))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(7, low=-5, high=3),)
        yield cls(1), (real(2, 5, 3),)
        yield cls(0), (real(0, 2),)
        yield cls(1), (real(3, 1),)


def _exact_weight(m: Any, x: Any, top: Any, scale: float) -> tuple[Any, Any]:
    weight = sampler_exp_formula(m, m.where(x < top, x - top, 0.0))
    return weight, m.convert(weight * scale, int64)


def _exact_quotient(m: Any, weight: Any, total: Any, top: Any, scale: float) -> Any:
    sum = m.convert(m.where(total > 0, total, 1), float64) * (1 / scale)
    return m.where(top <= top, weight * (1.0 / sum), math.nan)
