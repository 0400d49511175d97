"""The upper half of a product."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import dtype, uint32, uint64
from pullback.ops.elementwise.elementwise import Binary
from pullback.ops.prelude import Type
from pullback.ops.random.stepwise import NUMPY, lifted_stepwise, stepwise_bits


class MulHigh(Binary):
    """The upper half of the product of two unsigned integers.

    For b random bits r it is floor(r * n / 2**b), a random integer below n.
    """

    kinds = "u"
    commutative: ClassVar[bool] = True
    differentiable: ClassVar[bool] = False

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(_mul_high(NUMPY, x, y))

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        return lifted_stepwise(b, _mul_high, x, y)

    @classmethod
    def samples(cls) -> Any:
        for name in ("uint64", "uint32", "uint16", "uint8"):
            top = np.iinfo(name).max
            x = np.array([0, 1, 2, top // 3, top // 2, top - 1, top], name)
            yield cls(), (x[:, None], x)


def _mul_high(m: Any, x: Any, y: Any) -> Any:
    bits = stepwise_bits(x)
    if bits < 64:
        wide = uint32 if bits < 32 else uint64
        product = m.convert(x, wide) * m.convert(y, wide)
        return m.convert(product >> bits, dtype(f"u{bits}"))
    mask = 0xFFFFFFFF
    low, cross = (x & mask) * (y & mask), (x >> 32) * (y & mask)
    middle = (x & mask) * (y >> 32) + (cross & mask) + (low >> 32)
    return (x >> 32) * (y >> 32) + (cross >> 32) + (middle >> 32)
