"""A value that is tied to another, which is computed as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback.errors import DTypeError
from pullback.ops.factor_rules import factor_rule, factor_rule_names
from pullback.ops.prelude import Axis, Node, Op, Type
from pullback.ops.samples import real
from pullback.ops.wrap.debug_print import BEGIN, _one_debug_print


class Tied(Op):
    """Returns its first operand; the second, an i32, is computed as well."""

    def infer(self, x: Type, prints: Type) -> Type:
        if prints != BEGIN:
            raise DTypeError(f"the second operand must be {BEGIN}, got {prints}")
        return x

    def conform(self, xs: tuple[Node, ...]) -> tuple[Op, tuple[Node, ...]]:
        return self, xs

    def _derive_type(self, types: tuple[Type, ...]) -> Type:
        self.infer(types[0], types[1].plain)
        return types[0]  # with named axes and sharding

    def numpy(self, x: np.ndarray, prints: np.ndarray) -> np.ndarray:
        return x

    def hlo(self, b: Any, out: Type, x: Any, prints: Any) -> Any:
        return x  # calls of Python functions are never removed

    def factors(self, x: Type, prints: Type) -> str:
        dims = factor_rule_names(x.rank)
        return factor_rule([dims, []], [dims])

    # Derivatives print too: they may be all that is computed
    def vjp(self, g: Node, out: Node, xs: tuple[Node, ...], need: Sequence[bool]) -> Sequence:
        return [self(g, xs[1]), None]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node | None:
        return None if ts[0] is None else self(ts[0], xs[1])

    def batch(self, axis: Axis, xs: tuple[Node, ...], mapped: Sequence[bool]) -> Any:
        return self(xs[0], _one_debug_print(xs[1], mapped[1]))

    @classmethod
    def samples(cls) -> Any:
        yield cls(), (real(3, 4), np.int32(0))
