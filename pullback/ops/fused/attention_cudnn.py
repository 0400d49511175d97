"""Attention and its gradient as calls of cuDNN's flash attention, which XLA knows by name.

cuDNN takes operands [batch, position, head, element]: the memory order of networks that split the
last dimension of a product into heads, so no transposes are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.graph.dtypes import bfloat16, float16, float32, uint8
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.ops.fused.attention import AttentionGradient, ScaledScores

_NAMES = {bfloat16: "BF16", float16: "F16"}
_WIDEST = 128  # elements of a head
_WORKSPACE = Type((0,), uint8)  # which XLA replaces by the memory that cuDNN needs
_BY_POSITION = (0, 2, 1, 3)  # [batch, head, position, element] and the order in memory

# Each product of the computation: the contracted dimension of both operands, and the batches.
_FORWARD = {"bmm1": (3, 3, (0, 2), (0, 2)), "bmm2": (3, 1, (0, 1), (0, 2))}
_BACKWARD = {
    "bmm1_grad_gemm1": (2, 1, (0, 1), (0, 2)),
    "bmm1_grad_gemm2": (3, 1, (0, 1), (0, 2)),
    "bmm2_grad_gemm1": (2, 1, (0, 1), (0, 2)),
    "bmm2_grad_gemm2": (3, 3, (0, 2), (0, 2)),
}


def cudnn_attention(op: ScaledScores, b: Any, out: Any, *xs: Any) -> Any:
    """Call cuDNN for the results of attention; None if it has none for these operands."""
    if not cudnn_takes(op, *[x.type for x in xs]):
        return None
    q, k, v = xs
    heads = _batched(out[0].shape, 3)
    results = (out[0].with_shape(heads), Type(heads[:-1], float32), _WORKSPACE)
    y, statistics, _ = b.cudnn(
        "fmhaSoftmax", *[_by_position(b, x) for x in (q, k, v)], out=results,
        orders=(_BY_POSITION, (0, 1, 2), (0,)), config=_config(op, q, k, _FORWARD),
    )  # fmt: skip
    nothing = b.broadcast(b.constant(0, float32), out[2].shape)  # was lost: each query sees a key
    return b.reshape(y, out[0].shape), b.reshape(statistics, out[1].shape), nothing


def cudnn_attention_gradient(op: AttentionGradient, b: Any, out: Any, *xs: Any) -> Any:
    """Call cuDNN for the cotangents of queries, keys and values; None if it has none for these."""
    q, k, v, y, statistics, _, g, *more = xs
    if more or op.all_too or not cudnn_takes(op, q.type, k.type, v.type):
        return None
    operands = [_by_position(b, x) for x in (q, k, v)]
    operands.append(b.reshape(statistics, _batched(statistics.shape, 2)))
    operands += [_by_position(b, x) for x in (g, y)]
    results = [t.with_shape(_batched(t.shape, 3)) for t in out]
    *made, _ = b.cudnn(
        "fmhaSoftmaxBackward", *operands, out=(*results, _WORKSPACE),
        orders=(*[_BY_POSITION] * 3, (0,)), config=_config(op, q, k, _BACKWARD),
    )  # fmt: skip
    return tuple([b.reshape(x, t.shape) for x, t in zip(made, out, strict=True)])


def cudnn_takes(op: ScaledScores, q: Type, k: Type, v: Type, *masks: Type) -> bool:
    """Whether cuDNN computes attention, on every GPU that it has flash attention for."""
    width = q.shape[-1]
    if q.dtype not in _NAMES or width % 8 or width > _WIDEST or v.shape[-1] != width:
        return False
    return op.upper in ((), (0,)) and not op.lower and not masks


def _batched(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """The shape with one dimension in front of the last `count`."""
    batch = len(shape) - count
    return (math.prod(shape[:batch]), *shape[batch:])


def _by_position(b: Any, x: Any) -> Any:
    return b.transpose(b.reshape(x, _batched(x.shape, 3)), _BY_POSITION)


def _config(op: ScaledScores, q: Any, k: Any, products: dict[str, Any]) -> dict[str, Any]:
    """What XLA tells cuDNN about the computation."""
    batch, heads, rows, _ = _batched(q.shape, 3)
    scores = [str(n) for n in (batch, heads, rows, k.shape[-2])]
    return {
        "cudnn_fmha_backend_config": {
            "algorithm": {
                "algo_id": "0",
                "math_type": "TENSOR_OP_MATH",
                "tuning_knobs": {"17": "1", "24": "0"},
                "is_cudnn_frontend": True,
                "workspace_size": "0",
            },
            "fmha_scale": float(op.scale),
            "intermediate_tensor_shape": {
                "element_type": _NAMES[q.dtype],
                "dimensions": scores,
                "layout": {"minor_to_major": ["3", "2", "1", "0"]},
                "is_dynamic_dimension": [False] * 4,
            },
            "is_flash_attention": True,
            "mask_type": "CAUSAL" if op.upper else "NO_MASK",
            "dropout_rate": 0.0,
            "seed": 42,
            "sliding_window_length": 0,
            "max_seg_per_batch": 1,
            "is_paged_attention": False,
            **{f"{name}_dot_dimension_numbers": _dims(*dims) for name, dims in products.items()},
        }
    }


def _dims(left: int, right: int, lefts: Sequence[int], rights: Sequence[int]) -> dict[str, Any]:
    return {
        "lhs_contracting_dimensions": [str(left)],
        "rhs_contracting_dimensions": [str(right)],
        "lhs_batch_dimensions": [str(i) for i in lefts],
        "rhs_batch_dimensions": [str(i) for i in rights],
    }
