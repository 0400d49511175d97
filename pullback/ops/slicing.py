"""Slicing and its counterparts: parts of a tensor, and tensors put together from parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.ir.dtypes import bool_
from pullback.ir.errors import ArgumentError, ShapeError
from pullback.ir.types import show
from pullback.ir.values import Range
from pullback.ops.base import (
    TABLE,
    Axis,
    Node,
    Op,
    Type,
    batch_along,
    constant,
    same_dtype,
    zeros,
)
from pullback.ops.elementwise.base import align, where
from pullback.ops.factoring import alike, named, rule
from pullback.ops.movement import Movement
from pullback.ops.reduce import check_axes
from pullback.ops.sample import real


class Slice(Movement):
    """Elements `start`, `start + step`, ... before `stop` of each dimension.

    Bounds are clamped to [0, extent]; steps are positive (the API flips for negative ones).
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]
    positional: ClassVar[tuple[str, ...]] = ("ranges",)
    spellings: ClassVar[dict[str, str]] = {"ends": "stops"}
    profile = "core-v1"
    instructions = ("slice",)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i["start_indices"], i["limit_indices"], i["strides"])

    def __post_init__(self) -> None:
        for field in ("starts", "stops", "steps"):
            self.set(field, tuple(map(int, getattr(self, field))))

    def written(self, xs: Sequence[Type]) -> dict[str, Any]:
        """The text has one list of ranges, unless the lists do not even agree."""
        made = self._inside(xs[0])
        lists = {"starts": made.starts, "stops": made.stops, "steps": made.steps}
        if len(set(map(len, lists.values()))) > 1:
            return lists
        return {"ranges": tuple(map(Range, *lists.values()))}

    @classmethod
    def read(
        cls, xs: Sequence[Type], *, ranges: tuple[Range, ...] | None = None,
        starts: tuple[int, ...] = (), stops: tuple[int, ...] = (), steps: tuple[int, ...] = (),
    ) -> Slice:  # fmt: skip
        if ranges is not None:
            starts, stops = tuple([r.start for r in ranges]), tuple([r.stop for r in ranges])
            steps = tuple([r.step for r in ranges])
        return cls(starts, stops, steps)._inside(xs[0])

    def _inside(self, x: Type) -> Slice:
        """The same slice with its bounds inside the operand; a wrong one as it is."""
        lists = self.starts, self.stops, self.steps
        if {*map(len, lists)} != {x.rank} or min(self.steps, default=1) < 1:
            return self
        ranges = self.ranges(x.shape)
        bounds = [tuple([getattr(r, name) for r in ranges]) for name in ("start", "stop", "step")]
        return Slice(*bounds)

    @property
    def position(self) -> tuple[int, ...]:
        return self.starts if all(step == 1 for step in self.steps) else ()

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        return TABLE["SliceAt"](out.shape)(*xs, *starts)

    def infer(self, x: Type) -> Type:
        lengths = [len(self.starts), len(self.stops), len(self.steps)]
        if lengths != [x.rank] * 3:
            raise ShapeError(
                f"a slice needs a start, a stop and a step for each of the {x.rank} dimensions "
                f"of {x}, got {lengths[0]}, {lengths[1]} and {lengths[2]}",
                code="E4007", lengths=tuple(lengths), rank=x.rank,
            )  # fmt: skip
        for axis, step in enumerate(self.steps):
            if step < 1:
                what = f"a step must be positive, got {step} for axis {axis}"
                raise ShapeError(what, code="E4008", axis=axis, step=step)
        return x.with_shape(map(len, self.ranges(x.shape)))

    def ranges(self, shape: tuple[int, ...]) -> list[range]:
        """The positions that are taken along each dimension."""
        made = []
        for start, stop, step, n in zip(self.starts, self.stops, self.steps, shape, strict=True):
            start = min(max(start, 0), n)
            # a step beyond the extent is as good as the extent, and fits 64 bits
            made.append(range(start, max(start, min(stop, n)), min(step, max(n, 1))))
        return made

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[tuple(slice(r.start, r.stop, r.step) for r in self.ranges(x.shape))])

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        ranges = self.ranges(x.shape)
        return b.op(
            "stablehlo.slice", x, out=out,
            start_indices=tuple(r.start for r in ranges),
            limit_indices=tuple(r.stop for r in ranges),
            strides=tuple(r.step for r in ranges),
        )  # fmt: skip

    def _cut(self, shape: tuple[int, ...]) -> list[int]:
        """The dimensions of which not all is taken."""
        return [i for i, r in enumerate(self.ranges(shape)) if r != range(shape[i])]

    def factors(self, x: Type) -> str:
        return alike(x.rank, tuple(self._cut(x.shape)))

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        # a dimension of which all is taken ends where the device's part does
        extents = zip(xs[0].shape, out.shape, strict=True)
        stops = [n if n == m else stop for (n, m), stop in zip(extents, self.stops, strict=True)]
        return Slice(self.starts, tuple(stops), self.steps)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        shape = xs[0].type.shape
        # of a single element the step has no meaning, and Pad would not see it either
        low = [r.start for r in self.ranges(shape)]
        interior = [r.step - 1 if len(r) > 1 else 0 for r in self.ranges(shape)]
        ends = [r[-1] + 1 if r else r.start for r in self.ranges(shape)]
        high = [n - end for n, end in zip(shape, ends, strict=True)]
        return [Pad(tuple(low), tuple(high), tuple(interior))(g, constant(0, g.type.dtype))]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return Slice((0, *self.starts), (axis.size, *self.stops), (1, *self.steps))(xs[0])

    @classmethod
    def samples(cls) -> Any:
        yield cls((1, 0), (6, 3), (2, 1)), (real(7, 3),)
        yield cls((2,), (9,), (3,)), (real(8),)
        yield cls((), (), ()), (real(),)
        yield cls((3, 1), (2, 100), (1, 50)), (real(4, 5),)
        yield cls((0, 5), (0, 5), (1, 2)), (real(0, 5),)


