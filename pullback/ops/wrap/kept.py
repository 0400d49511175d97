"""Values that a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.graph.op_kinds import HigherOrderKind, Transparent
from pullback.ops.elementwise.elementwise import is_singular_elementwise
from pullback.ops.prelude import Axis, Node, Op, Type
from pullback.ops.wrap.identity import Alias


class Kept(Op, Transparent, HigherOrderKind, abstract=True):
    """A saved value: its first operand, which equals `op` applied to the others. Programs use the
    operand; derivatives use the rules of `op`."""

    op: Op

    @property
    def title(self) -> str:  # type: ignore[override]
        return self.op.title

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return self.op.differentiable

    @property
    def singular(self) -> bool:
        return is_singular_elementwise(self.op)

    def infer(self, x: Type, *xs: Type) -> Type:
        return x

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs

    def _derive_type(self, types: tuple[Type, ...]) -> Type:
        return types[0]

    def numpy(self, x: np.ndarray, *xs: np.ndarray) -> np.ndarray:
        return x

    def hlo(self, b: Any, out: Type, x: Any, *xs: Any) -> Any:
        return x

    def partition(self, to: Any, xs: Sequence[Any], type: Type) -> Any:
        return xs[0]

    def vjp(
        self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool], gradients: Callable
    ) -> Sequence:
        if self.op.vjp is not None:
            transform = (gradients,) if isinstance(self.op, HigherOrderKind) else ()
            return [None, *self.op.vjp(g, out, xs[1:], need[1:], *transform)]
        inputs = [Alias()(x) for x in xs[1:]]
        needed = [x for x, n in zip(inputs, need[1:], strict=True) if n]
        found = iter(gradients([self.op(*inputs)], [g], needed))
        return [None, *[next(found) if n else None for n in need[1:]]]

    def jvp(
        self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None], tangents: Callable
    ) -> Node | None:
        if self.op.jvp is not None:
            transform = (tangents,) if isinstance(self.op, HigherOrderKind) else ()
            return self.op.jvp(out, xs[1:], ts[1:], *transform)
        inputs = [Alias()(x) for x in xs[1:]]
        return tangents([self.op(*inputs)], inputs, ts[1:])[0]

    def batch(
        self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool], batched_graph: Callable
    ) -> Node:
        return xs[0]  # computed from the same values, so its derivative is the same
