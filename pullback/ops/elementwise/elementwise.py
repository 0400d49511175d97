"""The elementwise family: operands broadcast, and partial derivatives are stated once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from pullback.errors import ArgumentError, DTypeError, GradientVerification, UnsupportedOp
from pullback.graph.ambient import thread
from pullback.graph.dtypes import DType, bool_, float32
from pullback.graph.graph import Graph
from pullback.graph.op_kinds import PerElementKind
from pullback.ops.elementwise.complex_nonfinite import (
    with_complex_nonfinite,
    with_complex_nonfinite_zero,
)
from pullback.ops.elementwise.functions import divided, guarded, where
from pullback.ops.helpers import Axis, broadcast_types, conjugate, same_dtype
from pullback.ops.prelude import TABLE, Node, Op, Type
from pullback.ops.samples import complex_samples, real

KINDS = {"b": "bool", "i": "signed integer", "u": "unsigned integer", "f": "float", "c": "complex"}


class Elementwise(Op, PerElementKind, abstract=True):
    """Operands broadcast; rules return gradients in the result's shape.

    An op states its meaning as `ufunc` (or `numpy`), its lowering as `stablehlo`, `expand` or
    `lower`, the `kinds` of dtypes it takes, and `partials`: for each operand `None` (zero), a
    number, a node, a bool node (1 where true), a quotient (`Over`), a choice (`Share`), or a
    function that returns one of these and is called only if the derivative is needed.
    """

    ufunc: ClassVar[Callable]
    stablehlo: ClassVar[str] = ""
    kinds: ClassVar[str] = "iufc"
    cheap = True
    singular: ClassVar[bool] = False  # the value or its derivative is infinite somewhere
    predicate: ClassVar[bool] = False  # the result is bool
    half_as: ClassVar[DType | None] = None  # the dtype in which f16 and bf16 are computed

    def result(self, dtype: DType) -> DType:
        """Return the result's dtype, given that of the operands."""
        return bool_ if self.predicate else dtype

    def infer(self, *xs: Type) -> Type:
        dtype = same_dtype(self.title, *xs)
        check_elementwise_kind(dtype, self.kinds)
        return Type(broadcast_types(*xs), self.result(dtype))

    def numpy(self, *xs: np.ndarray) -> np.ndarray:
        return np.asarray(type(self).ufunc(*xs))

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        xs = b.broadcast_all(xs, out.shape)
        wide = self.computed_in(out.dtype)
        if wide is out.dtype:
            return self.lower(b, out, *xs)
        made = self.lower(b, out.with_dtype(wide), *[b.convert(x, wide) for x in xs])
        return b.convert(made, out.dtype)

    def computed_in(self, dtype: DType) -> DType:
        """Return the dtype in which results of a dtype are computed."""
        return self.half_as if self.half_as and dtype.is_float and dtype.bits == 16 else dtype

    def lower(self, b: Any, out: Type, *xs: Any) -> Any:
        """Write StableHLO for operands of the same shape, in the dtype of the computation."""
        if self.stablehlo:
            return b.op(f"stablehlo.{self.stablehlo}", *xs, out=out)
        return self.lower_expansion(b, *xs)

    def lower_expansion(self, b: Any, *xs: Any) -> Any:
        """Write StableHLO for `expand`."""
        inputs = [TABLE["Input"](f"x{i}", x.shape, x.dtype)() for i, x in enumerate(xs)]
        return b.inline(Graph(inputs, (self.expand(*inputs),)), xs)[0]

    def expand(self, *xs: Node) -> Node:
        """Return the value in terms of ops that StableHLO has."""
        raise UnsupportedOp("has no StableHLO lowering", op=self.title)

    def partials(self, out: Node, *xs: Node) -> Sequence:
        """Return the partial derivative with respect to each operand, `None` for zero."""
        raise UnsupportedOp("has no partial derivatives", op=self.title)

    @classmethod
    def check_class(cls) -> None:
        """Refuse an op that states neither its derivative nor that it has none."""
        own_rules = cls.vjp is not Elementwise.vjp and cls.jvp is not Elementwise.jvp
        if cls.partials is Elementwise.partials and cls.differentiable and not own_rules:
            raise ArgumentError(
                f"{cls.name}: an elementwise op must define partials",
                hint="It returns one derivative for each operand, None for zero. If there is none, "
                "write\n`differentiable = False`.",
            )

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        partials = self._partials(out, xs)
        return [self._times(g, d, reverse=True) if n else None
                for d, n in zip(partials, need, strict=True)]  # fmt: skip

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        partials = self._partials(out, xs)
        terms = [self._times(t, d) for t, d in zip(ts, partials, strict=True) if t is not None]
        return elementwise_tangent_total(terms, out.type)

    def _partials(self, out: Node, xs: tuple[Node, ...]) -> Sequence:
        made = self.partials(out, *xs)
        if not isinstance(made, (tuple, list)) or len(made) != len(xs):
            what = f"partials must return a tuple of {len(xs)}, one for each operand, got {made!r}"
            raise GradientVerification(what, op=self.title, where=thread.where)
        return made

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        rank = max([len(x.type.shape) - has for x, has in zip(xs, mapped, strict=True)])
        return self(
            *[
                align_elementwise_operand(x, rank) if has else x
                for x, has in zip(xs, mapped, strict=True)
            ]
        )

    def factors(self, *xs: Type) -> str:
        return ", ".join(["..."] * len(xs)) + " -> ..."

    def _times(self, g: Node, d: Any, reverse: bool = False) -> Node | None:
        """Return g * d; in reverse mode d is conjugated, which transposes a complex derivative.

        A product with a partial that may be infinite, or that chooses, is 0 where one factor is 0,
        even if the other is infinite. So is every product of forward mode; reverse mode multiplies
        by a regular partial as it is.
        """
        if callable(d):
            d = d()
        if d is None:
            return None
        if isinstance(d, ElementwiseQuotient):
            product = self._times(g, d.above, reverse)
            return divided(product, conjugate(d.below) if reverse else d.below)
        if isinstance(d, ElementwiseShare):
            return where(d.whole, g, where(d.half, g * 0.5, 0))
        if not isinstance(d, Node):
            return g if d == 1 else -g if d == -1 else g * d
        if d.type.dtype is bool_:
            return where(d, g, 0)
        if reverse:
            d = conjugate(d)
        if not reverse:
            return guarded(d, g)
        # In x * log(x) the op is regular, but its partial log(x) is singular.
        return guarded(g, d) if self.singular or is_singular_elementwise(d.op) else g * d


