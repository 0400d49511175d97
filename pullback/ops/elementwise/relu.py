"""The rectifier and its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.graph import dtypes
from pullback.ops.elementwise.elementwise import Unary, zero_elementwise_partials
from pullback.ops.elementwise.functions import cast, greater, guarded, less
from pullback.ops.prelude import CORE, GRADIENT, TABLE, Node, Type


class Relu(Unary):
    """x where it is positive, else 0; NaN stays. The gradient is 0 at 0 and at NaN."""

    kinds = "iuf"
    text = CORE

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.where((x > 0) | (x != x), x, np.zeros((), x.dtype))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.maximum", x, b.full(out, 0), out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [guarded(Step()(xs[0]), g)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else guarded(Step()(xs[0]), ts[0])


class Step(Unary):
    """1 where x is positive, else 0, in x's element type; 0 at NaN. Its derivative is 0.

    XLA's CPU code takes subnormal floats for 0 when it compares them, but not their bits.
    """

    kinds = "iuf"
    text = GRADIENT
    partials = zero_elementwise_partials

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x > 0).astype(x.dtype)

    def expand(self, x: Node) -> Node:
        dtype = x.type.dtype
        if not dtype.is_float:
            return cast(greater(x, 0), dtype)
        unsigned = dtypes.dtype(f"u{dtype.bits}")
        infinity = int(np.asarray(np.inf, dtype.numpy).view(unsigned.numpy))
        below = TABLE["Bitcast"](unsigned)(x) - 1  # of 0.0 it is the largest integer
        return cast(less(below, infinity), dtype)
