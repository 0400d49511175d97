"""The base of contractions: the product rule, and products in NumPy and StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from pullback.graph.dtypes import DType, bfloat16, float32
from pullback.graph.op_kinds import SumOfProductsKind
from pullback.ops.linalg.product_kernel import product_call
from pullback.ops.prelude import Imported, Node, Op, Parts, Type, conjugate
from pullback.ops.reduce.reductions import widened_reduction_operand
from pullback.ops.shape.movement import Reshape, Transpose

Pair = tuple[tuple[int, ...], tuple[int, ...]]


class Contraction(Op, SumOfProductsKind, abstract=True):
    """A product of two operands, linear in each: its forward rule is the product rule."""

    kinds: ClassVar[str] = "iufc"
    parts = Parts(linear_in=(0, 1))
    imported = Imported(("dot_general",))

    def products(self, xs: Sequence[Type]) -> int:
        """How many products it adds up: by default, along the first operand's last dimension."""
        return self.type_of(*xs).size * xs[0].shape[-1]

    def jvp(self, out: Node, xs: tuple[Node, ...], ts: Sequence[Node | None]) -> Node:
        (x, y), (s, t) = xs, ts
        terms = [self(s, y)] if s is not None else []
        if t is not None:
            terms.append(self(x, t))
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]


def adjoint(x: Node) -> Node:
    """The conjugate transpose in the last two dimensions."""
    return conjugate(_swap_contraction(x.type.rank)(x))


@cache
def _swap_contraction(rank: int) -> Op:
    return Transpose((*range(rank - 2), rank - 1, rank - 2))


def contraction_column(x: Node) -> Node:
    return Reshape((*x.type.shape, 1))(x)


def numpy_contraction(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's matrix product. A single term is the sum itself, also if it is -0.0."""
    if x.shape[-1] == 1 and min(x.ndim, y.ndim) >= 2:
        return np.multiply(x, y)
    return np.matmul(widened_reduction_operand(x), widened_reduction_operand(y)).astype(x.dtype)


def contraction_precision(b: Any, dtype: DType) -> str:
    """The precision of factors: f32 is true f32 on every device, unless the user wants less;
    products of f16 and bf16 are exact in every unit."""
    less = dtype is float32 and b.matmul_precision != "highest"
    name = "DEFAULT" if less or (dtype.is_float and dtype.bits < 32) else "HIGHEST"
    return f"[#stablehlo<precision {name}>, #stablehlo<precision {name}>]"


def dot_general(b: Any, x: Any, y: Any, contract: Pair, batch: Pair) -> Any:
    """The instruction, or a call of a kernel; engines sum f16 and bf16 in f32 and round once."""
    left, right = (set(contract[i]) | set(batch[i]) for i in (0, 1))
    shape = [x.shape[i] for i in batch[0]]
    shape += [n for i, n in enumerate(x.shape) if i not in left]
    shape += [n for i, n in enumerate(y.shape) if i not in right]
    out = Type(tuple(shape), x.dtype)
    if b.platform != "cpu" and x.dtype is float32 and b.matmul_precision == "bf16":
        x, y = b.convert(x, bfloat16), b.convert(y, bfloat16)
    if b.kernels and b.platform == "cpu":
        made = product_call(b, out, x, y, contract, batch)
        if made is not None:
            return made
    numbers = ", ".join(
        f"{side}_{name}_dimensions = {list(dims)}"
        for name, pair in (("batching", batch), ("contracting", contract))
        for side, dims in zip(("lhs", "rhs"), pair, strict=True)
    )
    return b.op(
        "stablehlo.dot_general", x, y, out=out,
        dot_dimension_numbers=f"#stablehlo.dot<{numbers}>",
        precision_config=contraction_precision(b, x.dtype),
    )  # fmt: skip
