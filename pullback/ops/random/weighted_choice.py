"""Ops of weighted choices. Outcomes do not depend on how an engine rounds."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import float64
from pullback.graph.types import show_types
from pullback.ops.elementwise.elementwise import Binary, check_elementwise_kind
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.prelude import Op, Type, batch_along, broadcast_types
from pullback.ops.random.sampler_formulas import sampler_exp_formula
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise
from pullback.ops.samples import positive, real
from pullback.ops.shape.squeeze_flip_axes import check_axes


class RelativeWeights(Op):
    """exp(x - max(x)) along `axis` in f64, with the same bits in every engine.

    If the maximum is infinite, elements equal to it have weight 1, all others 0. NaN has weight 0.
    """

    axis: int
    kinds = "f"
    differentiable: ClassVar[bool] = False
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        return x.with_dtype(float64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        x = np.nan_to_num(x.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        top = x.max(self.axis, keepdims=True, initial=-np.inf)
        return np.asarray(_weighted_choice_factor(NUMPY, x, np.broadcast_to(top, x.shape)))

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        x, least = b.convert(x, float64), b.full(out, -math.inf)
        x = b.select(b.compare("GE", x, least), x, least)
        top = b.reduce("maximum", x, -math.inf, (self.axis,))
        kept = [i for i in range(out.rank) if i != self.axis]
        return lifted_stepwise(
            b, _weighted_choice_factor, x, b.broadcast_in_dim(top, out.shape, kept)
        )

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, (self.axis,))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(7, low=-50, high=3),)
        yield cls(1), (real(2, 5, 3),)
        yield cls(0), (real(0, 2),)
        hard = np.array([[np.inf, 1, np.inf], [-np.inf] * 3, [np.nan, 0, -800], [0, -np.inf, 5]])
        yield cls(1), (hard,)


def _weighted_choice_factor(m: Any, x: Any, top: Any) -> Any:
    return sampler_exp_formula(m, m.where(x < top, x - top, 0.0))


class Arrival(Binary):
    """time / weight in f64, with the same bits in every engine."""

    kinds = ""
    differentiable: ClassVar[bool] = False

    def infer(self, *xs: Type) -> Type:
        if any(x.dtype is not float64 for x in xs):
            raise DTypeError(f"operands must be f64, got {show_types(xs)}", code="E2005")
        return Type(broadcast_types(*xs), float64)

    def numpy(self, time: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.asarray(time * (1.0 / weight))

    def lower(self, b: Any, out: Type, time: Any, weight: Any) -> Any:
        return lifted_stepwise(b, lambda m, t, w: t * (1.0 / w), time, weight, unbounded=True)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (positive(2, 4), np.array([0.0, 1e-300, 0.3, 1.0]))
