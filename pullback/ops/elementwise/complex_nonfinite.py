"""Values of complex functions where a part of the operand is infinite or NaN.

C99 (and the array API standard with it) states them case by case. A case depends on the class of
each part: NaN, an infinity, a signed zero, or the sign of any other number; and where the function
turns with one of its parts, as exp(x + iy) does with y, on the quadrant that this part points to.
So a table with one representative of each class has all of them. NumPy computes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.graph.dtypes import bool_, dtype, int32
from pullback.graph.types import Type
from pullback.ops.hlo_instructions import hlo_lookup_instruction

if TYPE_CHECKING:
    from pullback.ops.elementwise.elementwise import Unary

NAN, MINUS_INFINITY, MINUS_ZERO, ZERO, INFINITY, POSITIVE, NEGATIVE = 0, 1, 2, 3, 4, 5, 9
# After POSITIVE and NEGATIVE one number in each quadrant, counted from 0 to 2 pi.
CLASSES = (np.nan, -np.inf, -0.0, 0.0, np.inf, 1.0, 2.0, 4.0, 5.0, -5.0, -4.0, -2.0, -1.0)


def with_complex_nonfinite_zero(b: Any, op: Unary, x: Any, value: Any) -> Any:
    """Return a complex `value` with the zeros of the part of `x` that `op.keeps`; XLA's lose their
    sign."""
    part = Type(x.shape, x.dtype.real)
    names = ("real", "imag")
    parts = {name: b.op(f"stablehlo.{name}", value, out=part) for name in names}
    kept = b.op(f"stablehlo.{op.keeps}", x, out=part)
    at_zero = b.compare("EQ", kept, b.full(part, 0))
    parts[op.keeps] = b.select(at_zero, kept, parts[op.keeps])
    return b.op("stablehlo.complex", *[parts[name] for name in names], out=value.type)


def with_complex_nonfinite(b: Any, op: Unary, x: Any, value: Any) -> Any:
    """Return a complex function's `value` where both parts of `x` are finite, else the table's."""
    part = Type(x.shape, x.dtype.real)
    parts = [b.op(f"stablehlo.{name}", x, out=part) for name in ("real", "imag")]
    finite = [b.op("stablehlo.is_finite", p, out=part.with_dtype(bool_)) for p in parts]
    both = b.op("stablehlo.and", *finite, out=part.with_dtype(bool_))
    turning = [op.turns == name for name in ("real", "imag")]
    row, column = (
        classify_complex_nonfinite(b, p, turns) for p, turns in zip(parts, turning, strict=True)
    )
    start = b.op("stablehlo.multiply", row, b.full(row.type, len(CLASSES)), out=row.type)
    index = b.op("stablehlo.add", start, column, out=row.type)
    listed = b.constant(complex_nonfinite_table(op, x.dtype.numpy).reshape(-1), value.dtype)
    return b.select(both, value, hlo_lookup_instruction(b, listed, index))


def complex_nonfinite_table(op: Unary, kind: np.dtype) -> np.ndarray:
    """Return the values for all pairs of classes: those of the real part in rows."""
    operands = np.empty((len(CLASSES), len(CLASSES)), kind)
    operands.real, operands.imag = np.array(CLASSES)[:, None], CLASSES
    with np.errstate(all="ignore"):
        return op.numpy(operands)


def with_complex_nonfinite_limit(value: np.ndarray, x: np.ndarray, part: str) -> np.ndarray:
    """Return a `value` of tan or tanh whose limit, where the other part of `x` is infinite, has the
    sign of `part`: the array API standard says so, C99 has the sign of the sine of twice the part.
    """
    if x.dtype.kind != "c":
        return value
    value, kept = value.copy(), getattr(x, part)
    far = np.isinf(x.imag if part == "real" else x.real) & np.isfinite(kept)
    setattr(value, part, np.where(far, np.copysign(0, kept), getattr(value, part)))
    return value


def classify_complex_nonfinite(b: Any, x: Any, turns: bool) -> Any:
    """Return each element's index into `CLASSES`."""
    out = x.type.with_dtype(int32)

    def number(value: int) -> Any:
        return b.full(out, value)

    def is_less(a: Any, c: Any) -> Any:
        return b.compare("LT", a, c)

    zero = b.full(x.type, 0)
    signed = dtype(f"i{x.dtype.bits}")
    bits = b.op("stablehlo.bitcast_convert", x, out=x.type.with_dtype(signed))
    minus = is_less(bits, b.full(bits.type, 0))
    found = b.select(minus, number(NEGATIVE), number(POSITIVE))
    if turns:
        sine, cosine = (b.op(f"stablehlo.{f}", x, out=x.type) for f in ("sine", "cosine"))
        left = is_less(cosine, zero)
        above = b.select(left, number(1), number(0))
        below = b.select(left, number(2), number(3))
        quadrant = b.select(is_less(sine, zero), below, above)
        found = b.op("stablehlo.add", found, quadrant, out=out)
    at_zero = b.select(minus, number(MINUS_ZERO), number(ZERO))
    at_infinity = b.select(minus, number(MINUS_INFINITY), number(INFINITY))
    size = b.op("stablehlo.abs", x, out=x.type)
    found = b.select(b.compare("EQ", x, zero), at_zero, found)
    found = b.select(b.compare("EQ", size, b.full(x.type, np.inf)), at_infinity, found)
    return b.select(b.compare("NE", x, x), number(NAN), found)
