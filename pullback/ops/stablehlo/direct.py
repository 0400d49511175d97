"""Instructions with the meaning of another op, which is lowered to more than the instruction."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.types import show_types
from pullback.ops.prelude import TABLE, Composite, Imported, Node, Op, Text, Type
from pullback.ops.samples import integer_samples, real

# Elementwise instructions, and the ops that have their meaning and derivative.
MEANINGS = {
    "abs": "Abs", "cbrt": "Cbrt", "ceil": "Ceil", "cosine": "Cos", "divide": "Div",
    "exponential": "Exp", "exponential_minus_one": "Expm1", "floor": "Floor", "log": "Log",
    "log_plus_one": "Log1p", "logistic": "Logistic", "maximum": "Maximum", "minimum": "Minimum",
    "power": "Pow", "round_nearest_even": "Round", "rsqrt": "Rsqrt", "sign": "Sign",
    "sine": "Sin", "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip


class Direct(Composite):
    """An elementwise instruction as the engine computes it: XLA's `maximum` loses NaN where it is
    fused, and its `log_plus_one` loses digits. Operands have the same type."""

    instruction: str
    text = Text(("instruction",))
    imported = Imported(tuple(MEANINGS), last=True)

    def __post_init__(self) -> None:
        if self.instruction not in MEANINGS:
            raise ArgumentError(f"{self.instruction!r} is not an elementwise instruction")

    @classmethod
    def from_hlo(cls, i: Any) -> Op:
        return cls(i.name)

    def infer(self, *xs: Type) -> Type:
        if any(x.shape != xs[0].shape for x in xs):
            raise ShapeError(
                f"operands must have the same shape, got {show_types(xs)}", code="E3001"
            )
        return TABLE[MEANINGS[self.instruction]]().infer(*xs)

    def expand(self, *xs: Node) -> Node:
        return TABLE[MEANINGS[self.instruction]]()(*xs)

    def hlo(self, b: Any, out: Type, *xs: Any) -> Any:
        return b.op(f"stablehlo.{self.instruction}", *xs, out=out)

    @classmethod
    def samples(cls) -> Any:
        yield cls("maximum"), (real(2, 3), real(2, 3, salt=1))
        yield cls("minimum"), (real(4), real(4, salt=1))
        yield cls("minimum"), (integer_samples(4), integer_samples(4, salt=1))
        yield cls("power"), (real(3, low=0.5, high=2.0), real(3, salt=1))
        yield cls("sqrt"), (real(3, low=0.5, high=2.0),)
        yield cls("tanh"), (real(2, 2),)
