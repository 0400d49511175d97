"""Discrete Fourier transforms of complex numbers, and of real numbers to and from half a spectrum.

All are linear, so forward mode applies the op to the tangent. Reverse mode applies the adjoint:
the conjugate of the transform's symmetric matrix, which is the transform in the other direction up
to a factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.graph.dtypes import int64
from pullback.ops.elementwise.complex_parts import COMPLEX_OF
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import either, equal, where
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.prelude import Imported, Node, Op, Text, Type, batch_along
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.squeeze_flip_axes import check_axes

MOST_AXES = 3  # that one instruction transforms


class Fourier(Op, abstract=True):
    """A transform over `axes`, normalised in the inverse direction only."""

    axes: tuple[int, ...]
    linear: ClassVar[bool] = True
    text = Text(("axes",))
    imported = Imported(("fft",))
    batch = batch_along

    def factors(self, x: Type) -> str:
        return alike_factor_rule(x.rank, tuple(sorted(self.axes)))

    def check_transformed(self, x: Type) -> None:
        """Raise unless all axes exist and have elements."""
        check_axes(self.axes, x.rank)
        if not self.axes:
            raise ArgumentError("needs at least one axis")
        for axis in self.axes:
            if not x.shape[axis]:
                raise ShapeError(f"axis {axis} has no elements to transform in {x}")


class Fft(Fourier):
    """The discrete Fourier transform over `axes`, or its inverse."""

    inverse: bool = False
    kinds: ClassVar[str] = "c"

    def __post_init__(self) -> None:
        self.set("axes", tuple(sorted(map(int, self.axes))))

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        kind = _fourier_type(i)
        return (
            cls(_fourier_transformed_last(i), kind == "IFFT") if kind in ("FFT", "IFFT") else None
        )

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        self.check_transformed(x)
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        transform = np.fft.ifftn if self.inverse else np.fft.fftn
        return transform(x, axes=self.axes).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return lower_fourier(b, "IFFT" if self.inverse else "FFT", x, self.axes)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        size = math.prod(g.type.shape[i] for i in self.axes)
        scale = 1 / size if self.inverse else size
        return [Fft(self.axes, not self.inverse)(g) * scale]

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,)), (complex_samples(5),)
        yield cls((0, 2), True), (complex_samples(2, 3, 4),)
        yield cls((1, 2, 3, 4)), (complex_samples(2, 1, 3, 2, 4),)
        yield cls((0,), True), (complex_samples(6, 2),)
        yield cls((1,)), (complex_samples(0, 3),)
        yield cls((0, 1)), (complex_samples(1, 1),)


class Rfft(Fourier):
    """The Fourier transform of real numbers, without the half of the last axis of `axes` that
    follows by symmetry."""

    def infer(self, x: Type) -> Type:
        if x.dtype not in COMPLEX_OF:
            raise DTypeError(f"needs f32 or f64, got {x}", code="E2005")
        self.check_transformed(x)
        shape = list(x.shape)
        shape[self.axes[-1]] = shape[self.axes[-1]] // 2 + 1
        return Type(tuple(shape), COMPLEX_OF[x.dtype])

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        return cls(_fourier_transformed_last(i)) if _fourier_type(i) == "RFFT" else None

    def numpy(self, x: np.ndarray) -> np.ndarray:
        made = np.fft.rfftn(x, axes=self.axes)
        return made.astype(np.complex64 if x.dtype == np.float32 else np.complex128)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        *others, _ = self.axes
        joint = len(self.axes) <= MOST_AXES
        half = lower_fourier(b, "RFFT", x, self.axes if joint else self.axes[-1:], out.dtype)
        return half if joint else lower_fourier(b, "FFT", half, others)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        # The inverse adds each coefficient and its conjugate, the adjoint only the coefficient;
        # halves of what has no partner are doubled to make up for the factor 1/2.
        size = math.prod(xs[0].type.shape[i] for i in self.axes)
        last = self.axes[-1]
        length = xs[0].type.shape[last]
        balanced = where(_fourier_self_conjugate(g.type, last, length), g + g, g)
        return [Irfft(self.axes, length)(balanced) * (size / 2)]

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,)), (real(5),)
        yield cls((2, 0)), (real(4, 3, 3),)
        yield cls((1, 2, 3, 4)), (real(2, 1, 3, 2, 4),)
        yield cls((1,)), (real(2, 6),)
        yield cls((1,)), (real(0, 3),)
        yield cls((1,)), (real(3, 1),)


class Irfft(Fourier):
    """The inverse of `Rfft`: `length` real numbers along the last axis of `axes`.

    Imaginary parts of coefficients that are their own conjugates have no effect.
    """

    length: int
    kinds: ClassVar[str] = "c"

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        self.check_transformed(x)
        last = self.axes[-1]
        if self.length < 1 or x.shape[last] != self.length // 2 + 1:
            what = f"{self.length} real numbers have {self.length // 2 + 1} coefficients"
            raise ShapeError(f"{what}, got {x.shape[last]} along axis {last} of {x}")
        shape = list(x.shape)
        shape[last] = self.length
        return Type(tuple(shape), x.dtype.real)

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        return (
            cls(_fourier_transformed_last(i), i["fft_length"][-1])
            if _fourier_type(i) == "IRFFT"
            else None
        )

    def numpy(self, x: np.ndarray) -> np.ndarray:
        sizes = [*[x.shape[i] for i in self.axes[:-1]], self.length]
        made = np.fft.irfftn(x, s=sizes, axes=self.axes)
        return made.astype(np.float32 if x.dtype == np.complex64 else np.float64)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if b.platform == "cpu" and len(self.axes) <= MOST_AXES:
            return lower_fourier(b, "IRFFT", x, self.axes, out.dtype, self.length)
        *others, last = self.axes
        if others:
            x = lower_fourier(b, "IFFT", x, others)
        if b.platform != "cpu":
            x = _fourier_without_imaginary(b, x, last, self.length)
        return lower_fourier(b, "IRFFT", x, (last,), out.dtype, self.length)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        # Twice the coefficients that stand for themselves and their conjugates.
        last = self.axes[-1]
        size = math.prod(g.type.shape[i] for i in self.axes)
        half = Rfft(self.axes)(g * (1 / size))
        return [where(_fourier_self_conjugate(half.type, last, self.length), half, half + half)]

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,), 5), (complex_samples(3),)
        yield cls((2, 0), 4), (complex_samples(3, 2, 3),)
        yield cls((1, 2, 3, 4), 3), (complex_samples(2, 1, 3, 2, 2),)
        yield cls((1,), 4), (complex_samples(2, 3),)
        yield cls((1,), 3), (complex_samples(0, 2),)
        yield cls((0,), 1), (complex_samples(1, 2),)
        yield cls((1,), 2), (complex_samples(2, 2),)


def _fourier_self_conjugate(type: Type, axis: int, length: int) -> Node:
    """Whether a coefficient is its own conjugate: the first, and the last of an even length."""
    shape = tuple(n if i == axis else 1 for i, n in enumerate(type.shape))
    k = Iota(shape, axis, int64)()
    return either(equal(k, 0), equal(k + k, length))


def _fourier_without_imaginary(b: Any, x: Any, axis: int, length: int) -> Any:
    """Coefficients as cuFFT needs them: those that are their own conjugates are real."""
    k = b.iota(x.shape, int64, axis)
    own = {0, length // 2} if length % 2 == 0 else {0}
    ends = [b.compare("EQ", k, b.full(k.type, n)) for n in sorted(own)]
    end = ends[0] if len(ends) == 1 else b.op("stablehlo.or", *ends, out=ends[0].type)
    part = x.type.with_dtype(x.dtype.real)
    re, im = (b.op(f"stablehlo.{p}", x, out=part) for p in ("real", "imag"))
    return b.op("stablehlo.complex", re, b.select(end, b.full(part, 0), im), out=x.type)


def lower_fourier(
    b: Any, kind: str, x: Any, axes: Sequence[int], dtype: Any = None, length: int | None = None
) -> Any:
    """The instruction on any axes: they are moved to the end, up to three at a time."""
    groups = [tuple(axes[i : i + MOST_AXES]) for i in range(0, len(axes), MOST_AXES)]
    for group in groups:
        rank = len(x.shape)
        perm = (*[i for i in range(rank) if i not in group], *group)
        back = tuple([perm.index(i) for i in range(rank)])
        x = _fourier_moved(
            b,
            _fourier_of_last(b, kind, _fourier_moved(b, x, perm), len(group), dtype, length),
            back,
        )
    return x


def _fourier_moved(b: Any, x: Any, perm: tuple[int, ...]) -> Any:
    return x if perm == tuple(range(len(perm))) else b.transpose(x, perm)


def _fourier_of_last(b: Any, kind: str, x: Any, count: int, dtype: Any, length: int | None) -> Any:
    sizes = [*x.shape[-count:]]
    shape = [*x.shape]
    if kind == "RFFT":
        shape[-1] = sizes[-1] // 2 + 1
    elif length is not None:
        sizes[-1] = shape[-1] = length
    out = Type(tuple(shape), dtype or x.dtype)
    if 0 in shape:
        return b.full(out, 0)
    return b.op(
        "stablehlo.fft", x, out=out, fft_type=f"#stablehlo<fft_type {kind}>",
        fft_length=tuple(sizes),
    )  # fmt: skip


def _fourier_type(i: Any) -> str:
    return i["fft_type"]


def _fourier_transformed_last(i: Any) -> tuple[int, ...]:
    rank = i.types[0].rank
    return tuple(range(rank - len(i["fft_length"]), rank))
