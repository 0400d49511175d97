"""Extremes: the largest and the smallest element over axes, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import DType, int64
from pullback.ops.elementwise.base import check_kind, either, equal, not_equal, where
from pullback.ops.factor_rules import named, rule
from pullback.ops.parts import Parts
from pullback.ops.prelude import TABLE, Expandable, Node, Type, batch_along, constant, zeros
from pullback.ops.reduce.reductions import Reduction, Sum, accumulator, cast, check_axes, widened
from pullback.ops.samples import real


class Extreme(Reduction, abstract=True):
    """The largest or smallest element over axes; NaN wins, and ties share the gradient equally."""

    kinds = "biuf"
    stablehlo: ClassVar[str]
    ufunc: ClassVar[np.ufunc]

    def infer(self, x: Type) -> Type:
        out = super().infer(x)
        require_elements(x, self.axes)
        return out

    def numpy(self, x: np.ndarray) -> np.ndarray:
        made = type(self).ufunc.reduce(widened(x), axis=self.axes, keepdims=self.keepdims)
        return np.asarray(made).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        made = b.reduce(self.stablehlo, x, self.identity(x.dtype), self.axes)
        if x.dtype.is_float:
            # XLA's CPU kernels for this reduction lose NaN (jaxlib 0.10 to 0.12)
            found = b.reduce("or", b.compare("NE", x, x), False, self.axes)
            made = b.select(found, b.full(made.type, np.nan), made)
        return b.reshape(made, out.shape)

    @classmethod
    def identity(cls, dtype: DType) -> Any:
        """The element that every other one replaces."""
        low, high = bounds(dtype)
        return low if cls.stablehlo == "maximum" else high

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x = xs[0]
        chosen, ties = self.chosen(out, x)
        wide = accumulator(x.type.dtype)
        share = cast(cast(g, wide) / cast(ties, wide), x.type.dtype)
        return [TABLE["Where"]()(chosen, self.spread(share, x.type), zeros(x.type))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        x = xs[0]
        chosen, ties = self.chosen(out, x)
        wide = accumulator(x.type.dtype)
        picked = TABLE["Where"]()(chosen, cast(ts[0], wide), zeros(x.type.with_dtype(wide)))
        return cast(Sum(self.axes, self.keepdims)(picked) / cast(ties, wide), x.type.dtype)

    def chosen(self, out: Node, x: Node) -> tuple[Node, Node]:
        """Which elements are the extreme one, and how many: in integers, which are exact."""
        y = self.spread(out, x.type)
        same = TABLE["Equal"]()(x, y)
        chosen = TABLE["LogicalOr"]()(same, TABLE["NotEqual"]()(x, x))
        return chosen, Sum(self.axes, self.keepdims)(cast(chosen, int64))

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls((0,), True), (np.array([2, 7, 7, 1], np.uint8),)


class Max(Extreme):
    """The largest element over axes."""

    stablehlo = "maximum"
    ufunc = np.maximum
    parts = Parts(combine="max")


class Min(Extreme):
    """The smallest element over axes."""

    stablehlo = "minimum"
    ufunc = np.minimum
    parts = Parts(combine="min")


class ArgExtreme(Expandable, abstract=True):
    """The index (i64) of the extreme along an axis, which is removed.

    Of equal elements the first is taken; the first NaN wins over every number.
    """

    axis: int
    kinds: ClassVar[str] = "biuf"
    differentiable: ClassVar[bool] = False
    of: ClassVar[type[Extreme]]
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        require_elements(x, (self.axis,))
        return Type(x.shape[: self.axis] + x.shape[self.axis + 1 :], int64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        find = np.argmax if self.of is Max else np.argmin
        return np.asarray(find(widened(x), self.axis), np.int64)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        """One reduction over pairs of an element and its index."""

        def better(v: Any, i: Any, w: Any, j: Any) -> list:
            beats = b.compare("GT" if self.of is Max else "LT", v, w)
            same = b.compare("EQ", v, w)
            if v.dtype.is_float:
                nan, other = b.compare("NE", v, v), b.compare("NE", w, w)
                wins = b.op("stablehlo.and", nan, b.compare("EQ", w, w), out=nan.type)
                beats = b.op("stablehlo.or", beats, wins, out=nan.type)
                both = b.op("stablehlo.and", nan, other, out=nan.type)
                same = b.op("stablehlo.or", same, both, out=nan.type)
            earlier = b.op("stablehlo.and", same, b.compare("LT", i, j), out=same.type)
            first = b.op("stablehlo.or", beats, earlier, out=same.type)
            return [b.select(first, v, w), b.select(first, i, j)]

        index = b.iota(x.shape, int64, self.axis)
        scalars = [Type((), x.dtype), Type((), int64)]
        # index 0 may stand for the start: it can only win if every element equals the identity
        start = b.constant(self.of.identity(x.dtype), x.dtype), b.constant(0, int64)
        _, made = b.op(
            "stablehlo.reduce", x, index, *start, out=(Type(out.shape, x.dtype), out),
            regions=b.region([*scalars, *scalars], better), dimensions=(self.axis,),
        )  # fmt: skip
        return made

    def factors(self, x: Type) -> str:
        """Parts have indices of their own: where the axis is split, it is written as below."""
        words = named(x.rank, (self.axis,))
        return rule([words], [[w for w in words if w != "_"]])

    def expand(self, x: Node) -> Node:
        """The least index of those that equal the extreme."""
        top = self.of((self.axis,), True)(x)
        wins = either(equal(x, top), not_equal(x, x))
        index = TABLE["Iota"](x.type.shape, self.axis, int64)()
        none = constant(x.type.shape[self.axis], int64)
        return Min((self.axis,), False)(where(wins, index, none))

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(5),)
        yield cls(1), (real(2, 4, 3),)
        yield cls(0), (real(3, 0),)
        yield cls(1), (np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 2.0, -np.inf, -np.inf]]),)


class ArgMax(ArgExtreme):
    """The index of the largest element along an axis."""

    title = "argmax"
    of = Max


class ArgMin(ArgExtreme):
    """The index of the smallest element along an axis."""

    title = "argmin"
    of = Min


def require_elements(x: Type, axes: Sequence[int]) -> None:
    """Nothing is the extreme of no elements."""
    if any(x.shape[i] == 0 for i in axes):
        raise ShapeError(
            f"needs at least one element along axes {list(axes)}, got {x}", code="E3006"
        )


def bounds(dtype: DType) -> tuple[Any, Any]:
    """The smallest and the largest value of a real type."""
    if dtype.is_float:
        return -np.inf, np.inf
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return info.min, info.max
    return False, True
