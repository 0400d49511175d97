"""Ops that rearrange elements: reshape, broadcast, transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.errors import ShapeError
from pullback.graph.op_kinds import RearrangementKind
from pullback.ops.elementwise.elementwise import align_elementwise_operand
from pullback.ops.factor_rules import factor_rule, factor_rule_names, reshape_factor_rule
from pullback.ops.prelude import TABLE, Axis, Imported, Node, Op, Text, Type, counted
from pullback.ops.samples import real


class Movement(Op, RearrangementKind, abstract=True):
    """One operand of any dtype; linear, so its jvp is the op itself."""

    kinds: ClassVar[str] = "biufc"
    linear: ClassVar[bool] = True
    cheap: ClassVar[bool] = True
    cases: ClassVar[tuple] = ()  # for samples: the parameter, and the shape of the operand

    @classmethod
    def samples(cls) -> Any:
        for parameter, shape in cls.cases:
            yield cls(parameter), (real(*shape),)  # type: ignore[call-arg]


class ToShape(Movement, abstract=True):
    """A movement whose only parameter is the result's shape."""

    shape: tuple[int, ...]

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.types[0].shape)

    def local(self, xs: Sequence[Type], out: Type) -> Op:
        return type(self)(out.shape)


class _ReshapeText(Text):
    def read(self, cls: Any, xs: Sequence[Type], *, shape: tuple[int, ...]) -> Op:
        """In text, one size may be -1: it follows from the others."""
        others = math.prod([n for n in shape if n != -1])
        if shape.count(-1) == 1 and others > 0:
            rest = xs[0].size // others  # if it does not divide, the counts will not agree
            shape = tuple([rest if n == -1 else n for n in shape])
        return cls(shape)


class Reshape(ToShape):
    """The same elements, in row-major order, in another shape."""

    text = _ReshapeText(("shape",), "core-v1", spellings={"new_shape": "shape"})
    imported = Imported(("reshape",))
    cases = (((6, 2), (3, 4)), ((4, 6), (6, 4)), ((), (1, 1)), ((0, 5), (3, 0)))

    def infer(self, x: Type) -> Type:
        if min(self.shape, default=0) < 0:
            raise ShapeError(f"sizes must not be negative, got {list(self.shape)}", code="E3006")
        if math.prod(self.shape) != x.size:
            counts = x.size, math.prod(self.shape)
            what = f"element counts must agree, got {x} to {list(self.shape)}"
            raise ShapeError(what, code="E3007", counts=counts)
        return x.with_shape(self.shape)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.reshape(x, self.shape)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.reshape(x, self.shape)

    def factors(self, x: Type) -> str:
        return reshape_factor_rule(x.shape, self.shape) if x.size else super().factors(x)

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [Reshape(xs[0].type.shape)(g)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return Reshape((axis.size, *self.shape))(xs[0])


class Broadcast(ToShape):
    """NumPy broadcasting to `shape`."""

    text = Text(("shape",), "core-v1+gradient")
    imported = Imported(("broadcast_in_dim",))
    cases = (((2, 3, 4), (3, 1)), ((2, 3), ()), ((1, 3), (1, 3)), ((2, 0), (1, 1)))

    def infer(self, x: Type) -> Type:
        offset = len(self.shape) - x.rank
        if offset < 0 or any(n not in (1, self.shape[i + offset]) for i, n in enumerate(x.shape)):
            raise ShapeError(f"cannot broadcast {x} to {list(self.shape)}", code="E3001")
        return x.with_shape(self.shape)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, self.shape)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.broadcast(x, self.shape)

    def factors(self, x: Type) -> str:
        new = factor_rule_names(len(self.shape))
        offset = len(new) - x.rank
        old = [new[i + offset] if n == self.shape[i + offset] else "1"
               for i, n in enumerate(x.shape)]  # fmt: skip
        return factor_rule([old], [new])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        x = xs[0].type
        extra = g.type.rank - x.rank
        wide = [i + extra for i, n in enumerate(x.shape) if n == 1 and g.type.shape[i + extra] != 1]
        axes = (*range(extra), *wide)
        if axes:
            g = TABLE["Sum"](axes, False)(g)
        return [g if g.type.shape == x.shape else Reshape(x.shape)(g)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return Broadcast((axis.size, *self.shape))(
            align_elementwise_operand(xs[0], len(self.shape))
        )


class _TransposeText(Text):
    def read(self, cls: Any, xs: Sequence[Type], *, perm: tuple[int, ...]) -> Op:
        return cls(counted(perm, xs[0].rank))


class Transpose(Movement):
    """The dimensions in another order: dimension i of the result is `perm[i]` of the operand."""

    perm: tuple[int, ...]
    text = _TransposeText(("perm",), "core-v1", spellings={"permutation": "perm"})
    imported = Imported(("transpose",), ("permutation",))
    int_fields = ("perm",)
    cases = (((1, 0), (2, 3)), ((2, 0, 1), (2, 3, 4)), ((), ()), ((0, 2, 1), (2, 0, 3)))

    def infer(self, x: Type) -> Type:
        if sorted(self.perm) != list(range(x.rank)):
            what = f"perm must be a permutation of the {x.rank} dimensions of {x}"
            got = f"{what}, got {list(self.perm)}"
            raise ShapeError(got, code="E3008", permutation=self.perm, rank=x.rank)
        return x.with_shape(x.shape[p] for p in self.perm)

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return np.transpose(x, self.perm)

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.transpose(x, self.perm)

    def factors(self, x: Type) -> str:
        old = factor_rule_names(x.rank)
        return factor_rule([old], [[old[p] for p in self.perm]])

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        inverse = sorted(range(len(self.perm)), key=self.perm.__getitem__)
        return [Transpose(tuple(inverse))(g)]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return Transpose((0, *[p + 1 for p in self.perm]))(xs[0])


def move_dimension(x: Node, source: int, target: int) -> Node:
    """Move one dimension to another position; the others keep their order."""
    if source == target:
        return x
    order = [i for i in range(x.type.rank) if i != source]
    order.insert(target, source)
    return Transpose(tuple(order))(x)