def is_singular_elementwise(op: Op) -> bool:
    """Whether an op, or the one it stands for, is infinite somewhere or its derivative is."""
    return getattr(op, "singular", False)


def zero_elementwise_partials(self: Elementwise, out: Node, *xs: Node) -> tuple:
    """The `partials` of an op that is constant almost everywhere."""
    return (None,) * len(xs)


class ElementwiseQuotient(NamedTuple):
    """A partial derivative that is a quotient; a product with it takes one division."""

    above: Any
    below: Node


class ElementwiseShare(NamedTuple):
    """A partial derivative that is 1, 1/2 or 0. Nothing is multiplied by the 0: where an operand
    was not chosen, even an infinite cotangent leaves no trace."""

    whole: Node
    half: Node


class Unary(Elementwise, abstract=True):
    """One operand; samples are drawn from `domain`."""

    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)
    tabulated: ClassVar[bool] = False  # NumPy says the values at infinite and NaN complex operands
    turns: ClassVar[str] = ""  # the part ("real", "imag") of a complex operand that is an angle
    keeps: ClassVar[str] = ""  # the part that the result has too where it is 0 or -0.0

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        made = super().hlo(b, out, *xs)
        exact = b.literal and self.stablehlo  # StableHLO says what XLA does not do
        if xs[0].dtype.is_complex and not exact:
            made = with_complex_nonfinite_zero(b, self, xs[0], made) if self.keeps else made
            made = with_complex_nonfinite(b, self, xs[0], made) if self.tabulated else made
        return made

    @classmethod
    def samples(cls) -> Any:
        low, high = cls.domain
        for shape in ((), (7,), (2, 3), (2, 0)):
            yield cls(), (real(*shape, low=low, high=high),)
        if "c" in cls.kinds:
            yield cls(), (complex_samples(2, 3),)


class Binary(Elementwise, abstract=True):
    """Two operands; samples are drawn from `domains`."""

    domains: ClassVar[tuple[tuple[float, float], ...]] = ((-2.0, 2.0), (-2.0, 2.0))

    @classmethod
    def samples(cls) -> Any:
        (a, b), (c, d) = cls.domains
        shapes = (((), ()), ((2, 3), (2, 3)), ((4, 1, 3), (2, 1)), ((3,), ()), ((0, 2), (2,)))
        for left, right in shapes:
            yield cls(), (real(*left, low=a, high=b), real(*right, salt=1, low=c, high=d))
        if "c" in cls.kinds:
            yield cls(), (complex_samples(2, 3), complex_samples(3, salt=1))


class Transcendental(Unary, abstract=True):
    """A function whose values are rounded; 16-bit floats are computed in f32."""

    kinds = "f"
    cheap = False
    half_as = float32


class AnalyticElementwise(Transcendental, abstract=True):
    """A transcendental function that is defined for complex numbers too."""

    kinds = "fc"
    tabulated = True


def check_elementwise_kind(dtype: DType, kinds: str) -> None:
    """Raise if a dtype is not of one of the kinds."""
    if dtype.kind not in kinds:
        wanted = " or ".join(KINDS[k] for k in kinds)
        what = f"needs {wanted} elements, got {dtype}"
        raise DTypeError(what, code="E2005", dtype=dtype.name)


def align_elementwise_operand(x: Node, rank: int) -> Node:
    """Insert dimensions of size 1 after a mapped one, so that the operand broadcasts as before."""
    first, *rest = x.type.shape
    missing = rank - len(rest)
    return TABLE["Reshape"]((first, *[1] * missing, *rest))(x) if missing else x


def elementwise_tangent_total(terms: Sequence[Node | None], type: Type) -> Node | None:
    """Return the sum of a tangent's terms in the result's shape; `None` if there are none."""
    made: Node | None = None
    for term in terms:
        if term is not None:
            made = term if made is None else made + term
    if made is not None and made.type.shape != type.shape:
        made = TABLE["Broadcast"](type.shape)(made)
    return made