class Pad(Op):
    """The operand with `value` (rank 0) before, after and between its elements.

    As in StableHLO, `interior` values go between neighbours, and negative `low` or `high` crop.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    kinds: ClassVar[str] = "biufc"
    linear: ClassVar[bool] = True
    cheap: ClassVar[bool] = True
    profile = "core-v1+gradient"
    instructions = ("pad",)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i["edge_padding_low"], i["edge_padding_high"], i["interior_padding"])

    def __post_init__(self) -> None:
        for field in ("low", "high", "interior"):
            self.set(field, tuple(map(int, getattr(self, field))))

    @property
    def position(self) -> tuple[int, ...]:
        plain = not any(self.interior) and min((*self.low, *self.high), default=0) >= 0
        return self.low if plain else ()

    def anywhere(self, out: Type, xs: Sequence[Node], starts: Sequence[Node]) -> Node:
        x, value = xs
        return TABLE["UpdateAt"]()(TABLE["Broadcast"](out.shape)(value), x, *starts)

    def infer(self, x: Type, value: Type) -> Type:
        same_dtype(self.title, x, value)
        if value.shape:
            raise ShapeError(f"the padding value must have rank 0, got {value}", code="E3002")
        if not len(self.low) == len(self.high) == len(self.interior) == x.rank:
            raise ShapeError(
                f"low, high and interior need one number for each of the {x.rank} dimensions of "
                f"{x}, got {list(self.low)}, {list(self.high)} and {list(self.interior)}",
                code="E3002",
            )
        if any(n < 0 for n in self.interior):
            raise ShapeError(
                f"interior padding must not be negative, got {list(self.interior)}", code="E3006"
            )
        shape = self.padded(x.shape)
        if any(n < 0 for n in shape):
            raise ShapeError(
                f"negative padding must not crop more than there is, {x} would become "
                f"{list(shape)}",
                code="E3006",
            )
        return x.with_shape(shape)

    def padded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sides = zip(self.low, self.high, self.interior, shape, strict=True)
        return tuple(low + high + n + max(n - 1, 0) * inner for low, high, inner, n in sides)

    def kept(self, shape: tuple[int, ...]) -> list[tuple[range, range]]:
        """For each dimension: which elements stay, and where they stand in the result."""
        made = []
        sides = zip(self.low, self.interior, shape, self.padded(shape), strict=True)
        for low, inner, n, m in sides:
            step = inner + 1
            first = min(max(0, -(low // step)), n)  # the first i with low + i * step >= 0
            last = max(first, min(n, -((low - m) // step)))  # the first with low + i * step >= m
            place = low + first * step
            places = range(place, low + (last - 1) * step + 1, step) if last > first else range(0)
            made.append((range(first, last), places))
        return made

    def numpy(self, x: np.ndarray, value: np.ndarray) -> np.ndarray:
        out = np.full(self.padded(x.shape), value, x.dtype)
        kept = self.kept(x.shape)
        places = tuple(slice(p.start, p.stop, p.step) for _, p in kept)
        out[places] = x[tuple(slice(e.start, e.stop) for e, _ in kept)]
        return out

    def hlo(self, b: Any, out: Type, x: Any, value: Any) -> Any:
        return b.op(
            "stablehlo.pad", x, value, out=out, edge_padding_low=self.low,
            edge_padding_high=self.high, interior_padding=self.interior,
        )  # fmt: skip

    def factors(self, x: Type, value: Type) -> str:
        sides = zip(self.low, self.high, self.interior, strict=True)
        words = named(x.rank, [i for i, side in enumerate(sides) if any(side)])
        return rule([words, []], [words])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x = xs[0].type
        return [
            self._pull(g, x) if need[0] else None,
            self._pull_value(g, x) if need[1] else None,
        ]

    def _pull(self, g: Node, x: Type) -> Node:
        """One Slice takes the elements out again; zeros stand for those that were cropped."""
        kept = self.kept(x.shape)
        places = [p for _, p in kept]
        taken = Slice(
            tuple(p.start for p in places), tuple(p.stop for p in places),
            tuple(p.step for p in places),
        )(g)  # fmt: skip
        if taken.type.shape == x.shape:
            return taken
        low = tuple(e.start for e, _ in kept)
        high = tuple(n - e.stop for (e, _), n in zip(kept, x.shape, strict=True))
        return Pad(low, high, (0,) * x.rank)(taken, constant(0, g.type.dtype))

    def _pull_value(self, g: Node, x: Type) -> Node:
        """The sum of what stands where there is padding."""
        only = where(self._padding(x.shape), g, 0)
        return TABLE["Sum"](tuple(range(g.type.rank)), False)(only)

    def _padding(self, shape: tuple[int, ...]) -> Node:
        """Which elements of the result are padding."""
        return self(zeros(Type(shape, bool_)), constant(True, bool_))

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        x, value = xs
        shape = x.type.shape[1:] if mapped[0] else x.type.shape
        behind = Pad((0, *self.low), (0, *self.high), (0, *self.interior)) if mapped[0] else self
        if not mapped[1]:
            return behind(x, value)
        # each example has a value of its own: it is laid over what another one padded
        padded = behind(x, constant(0, x.type.dtype))
        return where(self._padding(shape), align(value, len(shape)), padded)

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
    """The operands one after the other along `axis`."""

    axis: int
    kinds: ClassVar[str] = "biufc"
    linear: ClassVar[bool] = True
    batch = batch_along
    cheap: ClassVar[bool] = True
    instructions = ("concatenate",)

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i["dimension"])

    def infer(self, *xs: Type) -> Type:
        if not xs:
            raise ArgumentError("needs at least one operand", code="E2007")
        same_dtype(self.title, *xs)
        first = xs[0]
        check_axes((self.axis,), first.rank)
        for x in xs:
            if x.rank != first.rank:
                raise ShapeError(f"operands must have one rank, got {show(xs)}", code="E3002")
            if self._others(x.shape) != self._others(first.shape):
                raise ShapeError(
                    f"extents must agree except along axis {self.axis}, got {show(xs)}",
                    code="E3001",
                )
        total = sum(x.shape[self.axis] for x in xs)
        return first.with_shape((*first.shape[: self.axis], total, *first.shape[self.axis + 1 :]))

    def _others(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape[: self.axis] + shape[self.axis + 1 :]

    def numpy(self, *xs: np.ndarray) -> np.ndarray:
        return np.concatenate(xs, self.axis)

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        return b.op("stablehlo.concatenate", *xs, out=out, dimension=self.axis)

    def factors(self, *xs: Type) -> str:
        return alike(xs[0].rank, (self.axis,), len(xs))

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        starts, stops = [0] * g.type.rank, list(g.type.shape)
        steps = (1,) * g.type.rank
        made: list[Node | None] = []
        end = 0
        for x, n in zip(xs, need, strict=True):
            starts[self.axis], end = end, end + x.type.shape[self.axis]
            stops[self.axis] = end
            made.append(Slice(tuple(starts), tuple(stops), steps)(g) if n else None)
        return made

    @classmethod
    def samples(cls) -> Any:
        yield cls(0), (real(2, 3), real(1, 3, salt=1))
        widths = (1, 2, 0, 3, 1, 2)
        yield cls(1), tuple(real(2, n, salt=i) for i, n in enumerate(widths))
        yield cls(0), (real(3),)
        yield cls(1), (real(0, 2), real(0, 3))
