"""Convolution over any number of spatial dimensions, channels last.

The sum over products of input, filter and result elements is linear in each of the three. Each
op here computes one of them from the other two, so they are one another's derivatives, to any
order: `Convolution` the result, `ConvolutionBackwardInput` and `ConvolutionBackwardFilter` what
their names say.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.errors import ShapeError
from pullback.ir.types import show
from pullback.ops.base import Axis, Node, Op, Type, conjugate, same_dtype, zeros
from pullback.ops.conv_lowering import convolve, convolve_filter
from pullback.ops.elementwise.base import check_kind
from pullback.ops.factoring import rule
from pullback.ops.folding import fold, unfold
from pullback.ops.linalg import Contraction, wide
from pullback.ops.sample import complexes, real
from pullback.ops.sliding import (
    Padding,
    padded,
    pairs,
    spread,
    tap_slices,
    transposed_padding,
    window_count,
)

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


class Convolution(Convolving):
    """Slides a filter over an input; the dilations set their elements apart before that."""

    folds = (0, 0), (-1, -1)
    instructions = ("convolution",)
    reads_last = True

    @classmethod
    def from_hlo(cls, i: Any) -> Convolution:
        ones = (1,) * (i.types[0].rank - 2)
        return cls(
            i.get("window_strides", ones), i.get("padding", tuple([(0, 0) for _ in ones])),
            i.get("lhs_dilation", ones), i.get("rhs_dilation", ones), i["feature_group_count"],
        )  # fmt: skip

    def infer(self, x: Type, w: Type) -> Type:
        self.check(x, w)
        agree = w.shape[-2] * self.groups == x.shape[-1]
        self.check_channels(x.shape[-1], w.shape[-1], agree, x, w)
        counts = self.counts(x.shape[1:-1], w.shape[:-2])
        return x.with_shape((x.shape[0], *counts, w.shape[-1]))

    def numpy(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        counts = self.counts(x.shape[1:-1], w.shape[:-2])
        made = np.zeros((x.shape[0], *counts, w.shape[-1]), wide(x).dtype)
        full = self.bordered(x)
        for tap, place in self.taps(w.shape[:-2], counts):
            filters = _by_group(wide(w[tap]), self.groups)
            made += _ungroup(_by_group(full[place], self.groups) @ filters, made.shape)
        return made.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, w: Any) -> Any:
        return convolve(b, out, x, w, *self.motion)

    def factors(self, x: Type, w: Type) -> str:
        inputs, filters, results = self.roles(x.shape, w.shape)
        return rule([inputs, filters], [results])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        x, w = xs
        return dataclasses.replace(self, groups=self.groups_of(x.shape[-1], w.shape[-2]))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, w = xs
        left = right = None
        if need[0]:
            left = ConvolutionBackwardInput(*self.motion, x.type.shape[1:-1])(g, conjugate(w))
        if need[1]:
            right = ConvolutionBackwardFilter(*self.motion, w.type.shape[:-2])(conjugate(x), g)
        return [left, right]

    @classmethod
    def samples(cls) -> Iterator[tuple[Convolution, tuple]]:
        for motion, x, w in _CASES:
            yield cls(*motion), (real(*x), real(*w, salt=1))
        yield cls((2,), ((0, 1),)), (complexes(2, 4, 2), complexes(2, 2, 2, salt=1))


class ConvolutionBackwardInput(Convolving):
    """From a result and a filter to an input of the given spatial extents: the transpose of
    Convolution in its first operand, and what others call a transposed convolution."""

    extents: tuple[int, ...] = ()
    folds: ClassVar = ((0, 0), (-2, -1))

    def infer(self, g: Type, w: Type) -> Type:
        self.check(g, w)
        self.check_channels(0, w.shape[-1], g.shape[-1] == w.shape[-1], g, w)
        self.check_result(g, self.extents, w.shape[:-2])
        return g.with_shape((g.shape[0], *self.extents, w.shape[-2] * self.groups))

    def numpy(self, g: np.ndarray, w: np.ndarray) -> np.ndarray:
        shape = (g.shape[0], *self.extents, w.shape[-2] * self.groups)
        if not g.size:
            return np.zeros(shape, g.dtype)
        full = self.bordered(np.zeros(shape, g.dtype))
        results = _by_group(wide(g), self.groups)
        for tap, place in self.taps(w.shape[:-2], g.shape[1:-1]):
            filters = _by_group(wide(w[tap]), self.groups).swapaxes(-1, -2)
            full[place] += _ungroup(results @ filters, full[place].shape)
        border = ((0, 0), *((-low, -high) for low, high in self.padding), (0, 0))
        inner = padded(full, border, (1,) * g.ndim, 0)
        return inner[tuple(slice(None, None, a) for a in (1, *self.lhs_dilation))].astype(g.dtype)

    def hlo(self, b: Any, out: Type, g: Any, w: Any) -> Any:
        spatial = tuple(range(len(self.extents)))
        if spatial:
            w = b.op("stablehlo.reverse", w, out=w.type, dimensions=spatial)
        window, (c, o) = w.shape[:-2], w.shape[-2:]
        if self.groups > 1:  # the groups go from the filters to the channels
            w = b.reshape(w, (*window, c, self.groups, o // self.groups))
            at = len(window)
            w = b.transpose(w, (*spatial, at + 1, at, at + 2))
            w = b.reshape(w, (*window, c * self.groups, o // self.groups))
        padding = tuple(map(transposed_padding, self.extents, g.shape[1:-1], window, self.strides,
                            self.padding, self.rhs_dilation, self.lhs_dilation))  # fmt: skip
        return convolve(b, out, g, w, self.lhs_dilation, padding, self.strides,
                        self.rhs_dilation, self.groups, "b*f,*oi->b*f")  # fmt: skip

    def factors(self, g: Type, w: Type) -> str:
        shape = self.infer(g, w).shape
        inputs, filters, results = self.roles(shape, w.shape)
        return rule([results, filters], [inputs])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        groups = self.groups_of(out.shape[-1], xs[1].shape[-2])
        return dataclasses.replace(self, groups=groups, extents=out.shape[1:-1])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        y, w = xs
        left = right = None
        if need[0]:
            left = Convolution(*self.motion)(g, conjugate(w))
        if need[1]:
            right = ConvolutionBackwardFilter(*self.motion, w.type.shape[:-2])(g, conjugate(y))
        return [left, right]

    @classmethod
    def samples(cls) -> Any:
        for op, (x, w) in Convolution.samples():
            yield cls(*op.motion, x.shape[1:-1]), (_result(op, x, w), w)


class ConvolutionBackwardFilter(Convolving):
    """From an input and a result to a filter of the given spatial extents: the transpose of
    Convolution in its second operand."""

    extents: tuple[int, ...] = ()
    folds: ClassVar = ((-1, -2), (-1, -1))

    def infer(self, x: Type, g: Type) -> Type:
        self.check(x, g)
        self.check_channels(x.shape[-1], g.shape[-1], True, x, g)
        self.check_result(g, x.shape[1:-1], self.extents)
        if x.shape[0] != g.shape[0]:
            raise ShapeError(f"input and result must hold as many examples, got {x} and {g}")
        return x.with_shape((*self.extents, x.shape[-1] // self.groups, g.shape[-1]))

    def numpy(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        shape = (*self.extents, x.shape[-1] // self.groups, g.shape[-1])
        made = np.zeros(shape, wide(x).dtype)
        full, results = self.bordered(x), _by_group(wide(g), self.groups)
        for tap, place in self.taps(self.extents, g.shape[1:-1]):
            rows = _by_group(full[place], self.groups)
            made[tap] = _ungroup(rows.swapaxes(-1, -2) @ results, shape[-2:])
        return made.astype(x.dtype)

    def hlo(self, b: Any, out: Type, x: Any, g: Any) -> Any:
        return convolve_filter(b, out, x, g, *self.motion)

    def factors(self, x: Type, g: Type) -> str:
        inputs, filters, results = self.roles(x.shape, self.infer(x, g).shape)
        return rule([inputs, results], [filters])

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        groups = self.groups_of(xs[0].shape[-1], out.shape[-2])
        return dataclasses.replace(self, groups=groups)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, y = xs
        left = right = None
        if need[0]:
            left = ConvolutionBackwardInput(*self.motion, x.type.shape[1:-1])(conjugate(y), g)
        if need[1]:
            right = Convolution(*self.motion)(conjugate(x), g)
        return [left, right]

    @classmethod
    def samples(cls) -> Any:
        for op, (x, w) in Convolution.samples():
            yield cls(*op.motion, w.shape[:-2]), (x, _result(op, x, w))


# -- words of this family -----------------------------------------------------------------------


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


def _by_group(x: np.ndarray, groups: int) -> np.ndarray:
    """[..., channels] as [groups, rows, channels of a group]: operands of a matrix product."""
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    return x.reshape(rows, groups, x.shape[-1] // groups).swapaxes(0, 1)


def _ungroup(x: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return x.swapaxes(0, 1).reshape(shape)


# (strides, padding, lhs_dilation, rhs_dilation, groups), shape of the input, shape of the filter
_CASES = (
    (((1, 1), ((0, 0), (0, 0))), (2, 4, 5, 3), (2, 3, 3, 2)),
    (((2, 3), ((1, 2), (0, 1)), (1, 1), (1, 1), 2), (2, 6, 7, 4), (3, 2, 2, 6)),
    (((2,), ((3, 1),), (3,), (2,)), (2, 5, 2), (3, 2, 3)),
    (((2, 1), ((-1, 2), (1, -1)), (2, 1), (1, 2), 3), (1, 4, 5, 3), (2, 2, 1, 3)),
    (((1, 2, 1), ((0, 0), (1, 1), (0, 0))), (1, 2, 4, 3, 2), (2, 2, 2, 2, 1)),
    (((2, 1), ((1, 0), (0, 0))), (2, 4, 3, 2), (1, 1, 2, 3)),
    (((), ()), (3, 2), (2, 4)),
    (((1,), ((0, 0),)), (2, 2, 3), (4, 3, 2)),
    (((1,), ((0, 0),)), (0, 5, 3), (4, 3, 2)),
    (((1,), ((1, 1),)), (2, 0, 3), (2, 3, 2)),
    (((1, 1), ((4, 4), (4, 4)), (1, 1), (1, 1), 2), (2, 3, 3, 4), (9, 9, 2, 2)),
)


def _result(op: Convolution, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    shape = (len(x), *op.counts(x.shape[1:-1], w.shape[:-2]), w.shape[-1])
    return (complexes if np.iscomplexobj(x) else real)(*shape, salt=2)
