"""Extrema: the largest and the smallest element over axes, and their indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import DType, int64
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import cast, either, equal, not_equal, where
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.prelude import (
    CompositeOnMesh,
    Node,
    Parts,
    Type,
    batch_along,
    constant_node,
    zeros,
)
from pullback.ops.reduce.reductions import (
    Reduction,
    Sum,
    reduction_accumulator,
    widened_reduction_operand,
)
from pullback.ops.samples import real
from pullback.ops.shape.iota import Iota
from pullback.ops.shape.squeeze_flip_axes import check_axes


@dataclasses.dataclass(frozen=True)
class Extremum:
    """A maximum or a minimum: what reductions, scans, scatters and windows share. NaN wins."""

    ufunc: np.ufunc
    stablehlo: str
    direction: str  # the comparison by which an element beats another

    def identity(self, dtype: DType) -> Any:
        """The element that every other one replaces."""
        low, high = extrema_bounds(dtype)
        return low if self is MAXIMUM else high

    def index(self, x: np.ndarray, axis: int) -> np.ndarray:
        """The index of the extremum along an axis: of the first of equal ones."""
        return np.asarray(
            (np.argmax if self is MAXIMUM else np.argmin)(widened_reduction_operand(x), axis)
        )

    def beats(self, b: Any, x: Any, y: Any) -> Any:
        """In StableHLO: where `x` is better than `y`, or the first NaN."""
        better = b.compare(self.direction, x, y)
        if not x.dtype.is_float:
            return better
        nan, number = b.compare("NE", x, x), b.compare("EQ", y, y)
        first = b.op("stablehlo.and", nan, number, out=better.type)
        return b.op("stablehlo.or", better, first, out=better.type)


MAXIMUM = Extremum(np.maximum, "maximum", "GT")
MINIMUM = Extremum(np.minimum, "minimum", "LT")


class ExtremumReduction(Reduction, abstract=True):
    """The largest or smallest element over axes; NaN wins, and ties share the gradient equally."""

    kinds = "biuf"
    of: ClassVar[Extremum]

    def infer(self, x: Type) -> Type:
        out = super().infer(x)
        extrema_require_elements(x, self.axes)
        return out

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        found = b.reduce(self.of.stablehlo, x, self.of.identity(x.dtype), self.axes)
        if x.dtype.is_float:
            # XLA's CPU kernels for this reduction lose NaN (jaxlib 0.10 to 0.12).
            nan = b.reduce("or", b.compare("NE", x, x), False, self.axes)
            found = b.select(nan, b.full(found.type, np.nan), found)
        return b.reshape(found, out.shape)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x = xs[0]
        chosen, ties = self.chosen(out, x)
        wide = reduction_accumulator(x.type.dtype)
        share = cast(cast(g, wide) / cast(ties, wide), x.type.dtype)
        return [where(chosen, self.spread(share, x.type), zeros(x.type))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        x = xs[0]
        chosen, ties = self.chosen(out, x)
        wide = reduction_accumulator(x.type.dtype)
        picked = where(chosen, cast(ts[0], wide), zeros(x.type.with_dtype(wide)))
        return cast(Sum(self.axes, self.keepdims)(picked) / cast(ties, wide), x.type.dtype)

    def chosen(self, out: Node, x: Node) -> tuple[Node, Node]:
        """Which elements are the extremum, and how many: in integers, which are exact."""
        chosen = either(equal(x, self.spread(out, x.type)), not_equal(x, x))
        return chosen, Sum(self.axes, self.keepdims)(cast(chosen, int64))

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls((0,), True), (np.array([2, 7, 7, 1], np.uint8),)


class Max(ExtremumReduction):
    """The largest element over axes."""

    of, ufunc = MAXIMUM, np.maximum
    parts = Parts(combine="max")


class Min(ExtremumReduction):
    """The smallest element over axes."""

    of, ufunc = MINIMUM, np.minimum
    parts = Parts(combine="min")


class ArgExtremum(CompositeOnMesh, abstract=True):
    """The index (i64) of the extremum along an axis, which is removed. Of equal elements the first
    is taken; the first NaN wins over every number."""

    axis: int
    kinds: ClassVar[str] = "biuf"
    differentiable: ClassVar[bool] = False
    of: ClassVar[Extremum]
    batch = batch_along

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes((self.axis,), x.rank)
        extrema_require_elements(x, (self.axis,))
        return Type(x.shape[: self.axis] + x.shape[self.axis + 1 :], int64)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return self.of.index(x, self.axis).astype(np.int64)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        """One reduction over pairs of an element and its index."""

        def better(v: Any, i: Any, w: Any, j: Any) -> list:
            beats, same = self.of.beats(b, v, w), b.compare("EQ", v, w)
            if v.dtype.is_float:
                both = [b.compare("NE", v, v), b.compare("NE", w, w)]
                both_nan = b.op("stablehlo.and", *both, out=same.type)
                same = b.op("stablehlo.or", same, both_nan, out=same.type)
            earlier = b.op("stablehlo.and", same, b.compare("LT", i, j), out=same.type)
            first = b.op("stablehlo.or", beats, earlier, out=same.type)
            return [b.select(first, v, w), b.select(first, i, j)]

        index = b.iota(x.shape, int64, self.axis)
        scalars = [Type((), x.dtype), Type((), int64)]
        # The start may have index 0: it wins only if every element equals the identity.
        start = b.constant(self.of.identity(x.dtype), x.dtype), b.constant(0, int64)
        _, found = b.op(
            "stablehlo.reduce", x, index, *start, out=(Type(out.shape, x.dtype), out),
            regions=b.region([*scalars, *scalars], better), dimensions=(self.axis,),
        )  # fmt: skip
        return found

    def factors(self, x: Type) -> str:
        """Indices count within a part: where the axis is split, `expand` is used."""
        words = factor_rule_names(x.rank, (self.axis,))
        return factor_rule([words], [[w for w in words if w != "_"]])

    def expand(self, x: Node) -> Node:
        """The least index of the elements that equal the extremum."""
        top = (Max if self.of is MAXIMUM else Min)((self.axis,), True)(x)
        wins = either(equal(x, top), not_equal(x, x))
        index = Iota(x.type.shape, self.axis, int64)()
        none = constant_node(x.type.shape[self.axis], int64)
        return Min((self.axis,), False)(where(wins, index, none))

    @classmethod
    def samples(cls) -> Any:
        for axis, shape in ((0, (5,)), (1, (2, 4, 3)), (0, (3, 0))):
            yield cls(axis), (real(*shape),)
        yield cls(1), (np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 2.0, -np.inf, -np.inf]]),)


class ArgMax(ArgExtremum):
    """The index of the largest element along an axis."""

    title = "argmax"
    of = MAXIMUM


class ArgMin(ArgExtremum):
    """The index of the smallest element along an axis."""

    title = "argmin"
    of = MINIMUM


def extrema_require_elements(x: Type, axes: Sequence[int]) -> None:
    """Raise if there are no elements along an axis: they have no extremum."""
    if any(x.shape[i] == 0 for i in axes):
        what = f"needs at least one element along axes {list(axes)}, got {x}"
        raise ShapeError(what, code="E3006")


def extrema_bounds(dtype: DType) -> tuple[Any, Any]:
    """The smallest and the largest value of a real type."""
    if dtype.is_float:
        return -np.inf, np.inf
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        return info.min, info.max
    return False, True
