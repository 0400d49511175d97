"""Padding and concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.dtypes import bool_
from pullback.graph.types import show_types
from pullback.ops.elementwise.elementwise import align_elementwise_operand
from pullback.ops.elementwise.functions import where
from pullback.ops.factor_rules import alike_factor_rule, factor_rule, factor_rule_names
from pullback.ops.helpers import batch_along, same_dtype, zeros
from pullback.ops.prelude import GRADIENT, TABLE, Axis, Imported, Node, Op, Type, constant_node
from pullback.ops.samples import real
from pullback.ops.shape.movement import Broadcast
from pullback.ops.shape.slicing import Slice
from pullback.ops.shape.squeeze_flip_axes import check_axes
from pullback.ops.traits import HasPosition


class Pad(Op, HasPosition):
    """The operand with `value` (rank 0) before, after and between its elements.

    As in StableHLO: `interior` values between neighbours, and negative `low` or `high` crop.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    kinds: ClassVar[str] = "biufc"
    linear: ClassVar[bool] = True
    cheap: ClassVar[bool] = True
    text = GRADIENT
    imported = Imported(("pad",), ("edge_padding_low", "edge_padding_high", "interior_padding"))
    int_fields = ("low", "high", "interior")

    @property
    def position(self) -> tuple[int, ...]:
        plain = not any(self.interior) and min((*self.low, *self.high), default=0) >= 0
        return self.low if plain else ()

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        x, value = xs
        return TABLE["UpdateAt"]()(Broadcast(out.shape)(value), x, *starts)

    def infer(self, x: Type, value: Type) -> Type:
        same_dtype(self.title, x, value)
        if value.shape:
            raise ShapeError(f"the padding value must have rank 0, got {value}", code="E3002")
        if not len(self.low) == len(self.high) == len(self.interior) == x.rank:
            what = f"low, high and interior need one number for each dimension of {x}"
            got = f"{list(self.low)}, {list(self.high)} and {list(self.interior)}"
            raise ShapeError(f"{what}, got {got}", code="E3002")
        if any(n < 0 for n in self.interior):
            what = f"interior padding must not be negative, got {list(self.interior)}"
            raise ShapeError(what, code="E3006")
        shape = self.padded(x.shape)
        if any(n < 0 for n in shape):
            what = f"padding must not crop more than there is, {x} would become {list(shape)}"
            raise ShapeError(what, code="E3006")
        return x.with_shape(shape)

    def padded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sides = zip(self.low, self.high, self.interior, shape, strict=True)
        return tuple(low + high + n + max(n - 1, 0) * inner for low, high, inner, n in sides)

    def kept(self, shape: tuple[int, ...]) -> list[tuple[range, range]]:
        """For each dimension: the elements that are kept, and their positions in the result."""
        kept = []
        sides = zip(self.low, self.interior, shape, self.padded(shape), strict=True)
        for low, inner, n, m in sides:
            step = inner + 1
            first = min(max(0, -(low // step)), n)  # the first i with low + i * step >= 0
            last = max(first, min(n, -((low - m) // step)))  # the first with low + i * step >= m
            target = range(low + first * step, low + (last - 1) * step + 1, step)
            kept.append((range(first, last), target if last > first else range(0)))
        return kept

    def numpy(self, x: np.ndarray, value: np.ndarray) -> np.ndarray:
        out = np.full(self.padded(x.shape), value, x.dtype)
        kept = self.kept(x.shape)
        target = tuple(slice(p.start, p.stop, p.step) for _, p in kept)
        out[target] = x[tuple(slice(e.start, e.stop) for e, _ in kept)]
        return out

    def hlo(self, b: Any, out: Type, x: Any, value: Any) -> Any:
        return b.op(
            "stablehlo.pad", x, value, out=out, edge_padding_low=self.low,
            edge_padding_high=self.high, interior_padding=self.interior,
        )  # fmt: skip

    def factors(self, x: Type, value: Type) -> str:
        sides = zip(self.low, self.high, self.interior, strict=True)
        words = factor_rule_names(x.rank, [i for i, side in enumerate(sides) if any(side)])
        return factor_rule([words, []], [words])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x, total = xs[0].type, TABLE["Sum"](tuple(range(g.type.rank)), False)
        of_value = total(where(self._padding(x.shape), g, 0)) if need[1] else None
        return [self._pull(g, x) if need[0] else None, of_value]

    def _pull(self, g: Node, x: Type) -> Node:
        """Slice the elements out again; those that were cropped are zero."""
        kept = self.kept(x.shape)
        bounds = zip(*[(p.start, p.stop, p.step) for _, p in kept]) if kept else ((), (), ())
        taken = Slice(*bounds)(g)
        if taken.type.shape == x.shape:
            return taken
        low = tuple(e.start for e, _ in kept)
        high = tuple(n - e.stop for (e, _), n in zip(kept, x.shape, strict=True))
        return Pad(low, high, (0,) * x.rank)(taken, constant_node(0, g.type.dtype))

    def _padding(self, shape: tuple[int, ...]) -> Node:
        """Which elements of the result are padding."""
        return self(zeros(Type(shape, bool_)), constant_node(True, bool_))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        x, value = xs
        shape = x.type.shape[1:] if mapped[0] else x.type.shape
        behind = Pad((0, *self.low), (0, *self.high), (0, *self.interior)) if mapped[0] else self
        if not mapped[1]:
            return behind(x, value)
        # Each example has its own value: select it where there is padding.
        padded = behind(x, constant_node(0, x.type.dtype))
        return where(self._padding(shape), align_elementwise_operand(value, len(shape)), padded)

    @classmethod
    def samples(cls) -> Any:
        yield cls((1, 0), (2, 3), (0, 2)), (real(3, 2), real())
        yield cls((-1, 2), (1, -3), (1, 1)), (real(4, 5), real(salt=1))
        yield cls((), (), ()), (real(), real(salt=1))
        yield cls((2,), (1,), (3,)), (real(0), real())
        yield cls((-3,), (4,), (0,)), (real(2), real())
        yield cls((-2,), (-1,), (2,)), (real(5), real())
        yield cls((1, -2), (0, 0), (0, 0)), (real(2, 2), real())


class Concat(Op):
    """The operands in sequence along `axis`."""

    axis: int
    kinds: ClassVar[str] = "biufc"
    linear: ClassVar[bool] = True
    batch = batch_along
    cheap: ClassVar[bool] = True
    imported = Imported(("concatenate",), ("dimension",))

    def infer(self, *xs: Type) -> Type:
        if not xs:
            raise ArgumentError("needs at least one operand", code="E2007")
        same_dtype(self.title, *xs)
        first = xs[0]
        check_axes((self.axis,), first.rank)
        for x in xs:
            if x.rank != first.rank:
                raise ShapeError(
                    f"operands must have the same rank, got {show_types(xs)}", code="E3002"
                )
            if self._others(x.shape) != self._others(first.shape):
                what = f"sizes must agree except along axis {self.axis}, got {show_types(xs)}"
                raise ShapeError(what, code="E3001")
        total = sum(x.shape[self.axis] for x in xs)
        return first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]))

    def _others(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[: self.axis] + shape[self.axis + 1 :]

    def numpy(self, *xs: np.ndarray) -> np.ndarray:
        return np.concatenate(xs, self.axis)

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        return b.op("stablehlo.concatenate", *xs, out=out, dimension=self.axis)

    def factors(self, *xs: Type) -> str:
        return alike_factor_rule(xs[0].rank, (self.axis,), len(xs))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        starts, stops = [0] * g.type.rank, list(g.type.shape)
        steps = (1,) * g.type.rank
        pulled: list[Node | None] = []
        end = 0
        for x, n in zip(xs, need, strict=True):
            starts[self.axis], end = end, end + x.type.shape[self.axis]
            stops[self.axis] = end
            pulled.append(Slice(tuple(starts), tuple(stops), steps)(g) if n else None)
        return pulled

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(2, 3), real(1, 3, salt=1))
        widths = (1, 2, 0, 3, 1, 2)
        yield cls(1), tuple(real(2, n, salt=i) for i, n in enumerate(widths))
        yield cls(0), (real(3),)
        yield cls(1), (real(0, 2), real(0, 3))


def shift_by_pad(x: Node, axis: int, reverse: bool, first: Any) -> Node:
    """`x` shifted by one: each element's predecessor in the direction of a scan, then `first`."""
    if not x.type.size:
        return x
    before, after = ([n if i == axis else 0 for i in range(x.type.rank)] for n in (1, -1))
    low, high = (after, before) if reverse else (before, after)
    pad = Pad(tuple(low), tuple(high), (0,) * x.type.rank)
    return pad(x, constant_node(first, x.type.dtype))
