"""Indices that are checked where nothing is read or written by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import DTypeError, IndexOutOfRange
from pullback.ops.factor_rules import alike
from pullback.ops.index.bounds import in_range, out_of_range, require_below
from pullback.ops.prelude import Axis, Node, Op, Parts, Type
from pullback.ops.samples import integers


class CheckedIndex(Op):
    """The operand itself; an element below 0, or of at least `size`, is an error.

    `message` replaces the error's own.
    """

    size: int
    message: str = ""
    kinds: ClassVar[str] = "iu"
    differentiable: ClassVar[bool] = False
    fallible: ClassVar[bool] = True
    parts = Parts(positions=0)

    def infer(self, x: Type) -> Type:
        if not x.dtype.is_integer:
            raise DTypeError(f"indices must be integers, got {x}", code="E4011")
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        try:
            in_range([x], [0], (self.size,))
        except IndexOutOfRange:
            if self.message:
                raise self._own_error() from None
            raise
        return x

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if out.size:
            require_below(b, x, self.size, self._own_error)
        return x

    def _own_error(self) -> IndexOutOfRange:
        if self.message:
            return IndexOutOfRange(self.message, extent=self.size)
        return out_of_range(0, self.size)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    def factors(self, x: Type) -> str:
        return alike(x.rank, ())

    @classmethod
    def samples(cls) -> Any:
        yield cls(4), (integers(2, 3, high=4),)
        yield cls(9), (integers(5, high=9).astype(np.uint8),)
        yield cls(1, "there is no such element"), (np.int32(0),)
        yield cls(0), (integers(0, 2),)
