"""Slicing: every n-th element of a range, in each dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import ShapeError
from pullback.ops.factor_rules import alike_factor_rule
from pullback.ops.hlo_instructions import hlo_slice_instruction
from pullback.ops.prelude import TABLE, Axis, Imported, Node, Op, Type, constant_node
from pullback.ops.samples import real
from pullback.ops.shape.movement import Movement
from pullback.ops.text import OpTextRange, Text
from pullback.ops.traits import HasPosition


class _SliceText(Text):
    def written(self, op: Any, xs: Sequence[Type]) -> dict[str, Any]:
        """The text has one list of ranges, unless the lists have different lengths."""
        inside = op.inside(xs[0])
        lists = {"starts": inside.starts, "stops": inside.stops, "steps": inside.steps}
        if len(set(map(len, lists.values()))) > 1:
            return lists
        return {"ranges": tuple(map(OpTextRange, *lists.values()))}

    def read(
        self, cls: Any, xs: Sequence[Type], *, ranges: tuple[OpTextRange, ...] | None = None,
        starts: tuple[int, ...] = (), stops: tuple[int, ...] = (), steps: tuple[int, ...] = (),
    ) -> Op:  # fmt: skip
        if ranges is not None:
            starts, stops = tuple([r.start for r in ranges]), tuple([r.stop for r in ranges])
            steps = tuple([r.step for r in ranges])
        return cls(starts, stops, steps).inside(xs[0])


class Slice(Movement, HasPosition):
    """Elements `start`, `start + step`, ... before `stop` of each dimension.

    Bounds are clamped to [0, size]; steps are positive (the API flips for negative ones).
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]
    text = _SliceText(("ranges",), "core-v1", spellings={"ends": "stops"})
    imported = Imported(("slice",), ("start_indices", "limit_indices", "strides"))
    int_fields = ("starts", "stops", "steps")

    def inside(self, x: Type) -> Slice:
        """The same slice with its bounds clamped to the operand; an invalid one unchanged."""
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
            what = f"a slice needs a start, a stop and a step for each dimension of {x}"
            got = f"{what}, got {lengths[0]}, {lengths[1]} and {lengths[2]}"
            raise ShapeError(got, code="E4007", lengths=tuple(lengths), rank=x.rank)
        for axis, step in enumerate(self.steps):
            if step < 1:
                what = f"a step must be positive, got {step} for axis {axis}"
                raise ShapeError(what, code="E4008", axis=axis, step=step)
        return x.with_shape(map(len, self.ranges(x.shape)))

    def ranges(self, shape: tuple[int, ...]) -> list[range]:
        """The positions that are taken along each dimension."""
        ranges = []
        for start, stop, step, n in zip(self.starts, self.stops, self.steps, shape, strict=True):
            start = min(max(start, 0), n)
            # A step beyond the size has the effect of the size, which fits 64 bits.
            ranges.append(range(start, max(start, min(stop, n)), min(step, max(n, 1))))
        return ranges

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x[tuple(slice(r.start, r.stop, r.step) for r in self.ranges(x.shape))])

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        inside = self.inside(x.type)
        return hlo_slice_instruction(b, x, inside.starts, inside.stops, inside.steps)

    def factors(self, x: Type) -> str:
        cut = [i for i, r in enumerate(self.ranges(x.shape)) if r != range(x.shape[i])]
        return alike_factor_rule(x.rank, tuple(cut))

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        # A dimension that is taken whole ends where the device's part ends.
        sizes = zip(xs[0].shape, out.shape, self.stops, strict=True)
        stops = [n if n == m else stop for n, m, stop in sizes]
        return Slice(self.starts, tuple(stops), self.steps)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        shape = xs[0].type.shape
        ranges = self.ranges(shape)
        low = tuple([r.start for r in ranges])
        high = tuple([n - (r[-1] + 1 if r else r.start) for r, n in zip(ranges, shape)])
        # The step of a single element means nothing, and Pad ignores it too.
        interior = tuple([r.step - 1 if len(r) > 1 else 0 for r in ranges])
        return [TABLE["Pad"](low, high, interior)(g, constant_node(0, g.type.dtype))]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return Slice((0, *self.starts), (axis.size, *self.stops), (1, *self.steps))(xs[0])

    @classmethod
    def samples(cls) -> Any:
        yield cls((1, 0), (6, 3), (2, 1)), (real(7, 3),)
        yield cls((2,), (9,), (3,)), (real(8),)
        yield cls((), (), ()), (real(),)
        yield cls((3, 1), (2, 100), (1, 50)), (real(4, 5),)
        yield cls((0, 5), (0, 5), (1, 2)), (real(0, 5),)
