"""Barriers: ops that keep computations apart or together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pullback.graph.op_kinds import DistinctKind, SparseCotangentsKind
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.imported import Imported
from pullback.ops.prelude import Axis, Node, Op, Type, jvp_in_first
from pullback.ops.samples import real
from pullback.ops.wrap.identity import IdentityOp


class OptimizationBarrier(IdentityOp, DistinctKind):
    """Prevents the compiler from moving or merging computations across it."""

    cheap: ClassVar[bool] = False
    imported = Imported(("optimization_barrier",))
    jvp = jvp_in_first

    @classmethod
    def from_hlo(cls, i: Any) -> Op | None:
        return cls() if len(i.types) == 1 else None

    def hlo(self, b: Any, out: Type, x: Any) -> Any:
        return b.barrier(x)[0]

    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self(g)]


class Barrier(Op, DistinctKind, SparseCotangentsKind):
    """Returns its operands once all of them are computed."""

    imported = Imported(("optimization_barrier",), last=True)

    def infer(self, *xs: Type) -> tuple[Type, ...]:
        return xs

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs

    def _derive_type(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        return types  # with named axes and sharding

    def numpy(self, *xs: np.ndarray) -> tuple[np.ndarray, ...]:
        return xs

    def hlo(self, b: Any, out: tuple[Type, ...], *xs: Any) -> Any:
        return b.barrier(*xs)

    def factors(self, *xs: Type) -> str:
        dims = [factor_rule_names(x.rank, letter=f"x{i}_") for i, x in enumerate(xs)]
        return factor_rule(dims, dims)

    def vjp(self, g: Any, out: Any, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return list(g)

    def jvp(self, out: Any, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Any:
        return tuple(ts)

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Node:
        return self(*xs)

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), real(2, salt=1))
