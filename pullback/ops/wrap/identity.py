"""Ops that return their operand: they affect derivatives or the compiler, not values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.op_kinds import Detached, Transparent
from pullback.ops.factor_rules import fixed_factor_rule
from pullback.ops.prelude import Axis, Node, Op, Type
from pullback.ops.samples import real


class IdentityOp(Op, abstract=True):
    """Returns its operand."""

    cheap: ClassVar[bool] = True
    factors = fixed_factor_rule("... -> ...")

    def infer(self, x: Type) -> Type:
        return x

    def numpy(self, x: np.ndarray) -> np.ndarray:
        return x

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return x

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [g]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return ts[0]

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4),)


class Alias(IdentityOp, Transparent):
    """A separate node for an argument of a function that is being differentiated."""


class StopGradient(IdentityOp, Transparent, Detached):
    """Returns its operand, which every derivative treats as a constant."""


class Contiguous(IdentityOp):
    """A request for a contiguous layout, which has no effect: the engine decides on layouts."""
