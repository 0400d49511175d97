"""Indices that are checked when the program runs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pullback.errors import IndexOutOfRange
from pullback.ops.elementwise.elementwise import Unary
from pullback.ops.index.bounds import require_below_bound
from pullback.ops.prelude import Type
from pullback.ops.samples import integer_samples


class CheckedIndex(Unary):
    """The indices themselves; one that is negative or not less than `limit` is an error.

    `message` replaces the error's own.
    """

    limit: int
    message: str = ""
    kinds = "iu"
    differentiable = False
    cheap = False
    fallible: ClassVar[bool] = True

    def numpy(self, x: np.ndarray) -> np.ndarray:
        wrong = x[(x < 0) | (x >= self.limit)]
        if wrong.size:
            raise self._error(int(wrong.flat[0]))
        return x

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if x.type.size:
            require_below_bound(b, x, self.limit, self._error)
        return x

    def _error(self, index: int | None = None) -> IndexOutOfRange:
        what = "an index" if index is None else f"index {index}"
        must = f"it must be at least 0 and less than {self.limit}"
        return IndexOutOfRange(self.message or f"{what} is out of range: {must}", index=index)

    @classmethod
    def samples(cls) -> Any:
        yield cls(4), (integer_samples(2, 3, high=4),)
        yield cls(9), (integer_samples(0, 2, high=4).astype(np.int32),)
        yield cls(3, "no such element"), (integer_samples(high=3),)
