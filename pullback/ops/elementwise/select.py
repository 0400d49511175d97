"""Choosing between two values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import bool_
from pullback.ops.elementwise.elementwise import Elementwise
from pullback.ops.prelude import Imported, Node, Type, broadcast_types, same_dtype, zeros
from pullback.ops.samples import boolean_samples, complex_samples, real


class Where(Elementwise):
    """x where the condition holds, y elsewhere; the value not taken gets no gradient."""

    kinds = "biufc"
    imported = Imported(("select",))

    def infer(self, condition: Type, x: Type, y: Type) -> Type:
        if condition.dtype is not bool_:
            raise DTypeError(f"the condition must be bool, got {condition}", code="E2005")
        shape = broadcast_types(condition, x, y)
        return Type(shape, same_dtype(self.title, x, y))

    def numpy(self, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(condition, x, y)

    def lower(self, b: Any, out: Type, condition: Any, x: Any, y: Any) -> Any:
        return b.select(condition, x, y)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        zero = zeros(Type((), g.type.dtype))
        of_x = self(xs[0], g, zero) if need[1] else None
        return [None, of_x, self(xs[0], zero, g) if need[2] else None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if ts[1] is None and ts[2] is None:
            return None
        pair = [zeros(x.type) if t is None else t for x, t in zip(xs[1:], ts[1:], strict=True)]
        return self(xs[0], *pair)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (boolean_samples(2, 3), real(2, 3), real(3, salt=1))
        yield cls(), (boolean_samples(), real(3), real(salt=1))
        yield cls(), (boolean_samples(4, 1), real(), real(3, salt=1))
        yield cls(), (boolean_samples(3), complex_samples(3), complex_samples(salt=1))
        yield cls(), (boolean_samples(0, 3), real(3), real(0, 1))
