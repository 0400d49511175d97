"""The base classes of convolutions: roles, shapes, groups, derivatives and batching.

A convolution sums products of input, filter and result elements, so it is linear in each of the
three. One op of a family gives each of these roles from the other two, and the ops of a family
are each other's derivatives to any order.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.dtypes import dtype
from pullback.graph.types import show_types
from pullback.ops.conv import windows
from pullback.ops.conv.windows import Padding, WindowMotion, padded_for_windows, window_pairs
from pullback.ops.elementwise.elementwise import check_elementwise_kind
from pullback.ops.factor_rules import factor_rule
from pullback.ops.linalg.contraction import Contraction
from pullback.ops.prelude import Axis, Node, Op, Type, conjugate, same_dtype, zeros
from pullback.ops.reduce.reductions import widened_reduction_operand
from pullback.ops.samples import complex_samples, real
from pullback.ops.shape.movement import Reshape, move_dimension
from pullback.ops.traits import HasKernel

Shape = tuple[int, ...]


class GeometryRoles(Op, abstract=True):
    """An op that gives one of "input", "filter" and "result" from the other two."""

    gives: ClassVar[str]
    operands: ClassVar[tuple[str, str]]  # the roles of its operands
    family: ClassVar[dict[str, Any]]  # the op class that gives each role

    @abstractmethod
    def giving(self, role: str, shape: Shape) -> GeometryRoles:
        """The op of the family that gives `role`, in this shape, for the same geometry."""

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self._pull(side, g, xs) if need[side] else None for side in (0, 1)]

    def _pull(self, side: int, g: Node, xs: tuple[Node, ...]) -> Node:
        known = {self.gives: g, self.operands[1 - side]: conjugate(xs[1 - side])}
        op = self.giving(self.operands[side], xs[side].type.shape)
        return op(*[known[role] for role in op.operands])

    @classmethod
    def samples(cls) -> Any:
        """The samples of the op that gives the result, for the other two ops of the family."""
        for op, (x, w) in cls.family["result"].samples():
            shape = op.infer(*[Type(v.shape, dtype(v.dtype)) for v in (x, w)]).shape
            y = (complex_samples if np.iscomplexobj(x) else real)(*shape, salt=2)
            values = {"input": x, "filter": w, "result": y}
            operands = tuple(values[role] for role in cls.operands)
            yield op.giving(cls.gives, values[cls.gives].shape), operands


class ConvolutionGeometry(GeometryRoles, Contraction, HasKernel, abstract=True):
    """A convolution over any number of spatial dimensions; empty dilations are 1 everywhere. Input
    [N, spatial..., C], filter [spatial..., C / groups, O], result [N, spatial..., O]."""

    strides: tuple[int, ...]
    padding: Padding
    lhs_dilation: tuple[int, ...] = ()
    rhs_dilation: tuple[int, ...] = ()
    groups: int = 1
    kinds = "fc"
    family: ClassVar[dict[str, Any]] = {}
    # For each operand: the dimension that takes up the mapped axis if this operand alone has it
    # (0 for images, -1 or -2 for channels), and the dimension of the result where it is then.
    folds: ClassVar[tuple[tuple[int, int], tuple[int, int]]]

    def __post_init__(self) -> None:
        ones = (1,) * len(self.strides)
        self.set("strides", tuple(map(int, self.strides)))
        self.set("padding", window_pairs(self.padding))
        self.set("lhs_dilation", tuple(self.lhs_dilation) or ones)
        self.set("rhs_dilation", tuple(self.rhs_dilation) or ones)

    @property
    def motion(self) -> WindowMotion:
        return WindowMotion(
            self.strides, self.padding, self.lhs_dilation, self.rhs_dilation, self.groups
        )

    def giving(self, role: str, shape: Shape) -> ConvolutionGeometry:
        sizes = {"input": (shape[1:-1],), "filter": (shape[:-2],), "result": ()}[role]
        return self.family[role](*self.motion, *sizes)

    @abstractmethod
    def shape(self, x: Shape, y: Shape) -> Shape:
        """The shape of the value that it gives, for operands of these shapes."""

    def shapes(self, x: Type, y: Type) -> tuple[Shape, Shape, Shape]:
        """The shapes of input, filter and result."""
        known = dict(zip(self.operands, (x.shape, y.shape), strict=True))
        known[self.gives] = self.shape(x.shape, y.shape)
        return known["input"], known["filter"], known["result"]

    def products(self, xs: Sequence[Type]) -> int:
        """As many as a filter has elements, for each element of the result: also at the border."""
        x, y = xs
        _, filters, results = self.shapes(x, y)
        return math.prod(results) * math.prod(filters[:-1])

    def infer(self, x: Type, y: Type) -> Type:
        check_elementwise_kind(same_dtype(self.title, x, y), self.kinds)
        self.check_parameters(x, y)
        inputs, filters, results = self.shapes(x, y)
        groups = self.groups
        whole = filters[-1] % groups == 0 and filters[-2] * groups == inputs[-1]
        if not whole or results[-1] != filters[-1]:
            what = "the channels of both operands must agree"
            if groups != 1:
                what += f", with those of input and result divided into {groups} groups"
            raise ShapeError(
                f"{what}, got {show_types((x, y))}", code="E4009",
                channels=(x.shape[-1], y.shape[-1]),
                hint="Images are [N, spatial..., C] and filters [spatial..., C, outputs].",
            )  # fmt: skip
        counts = self.counts(inputs[1:-1], filters[:-2])
        if len(inputs) != len(filters) or results[1:-1] != counts:
            got = list(results[1:-1])
            raise ShapeError(f"the result's spatial sizes must be {list(counts)}, got {got}")
        if inputs[0] != results[0]:
            raise ShapeError(f"input and result must have the same N, got {x} and {y}")
        return x.with_shape(self.shape(x.shape, y.shape))

    def check_parameters(self, x: Type, y: Type) -> None:
        rank = x.rank
        if rank < 2 or y.rank != rank:
            what = "operands must be [N, spatial..., C] and [spatial..., C, O] of the same rank"
            raise ShapeError(f"{what}, got {x} and {y}", code="E3002")
        for name in ("strides", "lhs_dilation", "rhs_dilation"):
            numbers = getattr(self, name)
            if len(numbers) != rank - 2 or min(numbers, default=1) < 1:
                what = f"{name} must be {rank - 2} positive numbers, got {numbers}"
                raise ShapeError(what, code="E4010")
        if len(self.padding) != rank - 2:
            raise ShapeError(f"padding must be {rank - 2} pairs, got {self.padding}", code="E3002")
        if self.groups < 1:
            raise ShapeError(f"groups must be positive, got {self.groups}", code="E4009")

    def counts(self, sizes: Sequence[int], window: Sequence[int]) -> Shape:
        """The result's spatial sizes."""
        apart = map(windows.dilated_window, sizes, self.lhs_dilation)
        return tuple(map(windows.count_windows, apart, window, self.strides, self.padding,
                         self.rhs_dilation))  # fmt: skip

    def taps(self, window: Shape, counts: Shape) -> Iterator[tuple[Shape, tuple[slice, ...]]]:
        """Each tap of the filter, and the elements of the padded input that it meets."""
        for tap in itertools.product(*map(range, window)):
            at = windows.window_tap_slices(tap, counts, self.strides, self.rhs_dilation)
            yield tap, (slice(None), *at)

    def factors(self, x: Type, y: Type) -> str:
        """A spatial dimension is passed on where the filter does not move along it."""
        inputs, filters, _ = self.shapes(x, y)
        motion = zip(filters[:-2], self.strides, self.padding, self.lhs_dilation, strict=True)
        spatial = [f"s{i}" if m == (1, 1, (0, 0), 1) else "_" for i, m in enumerate(motion)]
        c, of_filter, o = "c", "c", "o"
        if self.groups > 1:  # each device takes some of the groups
            c, o = "(g c)", "(g o)"
            if not inputs[-1] or not filters[-1]:
                c = of_filter = o = "_"
        words = {
            "input": ["n", *spatial, c],
            "filter": [*["_"] * len(spatial), of_filter, o],
            "result": ["n", *spatial, o],
        }
        return factor_rule([words[role] for role in self.operands], [words[self.gives]])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not axis.size:
            out = self.type_of(*geometry_example_types(xs, mapped))
            return zeros(out.with_shape((0, *out.shape)))
        if not all(mapped):
            return batch_one_geometry(self, self, axis, xs, mapped)
        # Each example gets channel groups of its own.
        apart = dataclasses.replace(self, groups=self.groups * axis.size)
        return unfold_geometry_dimension(
            apart(*[fold_geometry_dimension(x, -1, 1) for x in xs]), -1, 1, axis.size
        )

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        shapes = dict(zip((*self.operands, self.gives), [t.shape for t in (*xs, out)], strict=True))
        inputs, channels = shapes["input"][-1], shapes["filter"][-2]
        groups = inputs // channels if self.groups > 1 and channels else self.groups
        return dataclasses.replace(self, groups=groups).giving(self.gives, out.shape)

    def bordered(self, x: np.ndarray) -> np.ndarray:
        """The input with its padding and dilation."""
        border = ((0, 0), *self.padding, (0, 0))
        return padded_for_windows(
            widened_reduction_operand(x), border, (1, *self.lhs_dilation, 1), 0
        )


