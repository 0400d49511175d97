"""Complex numbers and their parts. Gradients are the direction of steepest ascent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.graph.dtypes import DType, complex64, complex128, float32, float64
from pullback.ops.elementwise.elementwise import Elementwise, Unary, check_elementwise_kind
from pullback.ops.helpers import batch_along, broadcast_types, jvp_in_first, op_functions
from pullback.ops.prelude import Composite, Imported, Node, Type, same_dtype, zeros
from pullback.ops.samples import complex_samples, real

(atan2,) = op_functions("Atan2")
COMPLEX_OF: dict[DType, DType] = {float32: complex64, float64: complex128}


class Conj(Unary):
    """The complex conjugate; a real operand is unchanged."""

    ufunc = np.conjugate
    jvp = jvp_in_first

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        if not x.dtype.is_complex:
            return x
        part = out.with_dtype(out.dtype.real)
        re, im = (b.op(f"stablehlo.{p}", x, out=part) for p in ("real", "imag"))
        return b.op("stablehlo.complex", re, b.op("stablehlo.negate", im, out=part), out=out)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.conjugate(x) if x.dtype.kind == "c" else x

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self(g)]


class ComplexPart(Unary, abstract=True):
    """A real number that is linear in the operand."""

    kinds = "biufc"
    jvp = jvp_in_first

    def result(self, dtype: DType) -> DType:
        return dtype.real


class Real(ComplexPart):
    """The real part; a real operand is unchanged."""

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x.real if x.dtype.kind == "c" else x

    imported = Imported(("real",))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.real", x, out=out) if x.dtype.is_complex else x

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [Complex()(g, zeros(g.type)) if xs[0].type.dtype.is_complex else g]


class Imag(ComplexPart):
    """The imaginary part; 0 for a real operand."""

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x.imag if x.dtype.kind == "c" else np.zeros_like(x)

    imported = Imported(("imag",))

    def lower(self, b: Any, out: Type, x: Any) -> Any:
        return b.op("stablehlo.imag", x, out=out) if x.dtype.is_complex else b.full(out, 0)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [Complex()(zeros(g.type), g) if xs[0].type.dtype.is_complex else None]


class Complex(Elementwise):
    """The complex number with the given real and imaginary parts, f32 or f64."""

    stablehlo = "complex"
    kinds = ""  # `infer` checks: not every float dtype has a complex one

    def infer(self, re: Type, im: Type) -> Type:
        dtype = same_dtype(self.title, re, im)
        if dtype not in COMPLEX_OF:
            raise DTypeError(f"needs f32 or f64 parts, got {dtype}", code="E2005")
        return Type(broadcast_types(re, im), COMPLEX_OF[dtype])

    def numpy(self, re: np.ndarray, im: np.ndarray) -> np.ndarray:
        re, im = np.broadcast_arrays(re, im)
        made = np.empty(re.shape, COMPLEX_OF[float32 if re.dtype == np.float32 else float64].numpy)
        made.real, made.imag = re, im  # a sum would lose the signs of zeros
        return made

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [part(g) if n else None for part, n in zip((Real(), Imag()), need, strict=True)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        if all(t is None for t in ts):
            return None
        return self(*[zeros(x.type) if t is None else t for x, t in zip(xs, ts, strict=True)])

    @classmethod
    def samples(cls) -> Any:
        for left, right in (((2, 3), (3,)), ((), ()), ((0, 2), (1,))):
            yield cls(), (real(*left), real(*right, salt=1))


class Angle(Composite):
    """The angle of a number in the complex plane, in (-pi, pi]; its gradient at 0 is 0."""

    kinds = "fc"
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        return x.with_dtype(x.dtype.real)

    def expand(self, x: Node) -> Node:
        return atan2(Imag()(x), Real()(x))

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(np.arctan2(Imag().numpy(x), Real().numpy(x)))

    @classmethod
    def samples(cls) -> Any:
        for x in (real(5), complex_samples(2, 3), complex_samples()):
            yield cls(), (x,)
