"""Square and cube roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.ops.elementwise.elementwise import AnalyticElementwise, Transcendental
from pullback.ops.elementwise.float_bits import CopySign
from pullback.ops.elementwise.functions import guarded
from pullback.ops.prelude import Imported, Node, Type, op_functions

(reciprocal,) = op_functions("Reciprocal")


class Sqrt(AnalyticElementwise):
    """The square root; its real part is not negative."""

    ufunc = np.sqrt
    domain = (0.1, 4.0)
    singular = True
    imported = Imported(("sqrt",))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        root = b.op("stablehlo.sqrt", x, out=out)
        if not out.dtype.is_complex:
            return root
        # the imaginary part has the sign of x's, also where that is -0.0; XLA's has not
        part = out.with_dtype(out.dtype.real)
        parts = (("real", root), ("imag", root), ("imag", x))
        re, im, below = (b.op(f"stablehlo.{name}", z, out=part) for name, z in parts)
        return b.op("stablehlo.complex", re, CopySign().lower(b, part, im, below), out=out)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: 0.5 / out,)


class Rsqrt(AnalyticElementwise):
    """One divided by the square root."""

    stablehlo = "rsqrt"
    domain = (0.1, 4.0)
    singular = True

    def numpy(self, x: np.ndarray) -> np.ndarray:
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        return np.asarray(1 / np.sqrt(wide)).astype(x.dtype)

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: out / x * -0.5,)


class Cbrt(Transcendental):
    """The real cube root."""

    ufunc, stablehlo = np.cbrt, "cbrt"
    singular = True

    def partials(self, out: Node, x: Node) -> tuple:
        return (lambda: reciprocal(guarded(out, out) * 3),)
