"""Scaled and shifted samples, with the same bits in every engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.graph.dtypes import dtype, float32
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.prelude import Node, Type
from pullback.ops.random.stepwise import lifted_stepwise
from pullback.ops.samples import real


class Affine(Elementwise):
    """x * scale + offset, rounded after the product and after the sum."""

    kinds = "f"
    half_as = float32

    def numpy(self, x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
        wide = self.computed_in(dtype(x.dtype)).numpy
        return np.asarray(x.astype(wide) * scale.astype(wide) + offset.astype(wide)).astype(x.dtype)

    def lower(self, b: Any, out: Type, *xs: Any) -> Any:
        return lifted_stepwise(
            b, lambda m, x, scale, offset: x * scale + offset, *xs, unbounded=True
        )

    def partials(self, out: Node, x: Node, scale: Node, offset: Node) -> tuple:
        return (scale, x, 1)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(2, 3), real(3, salt=1), real(salt=2))
        yield cls(), (real(4), real(salt=1), real(2, 1, salt=2))
