"""What convolutions share: how a filter moves over an input, groups, and examples."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.types import show
from pullback.ops.conv.batching import fold, unfold
from pullback.ops.conv.windows import (
    Padding,
    padded,
    pairs,
    spread,
    tap_slices,
    window_count,
)
from pullback.ops.elementwise.base import check_kind
from pullback.ops.linalg.contraction import Contraction, wide
from pullback.ops.prelude import Axis, Node, Op, Type, same_dtype, zeros

Numbers = tuple[int, ...]


class Convolving(Contraction, abstract=True):
    """How a filter moves over an input; empty dilations are 1 everywhere.

    Input [N, spatial..., C], filter [spatial..., C / groups, O], result [N, spatial..., O].
    """

    strides: tuple[int, ...]
    padding: Padding
    lhs_dilation: tuple[int, ...] = ()
    rhs_dilation: tuple[int, ...] = ()
    groups: int = 1
    kinds = "fc"
    # For each operand, where examples that it alone has go: into the images' dimension 0, or the
    # channels' -1 or -2; there in the operand, and there in the result.
    folds: ClassVar[tuple[tuple[int, int], tuple[int, int]]]

    def __post_init__(self) -> None:
        ones = (1,) * len(self.strides)
        self.set("strides", tuple(map(int, self.strides)))
        self.set("padding", pairs(self.padding))
        self.set("lhs_dilation", tuple(self.lhs_dilation) or ones)
        self.set("rhs_dilation", tuple(self.rhs_dilation) or ones)

    @property
    def motion(self) -> tuple[Numbers, Padding, Numbers, Numbers, int]:
        return self.strides, self.padding, self.lhs_dilation, self.rhs_dilation, self.groups

    def check(self, x: Type, y: Type) -> None:
        check_kind(same_dtype(self.title, x, y), self.kinds)
        rank = x.rank
        if rank < 2 or y.rank != rank:
            raise ShapeError(
                "operands must be [N, spatial..., C] and [spatial..., C, O] of one rank, "
                f"got {x} and {y}",
                code="E3002",
            )
        words = {"strides": self.strides, "lhs_dilation": self.lhs_dilation,
                 "rhs_dilation": self.rhs_dilation}  # fmt: skip
        for word, numbers in words.items():
            if len(numbers) != rank - 2 or min(numbers, default=1) < 1:
                raise ShapeError(
                    f"{word} must be {rank - 2} positive numbers, got {numbers}", code="E4010"
                )
        if len(self.padding) != rank - 2:
            raise ShapeError(f"padding must be {rank - 2} pairs, got {self.padding}", code="E3002")

    def check_channels(self, inputs: int, outputs: int, agree: bool, *shown: Type) -> None:
        groups = self.groups
        if groups < 1 or inputs % groups or outputs % groups or not agree:
            rule = "the channels of both operands must agree"
            if groups != 1:
                rule += f", with those of input and result divided into {groups} groups"
            raise ShapeError(
                f"{rule}, got {show(shown)}",
                code="E4009",
                channels=tuple([t.shape[-1] for t in shown]),
                hint="Images are [N, spatial..., C] and filters [spatial..., C, outputs].",
            )

    def check_result(self, y: Type, extents: Sequence[int], window: Sequence[int]) -> None:
        counts = self.counts(extents, window)
        if len(extents) != len(window) or y.shape[1:-1] != counts:
            raise ShapeError(f"the result's spatial extents must be {list(counts)}, got {y}")

    def counts(self, extents: Sequence[int], window: Sequence[int]) -> tuple[int, ...]:
        """The result's spatial extents."""
        apart = map(spread, extents, self.lhs_dilation)
        return tuple(map(window_count, apart, window, self.strides, self.padding,
                         self.rhs_dilation))  # fmt: skip

    def taps(
        self, window: Sequence[int], counts: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Each tap of the filter, and the elements of the padded input that it meets."""
        for tap in itertools.product(*map(range, window)):
            place = tap_slices(tap, counts, self.strides, self.rhs_dilation)
            yield tap, (slice(None), *place)

    def roles(self, x: Sequence[int], w: Sequence[int]) -> tuple[list[str], list[str], list[str]]:
        """The factors of an input, a filter and a result, from the shapes of the first two.

        A spatial dimension is passed on where the filter does not move along it.
        """
        motion = zip(w[:-2], self.strides, self.padding, self.lhs_dilation, strict=True)
        spatial = [f"s{i}" if m == (1, 1, (0, 0), 1) else "_" for i, m in enumerate(motion)]
        inputs, outputs = "c", "o"
        if self.groups > 1:  # each device takes some of the groups
            inputs, outputs = ("(g c)", "(g o)") if x[-1] and w[-1] else ("_", "_")
        window = ["_"] * len(spatial)
        channels = "_" if inputs == "_" else "c"
        return (["n", *spatial, inputs], [*window, channels, outputs], ["n", *spatial, outputs])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        if not axis.size:
            out = self.type_of(*examples(xs, mapped))
            return zeros(out.with_shape((0, *out.shape)))
        if not all(mapped):
            return batch_one(self, self, axis, xs, mapped)
        # Each example has a group of channels, or as many as it had, to itself.
        apart = dataclasses.replace(self, groups=self.groups * axis.size)
        return unfold(apart(*[fold(x, -1, 1) for x in xs]), -1, 1, axis.size)

    def groups_of(self, inputs: int, channels: int) -> int:
        """How many groups an input's channels make, on one device."""
        return inputs // channels if self.groups > 1 and channels else self.groups

    def bordered(self, x: np.ndarray) -> np.ndarray:
        border = ((0, 0), *self.padding, (0, 0))
        return padded(wide(x), border, (1, *self.lhs_dilation, 1), 0)


def batch_one(
    op: Op, like: Convolving, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]
) -> Node:
    """`op`, which is linear in each operand as `like` is, where one operand has examples."""
    side = mapped.index(True)
    place, result = like.folds[side]
    operands = list(xs)
    operands[side] = fold(xs[side], place, like.groups if place == -1 else 1)
    return unfold(op(*operands), result, like.groups if result == -1 else 1, axis.size)


def examples(xs: Sequence[Node], mapped: Sequence[bool]) -> list[Type]:
    """The operands' types for one example."""
    types = [x.type for x in xs]
    return [t.with_shape(t.shape[1:]) if has else t for t, has in zip(types, mapped, strict=True)]


def by_group(x: np.ndarray, groups: int) -> np.ndarray:
    """[..., channels] as [groups, rows, channels of a group]: operands of a matrix product."""
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    return x.reshape(rows, groups, x.shape[-1] // groups).swapaxes(0, 1)


def ungroup(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return x.swapaxes(0, 1).reshape(shape)
