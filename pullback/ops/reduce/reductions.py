"""Reductions over axes: sums, means, products and truth values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.argument_checks import checked_flag_argument
from pullback.graph.dtypes import DType, bfloat16, float16, float32
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.elementwise.functions import cast
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.imported import Imported
from pullback.ops.parts import Parts
from pullback.ops.prelude import (
    TABLE,
    CompositeOnMesh,
    Node,
    Op,
    Type,
    batch_along,
    conjugate,
    counted,
)
from pullback.ops.samples import boolean_samples, real
from pullback.ops.shape.concat_pad import shift_by_pad
from pullback.ops.shape.movement import Broadcast, Reshape, Transpose
from pullback.ops.shape.squeeze_flip_axes import ExpandDims, check_axes
from pullback.ops.text import Text
from pullback.ops.traits import HasSumOverRows


class ReductionText(Text):
    """In text, an empty list stands for all axes; over none of them is `none`."""

    def written(self, op: Any, xs: Sequence[Type]) -> dict[str, Any]:
        none = not op.axes and bool(xs[0].shape)
        return {"axes": None if none else op.axes, "keepdims": op.keepdims}

    def read(
        self, cls: Any, xs: Sequence[Type], *,
        axes: tuple[int, ...] | None = (), keepdims: bool = False,
    ) -> Op:  # fmt: skip
        rank = xs[0].rank
        if axes is None:
            return cls((), keepdims)
        if not axes and rank:
            return cls(tuple(range(rank)), False)
        return cls(counted(axes, rank), keepdims)

    def least_profile(self, op: Any, xs: Sequence[Type]) -> str:
        return self.profile if op.axes or not xs[0].shape else "extended"


class Reduction(Op, abstract=True):
    """Combines elements over `axes` (non-negative, ascending); `keepdims` keeps them as 1."""

    axes: tuple[int, ...]
    keepdims: bool
    kinds: ClassVar[str] = "iufc"
    ufunc: ClassVar[np.ufunc]
    stablehlo: ClassVar[str]
    identity: ClassVar[Any]  # the value that every reduction starts with
    text = ReductionText(("axes", "keepdims"))
    batch = batch_along
    imported = Imported(("reduce",), implied=1)  # what it starts with

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        return cls(i["dimensions"], False) if len(i.types) == 1 else None

    def __post_init__(self) -> None:
        self.set("axes", tuple(sorted(map(int, self.axes))))
        self.set("keepdims", checked_flag_argument(self.title, self.keepdims, "keepdims"))

    def infer(self, x: Type) -> Type:
        check_elementwise_kind(x.dtype, self.kinds)
        check_axes(self.axes, x.rank)
        return Type(self.reduced(x.shape), x.dtype)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        wide = widened_reduction_operand(x)
        out = self.ufunc.reduce(wide, axis=self.axes, dtype=wide.dtype, keepdims=self.keepdims)
        return np.asarray(out).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        wide = b.convert(x, reduction_accumulator(x.dtype))
        total = b.reduce(self.stablehlo, wide, self.identity, self.axes)
        return b.reshape(b.convert(total, x.dtype), out.shape)

    def reduced(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.keepdims:
            return tuple(1 if i in self.axes else n for i, n in enumerate(shape))
        return tuple(n for i, n in enumerate(shape) if i not in self.axes)

    def count(self, shape: tuple[int, ...]) -> int:
        """The number of elements that are combined into one."""
        return math.prod(shape[i] for i in self.axes)

    def spread(self, y: Node, x: Type) -> Node:
        """Broadcast a value of the result's shape to the operand's, along the reduced axes."""
        check_axes(self.axes, x.rank)
        if not self.keepdims and self.axes:
            y = ExpandDims(self.axes)(y)
        return Broadcast(x.shape)(y) if y.type.shape != x.shape else y

    def factors(self, x: Type) -> str:
        old = factor_rule_names(x.rank)
        new = ["1" if i in self.axes else w for i, w in enumerate(old)]
        if not self.keepdims:
            new = [w for w in new if w != "1"]
        return factor_rule([old], [new])

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,), False), (real(3, 4),)
        yield cls((1,), True), (real(2, 3, 4),)
        yield cls((0, 2), False), (real(2, 3, 4),)
        yield cls((), False), (real(3),)
        yield cls((0, 1), True), (real(2, 2),)
        yield cls((), False), (real(),)
        yield cls((1,), False), (real(0, 3),)
        if hasattr(cls, "identity"):
            yield cls((0,), False), (real(0, 3),)


class Sum(Reduction, HasSumOverRows):
    """The sum over axes; f16 and bf16 are summed in f32."""

    ufunc, stablehlo, identity = np.add, "add", 0
    linear: ClassVar[bool] = True
    text = ReductionText(("axes", "keepdims"), "core-v1")

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self.spread(g, xs[0].type)]

    def sum_over_rows(self, x: Node) -> Node:
        total = Sum((0, *[i + 1 for i in self.axes]), False)(x)
        shape = self.reduced(x.type.shape[1:])
        return Reshape(shape)(total) if self.keepdims else total


class Mean(Reduction, CompositeOnMesh):
    """The mean over axes; f16 and bf16 are summed and divided in f32."""

    kinds = "fc"
    linear: ClassVar[bool] = True
    text = ReductionText(("axes", "keepdims"), "core-v1")

    def factors(self, x: Type) -> str:
        """Means of parts do not add up: where an axis is split, `expand` is used."""
        old = factor_rule_names(x.rank, self.axes)
        new = [w for w in old if w != "_" or self.keepdims]
        return factor_rule([old], [new])

    def expand(self, x: Node) -> Node:
        total = Sum(self.axes, self.keepdims)(cast(x, reduction_accumulator(x.type.dtype)))
        return cast(total / self.count(x.type.shape), x.type.dtype)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        wide = widened_reduction_operand(x)
        total = np.sum(wide, self.axes, keepdims=self.keepdims)
        return np.divide(total, wide.dtype.type(self.count(x.shape))).astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        total = b.reduce("add", b.convert(x, reduction_accumulator(x.dtype)), 0, self.axes)
        count = b.full(total.type, self.count(x.shape))
        mean = b.divide(total, count)
        return b.reshape(b.convert(mean, x.dtype), out.shape)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x = xs[0].type
        check_axes(self.axes, x.rank)
        # 1/N in f32 at least: in f16 a count over 65504 would be infinite.
        share = 1.0 / max(self.count(x.shape), 1)
        g = cast(cast(g, reduction_accumulator(x.dtype)) * share, x.dtype)
        return [self.spread(g, x)]


class Prod(Reduction):
    """The product over axes; the derivative is exact where elements are 0."""

    ufunc, stablehlo, identity = np.multiply, "multiply", 1
    parts = Parts(combine="again", neutral=1)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self.spread(g, xs[0].type) * conjugate(self.others(xs[0]))]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Any]) -> Node | None:
        return Sum(self.axes, self.keepdims)(ts[0] * self.others(xs[0]))

    def others(self, x: Node) -> Node:
        """For each element, the product of all others that it is combined with. The product of all
        before it and all after it needs no division, so zeros are exact."""
        shape = x.type.shape
        if len(self.axes) == 1:
            return _product_of_others(x, self.axes[0])
        kept = tuple(i for i in range(len(shape)) if i not in self.axes)
        order = kept + self.axes
        behind = Transpose(order)(x)
        flat = Reshape((*[shape[i] for i in kept], self.count(shape)))(behind)
        others = Reshape(behind.type.shape)(_product_of_others(flat, len(kept)))
        return Transpose(tuple(int(i) for i in np.argsort(order)))(others)

    @classmethod
    def samples(cls) -> Any:
        yield from super().samples()
        yield cls((0,), False), (np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0], [4.0, 5.0, 7.0]]),)


def _product_of_others(x: Node, axis: int) -> Node:
    products = TABLE["CumProd"]
    before = shift_by_pad(products(axis, False)(x), axis, False, 1)
    return before * shift_by_pad(products(axis, True)(x), axis, True, 1)


class TruthReduction(Reduction, abstract=True):
    """Combines bools over axes."""

    kinds = "b"
    differentiable: ClassVar[bool] = False

    @classmethod
    def samples(cls) -> Any:
        yield cls((0,), False), (boolean_samples(3, 4),)
        yield cls((0, 2), True), (boolean_samples(2, 3, 2),)
        yield cls((1,), False), (boolean_samples(2, 0),)
        yield cls((), False), (boolean_samples(),)


class Any_(TruthReduction):
    """Whether any element over axes is true."""

    name = "Any"
    parts = Parts(combine="max")
    ufunc, stablehlo, identity = np.logical_or, "or", False


class All(TruthReduction):
    """Whether all elements over axes are true."""

    parts = Parts(combine="min")
    ufunc, stablehlo, identity = np.logical_and, "and", True


def reduction_accumulator(dtype: DType) -> DType:
    """The dtype in which many elements are combined: f32 for f16 and bf16."""
    return float32 if dtype in (float16, bfloat16) else dtype


def widened_reduction_operand(x: np.ndarray) -> np.ndarray:
    """The array in the dtype of its accumulator."""
    return x.astype(np.float32) if x.dtype in (float16.numpy, bfloat16.numpy) else np.asarray(x)
