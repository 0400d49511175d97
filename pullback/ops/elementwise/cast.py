"""Conversion to another dtype: by value, and by bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError, UnsupportedOp
from pullback.graph import dtypes
from pullback.graph.ambient import thread
from pullback.graph.dtypes import DType, bool_
from pullback.graph.op_kinds import PerElementKind
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.prelude import Axis, Imported, Node, Op, Text, Type
from pullback.ops.samples import boolean_samples, complex_samples, integer_samples, real


class CastLike(Op, abstract=True):
    """Converts each element to `dtype`."""

    dtype: DType
    text = Text(("dtype",))
    factors = fixed_factor_rule("... -> ...")

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.types[0].dtype)

    def infer(self, x: Type) -> Type:
        return x.with_dtype(self.dtype)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(xs[0])


class Cast(CastLike, PerElementKind):
    """The same values in another element type.

    Floats become integers by dropping the fraction; those out of range become the nearest bound,
    and NaN becomes 0. Everything but 0 becomes true. A complex number loses its imaginary part,
    except in a conversion to bool. Numbers are rounded to f16 once, and to bf16 through f32.
    """

    kinds = "biufc"
    imported = Imported(("convert",))

    def numpy(self, x: np.ndarray) -> np.ndarray:
        if self.dtype is bool_:
            return np.asarray(x != 0)
        if x.dtype.kind == "c" and not self.dtype.is_complex:
            x = x.real
        if self.dtype.is_integer and x.dtype.kind not in "biu":
            return saturated_cast(x, self.dtype.numpy)
        if self.dtype is dtypes.bfloat16 and x.dtype.kind in "iuf":
            x = x.astype(np.float32)  # as ml_dtypes does today, and engines always
        return np.asarray(x).astype(self.dtype.numpy)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if x.dtype is out.dtype:
            return x
        if out.dtype is bool_:
            return b.compare("NE", x, b.full(x.type, 0))
        if x.dtype.is_complex and not out.dtype.is_complex:
            x = b.op("stablehlo.real", x, out=Type(x.shape, x.dtype.real))
        return b.convert(x, out.dtype)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        back = xs[0].type.dtype
        return [Cast(back)(g) if back.is_inexact else None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return self(ts[0]) if ts[0] is not None and self.dtype.is_inexact else None

    @classmethod
    def samples(cls) -> Any:
        hard = np.array([np.nan, np.inf, -np.inf, 6e4, -6e4, 300.7, -300.7, 2.5, -1.5, 0.0])
        for dtype in (dtypes.float64, dtypes.complex128):
            yield cls(dtype), (real(2, 3),)
            yield cls(dtype), (complex_samples(3),)
        for dtype in dtypes.ALL:
            yield cls(dtype), (integer_samples(2, 3, low=-200, high=400),)
            yield cls(dtype), (boolean_samples(4),)
            yield cls(dtype), (real(4).astype(dtypes.bfloat16.numpy),)
            if not dtype.is_inexact:
                for source in (np.float16, np.float32, np.float64):
                    yield cls(dtype), (hard.astype(source),)


def saturated_cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert floats to integers, clamped to the integers' range."""
    bounds = np.iinfo(dtype)
    wide = np.trunc(x.astype(np.float64))
    low, above = wide < float(bounds.min), wide >= 2.0 ** int(bounds.max).bit_length()
    inside = np.where(low | above | np.isnan(wide), 0.0, wide).astype(dtype)
    return np.where(above, dtype.type(bounds.max), np.where(low, dtype.type(bounds.min), inside))


class Bitcast(CastLike):
    """The same bits read as another element type of the same width. Integers carry no derivative;
    between different float types there is none, and asking for it is an error."""

    imported = Imported(("bitcast_convert",))

    def infer(self, x: Type) -> Type:
        if x.dtype is not self.dtype:
            for dtype in (x.dtype, self.dtype):
                if dtype.kind in "bc":
                    raise DTypeError(f"needs integer or float elements, got {dtype}", code="E2005")
        if x.dtype.bits != self.dtype.bits:
            what = f"dtypes must have the same width, got {x.dtype} ({x.dtype.bits} bits)"
            raise DTypeError(f"{what} to {self.dtype} ({self.dtype.bits} bits)", code="E2005")
        return super().infer(x)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(x).reshape(np.shape(x)).view(self.dtype.numpy)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return x if x.dtype is out.dtype else b.op("stablehlo.bitcast_convert", x, out=out)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self._carried(g, xs[0])]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self._carried(ts[0], xs[0])

    def _carried(self, t: Node, x: Node) -> Node | None:
        """Return a tangent or cotangent unchanged, if the types of operand and result are equal."""
        source = x.type.dtype
        if source is self.dtype:
            return t
        if source.is_inexact and self.dtype.is_inexact:
            raise UnsupportedOp(
                f"reading the bits of {source} as {self.dtype} has no derivative",
                op=self.title, where=thread.where,
                hint="Use pb.astype to convert values, or pb.stop_gradient if it is a constant.",
            )  # fmt: skip
        return None

    @classmethod
    def samples(cls) -> Any:
        yield cls(dtypes.uint64), (real(2, 3),)
        yield cls(dtypes.int64), (real(),)
        yield cls(dtypes.int32), (real(3).astype(np.float32),)
        yield cls(dtypes.float16), (integer_samples(4, high=30000).astype(np.uint16),)
        yield cls(dtypes.bfloat16), (integer_samples(4, high=30000).astype(np.int16),)
        yield cls(dtypes.uint8), (integer_samples(0, 3).astype(np.int8),)
        yield cls(dtypes.float64), (real(2, 3),)
