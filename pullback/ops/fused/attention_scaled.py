"""Attention that scales its queries by an operand, as recorded programs do.

What Python computes is an operand of a recorded program, so that another number needs no other
program. The kernels read it, and scale queries while they load them.
"""

from __future__ import annotations

from typing import Any

from pullback.ops.elementwise.functions import cast
from pullback.ops.fused.attention import Attention, AttentionGradient, AttentionScores
from pullback.ops.fused.attention_kernels import (
    AttentionFactor,
    attention_gradient_kernel_call,
    attention_kernel_call,
)
from pullback.ops.prelude import Node, result_nodes
from pullback.ops.samples import boolean_samples, real


class ScaledAttentionOp(AttentionScores, abstract=True):
    """What attention of scaled queries and its gradient share.

    The operand after q, k and v is a number that queries are multiplied with, or divided by.
    """

    divides: bool = False

    def scaled(self, q: Node, number: Node) -> Node:
        number = cast(number, q.type.dtype)
        return q / number if self.divides else q * number

    def on_cuda(self, b: Any, out: Any, *xs: Any) -> Any:
        return None  # cuDNN computes what the expansion has


class ScaledAttention(ScaledAttentionOp):
    """`Attention` of scaled queries."""

    def attention(self) -> Attention:
        return Attention(self.scale, self.lower, self.upper, self.zero_rows)

    def expand(self, q: Node, k: Node, v: Node, number: Node, *masks: Node) -> tuple[Node, ...]:
        return tuple(result_nodes(self.attention()(self.scaled(q, number), k, v, *masks)))

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        q, k, v, number, *masks = xs
        factor = AttentionFactor(number, self.divides)
        return attention_kernel_call(self.attention(), b, out, q, k, v, *masks, factor=factor)

    @classmethod
    def samples(cls) -> Any:
        q, k, v = real(2, 3, 2), real(2, 4, 2, salt=1), real(2, 4, 3, salt=2)
        seen = boolean_samples(2, 3, 4)
        seen[..., 0] = True
        for divides in (False, True):
            yield cls("0.5", (), (0,), False, divides), (q, k, v, 1.7, real(2, 1, 4, salt=3), seen)


class ScaledAttentionGradient(ScaledAttentionOp):
    """`AttentionGradient` of scaled queries, with respect to q, k and v."""

    def gradient(self) -> AttentionGradient:
        return AttentionGradient(self.scale, self.lower, self.upper, self.zero_rows)

    def expand(self, q: Node, k: Node, v: Node, number: Node, *more: Node) -> tuple[Node, ...]:
        dq, dk, dv = result_nodes(self.gradient()(self.scaled(q, number), k, v, *more))
        return self.scaled(dq, number), dk, dv

    def kernel(self, b: Any, out: Any, *xs: Any) -> Any:
        q, k, v, number, *more = xs
        factor = AttentionFactor(number, self.divides)
        return attention_gradient_kernel_call(
            self.gradient(), b, out, q, k, v, *more, factor=factor
        )

    @classmethod
    def samples(cls) -> Any:
        for op, (q, k, v, number, *masks) in ScaledAttention.samples():
            own = cls(op.scale, op.lower, op.upper, op.zero_rows, op.divides)
            results = op.numpy(q, k, v, number, *masks)
            yield own, (q, k, v, number, *results, real(*results[0].shape, salt=9), *masks)