def batch_one_geometry(
    op: Op, like: ConvolutionGeometry, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]
) -> Node:
    """Batch `op`, a convolution with the geometry of `like`, where one operand is mapped."""
    side = mapped.index(True)
    source, target = like.folds[side]
    operands = list(xs)
    operands[side] = fold_geometry_dimension(xs[side], source, like.groups if source == -1 else 1)
    return unfold_geometry_dimension(
        op(*operands), target, like.groups if target == -1 else 1, axis.size
    )


def geometry_example_types(xs: Sequence[Node], mapped: Sequence[bool]) -> list[Type]:
    """The operands' types without the mapped axis."""
    types = [x.type for x in xs]
    return [t.with_shape(t.shape[1:]) if has else t for t, has in zip(types, mapped, strict=True)]


def fold_geometry_dimension(x: Node, dim: int, groups: int) -> Node:
    """Merge dimension 0 into dimension `dim` of the rest, inside each of its groups."""
    count, *shape = x.type.shape
    at = dim % len(shape)
    before, (n, *after) = shape[:at], shape[at:]
    if groups > 1:
        x = Reshape((count, *before, groups, n // groups, *after))(x)
    return Reshape((*before, count * n, *after))(move_dimension(x, 0, at + (groups > 1)))


def unfold_geometry_dimension(x: Node, dim: int, groups: int, count: int) -> Node:
    """Undo `fold`."""
    shape = x.type.shape
    at = dim % len(shape)
    before, (n, *after) = shape[:at], shape[at:]
    grouped = (groups,) if groups > 1 else ()
    x = Reshape((*before, *grouped, count, n // count // groups, *after))(x)
    x = move_dimension(x, at + len(grouped), 0)
    return Reshape((count, *before, n // count, *after))(x) if grouped else x
