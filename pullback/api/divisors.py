"""Greatest common divisors and least common multiples."""

from __future__ import annotations

from pullback.api.loops import while_loop
from pullback.errors import DTypeError
from pullback.functions.arguments import operator_operands
from pullback.functions.arithmetic import abs
from pullback.functions.reductions import any
from pullback.functions.shape import broadcast_arrays
from pullback.functions.where_take import where
from pullback.lazy.tensor import Tensor, wrap
from pullback.typing import ArrayLike


def gcd(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the greatest common divisor of integers, element by element; that of zeros is 0.

    >>> pb.gcd([12, -18, 0], 8).tolist()
    [4, 2, 8]
    """
    a, b = _divisor_operands("gcd", x1, x2)
    a, b = abs(a), abs(b)

    def shorter(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        a, b = pair
        return where(b == 0, a, b), where(b == 0, b, a % b)

    return while_loop(lambda pair: any(pair[1] != 0), shorter, (a, b))[0]


def lcm(x1: ArrayLike, x2: ArrayLike) -> Tensor:
    """Return the least common multiple of integers, element by element; 0 where one of them is.

    >>> pb.lcm([12, -18, 0], 8).tolist()
    [24, 72, 0]
    """
    a, b = _divisor_operands("lcm", x1, x2)
    common = gcd(a, b)
    return abs(a // where(common == 0, 1, common) * b)


def _divisor_operands(op: str, x1: ArrayLike, x2: ArrayLike) -> list[Tensor]:
    a, b = broadcast_arrays(*map(wrap, operator_operands(x1, x2)))
    if not a.dtype.is_integer:
        raise DTypeError(f"needs integers, got {a._node.type}", op=op)
    return [a, b]
