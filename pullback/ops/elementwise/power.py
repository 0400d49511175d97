"""Powers, with an operand or a fixed integer as exponent."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import float32
from pullback.ops.elementwise.elementwise import Binary, Unary
from pullback.ops.elementwise.functions import (
    both,
    equal,
    greater_equal,
    guarded,
    less,
    not_equal,
    where,
)
from pullback.ops.prelude import Imported, Node, Text, Type, constant_node, op_functions
from pullback.ops.samples import complex_samples, positive, real

log, bits_and = op_functions("Log", "BitwiseAnd")


class Pow(Binary):
    """x ** y.

    The derivative with respect to x is 0 for y = 0, and real for a negative base with an integral
    exponent; with respect to y it is 0 for x = 0 and y >= 0, and NaN for x < 0. An integer to a
    negative power is 0, unless it is 1 or -1.
    """

    domains = ((0.3, 2.0), (-2.0, 2.0))
    half_as = float32
    cheap = False
    singular = True
    imported = Imported(("power",))

    def numpy(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if x.dtype.kind != "i":
            # For a single exponent 0.5 NumPy takes the square root, which differs at -inf and -0.0.
            shape = np.broadcast_shapes(x.shape, y.shape)
            pairs = [np.array(np.broadcast_to(v, shape)).reshape(-1) for v in (x, y)]
            return np.power(*pairs).reshape(shape)
        one = np.ones((), x.dtype)
        units = np.where(x == 1, one, np.where(x == -1, one - 2 * (y & one), 0 * one))
        return np.where(y < 0, units, np.power(x, np.where(y < 0, 0 * one, y)))

    def expand(self, x: Node, y: Node) -> Node:
        """Square repeatedly, for integers: XLA's power reads only the exponent's low bits."""
        dtype = x.type.dtype
        power, square = constant_node(1, dtype), x
        for bit in range(dtype.bits - (dtype.kind == "i")):
            taken = not_equal(bits_and(y, 1 << bit), 0)
            power, square = where(taken, power * square, power), square * square
        if dtype.kind == "u":
            return power
        odd = not_equal(bits_and(y, 1), 0)
        # of all integers only 1 and -1 have a reciprocal
        units = where(equal(x, 1), x, where(equal(x, -1), where(odd, x, -x), 0))
        return where(less(y, 0), units, power)

    def lower(self, b: Any, out: Type, x: Any, y: Any) -> Any:
        if out.dtype.is_integer:
            return super().lower(b, out, x, y)
        power = b.op("stablehlo.power", x, y, out=out)
        if not out.dtype.is_complex:
            return power
        # XLA takes the logarithm of 0: 0 to a power with a positive real part is 0
        zero = b.full(out, 0)
        real_part = b.op("stablehlo.real", y, out=out.with_dtype(out.dtype.real))
        vanishes = b.compare("GT", real_part, b.full(real_part.type, 0))
        at_zero = b.op("stablehlo.and", b.compare("EQ", x, zero), vanishes, out=vanishes.type)
        return b.select(at_zero, zero, power)

    def partials(self, out: Node, x: Node, y: Node) -> tuple:
        return (lambda: guarded(y, self(x, y - 1)), lambda: guarded(out, self._log(x, y)))

    @staticmethod
    def _log(x: Node, y: Node) -> Node:
        """Return log x, but 0 at x = 0 where x ** y does not depend on y."""
        at_zero = equal(x, 0)
        if not x.type.dtype.is_complex:
            at_zero = both(at_zero, greater_equal(y, 0))
        return log(where(at_zero, 1, x))

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        bases = np.array([0, 1, -1, 2, -2, 1, -1, -1, 3, 7])
        yield cls(), (bases, np.array([0, 5, 5, 3, 3, -1, -1, -2, -1, 30]))
        yield cls(), (np.array([3, 0, 2], np.uint8), np.array([7, 0, 3], np.uint8))


class IntegerPow(Unary):
    """x ** exponent for a fixed integer, by multiplication, and a reciprocal if it is negative."""

    exponent: int
    title = "pow"
    half_as = float32
    text = Text(("exponent",))

    @property
    def singular(self) -> bool:
        return self.exponent < 0

    def infer(self, x: Type) -> Type:
        if self.exponent < 0 and x.dtype.is_integer:
            what = f"an integer has no power {self.exponent}, got {x}"
            raise DTypeError(what, code="E2005", hint="Cast it to a float first.")
        return super().infer(x)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        if x.dtype.kind in "iu":
            wide = np.power(x.astype(np.uint64), np.uint64(self.exponent))
            return wide.astype(x.dtype)  # arithmetic modulo 2**64 holds for every narrower type
        if x.dtype.kind == "c":
            return np.power(x, x.dtype.type(self.exponent))
        return np.power(x.astype(np.float64), float(self.exponent)).astype(x.dtype)

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        def times(a: Any, c: Any) -> Any:
            return c if a is one else b.op("stablehlo.multiply", a, c, out=out)

        one = power = b.full(out, 1)
        square, rest = x, abs(self.exponent)
        while rest:
            power = times(power, square) if rest & 1 else power
            rest >>= 1
            square = times(square, square) if rest else square
        return b.op("stablehlo.divide", one, power, out=out) if self.exponent < 0 else power

    def partials(self, out: Node, x: Node) -> tuple:
        n = self.exponent
        if n in (0, 1):
            return (1 if n else None,)
        return (lambda: (x if n == 2 else IntegerPow(n - 1)(x)) * n,)

    @classmethod
    def samples(cls) -> Any:
        for exponent in (3, 0, 1, 2, 5, 10):
            yield cls(exponent), (real(2, 3),)
        for exponent in (-1, -2, -3):
            yield cls(exponent), (positive(4),)
            yield cls(exponent), (complex_samples(3),)
