"""The matrix exponential, by scaling and squaring with a Pade approximant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.graph.dtypes import DType, float32, int32, int64
from pullback.graph.graph import Graph
from pullback.ops.elementwise.functions import both, cast, greater, less, where
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.helpers import op_functions
from pullback.ops.linalg.contraction import adjoint
from pullback.ops.linalg.lu_solve_inverse import Solve
from pullback.ops.linalg.matmul_dot import MatMul
from pullback.ops.linalg.matrix_kernel import check_matrix_kernel_operands
from pullback.ops.linalg.triangles_hermitian import eye_like
from pullback.ops.prelude import Axis, Node, Op, Type, zeros
from pullback.ops.reduce.extrema import Max
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.concat_pad import Concat
from pullback.ops.shape.slicing import Slice
from pullback.ops.sources import Input
from pullback.ops.wrap.identity import StopGradient

(absolute,) = op_functions("Abs")


class MatrixExponentialPade(NamedTuple):
    """A diagonal Pade approximant of the exponential function for a floating-point format."""

    coefficients: tuple[float, ...]  # of the numerator; the denominator's alternate in sign
    largest: float  # 1-norm of matrices for which it is accurate
    mantissa: int  # bits
    bias: int  # of exponents


# Higham, "The scaling and squaring method for the matrix exponential revisited" (2005)
_SEVEN = (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)
_THIRTEEN = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
SINGLE = MatrixExponentialPade(tuple(c / _SEVEN[0] for c in _SEVEN), 3.925724783138660, 23, 127)
DOUBLE = MatrixExponentialPade(
    tuple(c / _THIRTEEN[0] for c in _THIRTEEN), 5.371920351148152, 52, 1023
)


def _exponential_approximant(dtype: DType) -> MatrixExponentialPade:
    return SINGLE if dtype.real is float32 else DOUBLE


class MatrixExp(Op):
    """The exponential of square matrices: the sum of their powers x^k / k!.

    The derivative in a direction is a block of the exponential of a matrix of twice the size, and
    that of the adjoint matrix is the adjoint of the derivative: rules that hold at every order.
    """

    title = "expm"
    factors = fixed_factor_rule("... _ _ -> ... _ _")

    def infer(self, x: Type) -> Type:
        check_matrix_kernel_operands(self, x, square=True)
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        if not x.size:
            return x
        approximant = SINGLE if x.dtype in (np.float32, np.complex64) else DOUBLE
        norm = np.abs(x).sum(axis=-2).max(axis=-1)
        kept = np.where(np.isfinite(norm), norm, 0)
        limit = approximant.bias - 4
        times = np.clip(np.frexp(kept / approximant.largest)[1], 0, limit)[..., None, None]
        result = _exponential_of_scaled(np.ldexp(kept.dtype.type(1), -times) * x, approximant)
        for i in range(times.max(initial=0)):
            result = np.where(i < times, result @ result, result)
        return result.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        if 0 in x.shape:
            return x
        times, scale = _lower_exponential_scaling(b, x)
        scale = b.broadcast(b.convert(scale, x.dtype), x.shape)
        scaled = b.op("stablehlo.multiply", x, scale, out=out)
        (start,) = b.inline(_exponential_graph(out), [scaled])
        count = b.reduce("maximum", times, 0, range(len(times.shape)))
        square = Graph([z := Input("x", out.shape, out.dtype)()], [MatMul()(z, z)])

        def step(i: Any, result: Any) -> list[Any]:
            active = b.compare("LT", b.broadcast(i, times.shape), times)
            (squared,) = b.inline(square, [result])
            following = b.op("stablehlo.add", i, b.constant(1, int64), out=i.type)
            return [following, b.select(b.broadcast(active, out.shape), squared, result)]

        state = (b.constant(0, int64), start)
        return b.loop(state, lambda i, _: b.compare("LT", i, count), step)[1]

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [_exponential_derivative(adjoint(xs[0]), g)]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else _exponential_derivative(xs[0], ts[0])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        for x in (4 * real(2, 3, 3), complex_samples(2, 2), real(0, 0), real(0, 2, 2)):
            yield cls(), (x,)


def _exponential_derivative(x: Node, direction: Node) -> Node:
    """Return the derivative of the exponential at x in a direction.

    The direction is divided by its largest element, which is multiplied in the end: it must not
    decide how often the block matrix is squared.
    """
    n, rank = x.type.shape[-1], x.type.rank
    if 0 in x.type.shape:
        return direction
    size = Max((rank - 2, rank - 1), True)(absolute(StopGradient()(direction)))
    size = cast(where(both(greater(size, 0), less(size, np.inf)), size, 1), x.type.dtype)
    upper = Concat(rank - 1)(x, direction / size)
    lower = Concat(rank - 1)(zeros(x.type), x)
    whole = MatrixExp()(Concat(rank - 2)(upper, lower))
    lead = x.type.shape[:-2]
    starts, stops = (*(0,) * (rank - 1), n), (*lead, n, 2 * n)
    return Slice(starts, stops, (1,) * rank)(whole) * size


def _exponential_of_scaled(x: Any, approximant: MatrixExponentialPade) -> np.ndarray:
    eye = np.eye(x.shape[-1], dtype=x.dtype)
    odd, even = _exponential_pade(approximant.coefficients, x, eye, lambda y, z: y @ z)
    return np.linalg.solve(even - odd, even + odd)


def _exponential_graph(type: Type) -> Graph:
    x = Input("x", type.shape, type.dtype)()
    coefficients = _exponential_approximant(type.dtype).coefficients
    odd, even = _exponential_pade(coefficients, x, eye_like(type), MatMul())
    return Graph([x], [Solve()(even - odd, even + odd)])


def _exponential_pade(c: Sequence[float], x: Any, eye: Any, product: Any) -> tuple[Any, Any]:
    """Return the odd and the even part of the numerator of degree 7 or 13, for arrays or nodes."""
    x2 = product(x, x)
    x4 = product(x2, x2)
    x6 = product(x4, x2)
    odd = x6 * c[7] + x4 * c[5] + x2 * c[3] + eye * c[1]
    even = x6 * c[6] + x4 * c[4] + x2 * c[2] + eye * c[0]
    if len(c) > 8:
        odd = odd + product(x6, x6 * c[13] + x4 * c[11] + x2 * c[9])
        even = even + product(x6, x6 * c[12] + x4 * c[10] + x2 * c[8])
    return product(x, odd), even


def _lower_exponential_scaling(b: Any, x: Any) -> tuple[Any, Any]:
    """Write how often each matrix is halved, i64[..., 1, 1], and the power of 2 that does it.

    The exponents of floats are bits of them, so that the power is exact.
    """
    a, part = _exponential_approximant(x.dtype), x.dtype.real
    word = int64 if part.bits == 64 else int32
    rank = len(x.shape)
    sizes = b.op("stablehlo.abs", x, out=x.type.with_dtype(part))
    norm = b.reduce("maximum", b.reduce("add", sizes, 0, (rank - 2,)), 0, (rank - 2,))
    norm = b.reshape(norm, (*x.shape[:-2], 1, 1))
    ratio = b.op("stablehlo.multiply", norm, b.full(norm.type, 1 / a.largest), out=norm.type)
    bits = b.op("stablehlo.bitcast_convert", ratio, out=norm.type.with_dtype(word))

    def whole(name: str, left: Any, right: int) -> Any:
        return b.op(f"stablehlo.{name}", left, b.full(bits.type, right), out=bits.type)

    exponent = whole("shift_right_logical", bits, a.mantissa)
    finite = b.compare("LT", exponent, b.full(bits.type, 2 * a.bias + 1))
    times = whole("maximum", whole("subtract", exponent, a.bias - 1), 0)
    times = b.select(finite, whole("minimum", times, a.bias - 4), b.full(bits.type, 0))
    left = b.op("stablehlo.subtract", b.full(bits.type, a.bias), times, out=bits.type)
    power = whole("shift_left", left, a.mantissa)
    return b.convert(times, int64), b.op("stablehlo.bitcast_convert", power, out=norm.type)
