"""Attention and its gradient as calls of cuDNN's flash attention, which XLA knows by name.

cuDNN takes operands [batch, position, head, element]: the memory order of networks that split the
last dimension of a product into heads, so no transposes are needed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pullback.graph.dtypes import bfloat16, bool_, float16, float32, int32, uint8
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.ops.fused.attention import AttentionGradient, AttentionOp

_NAMES = {bfloat16: "BF16", float16: "F16"}
_WIDEST = 128  # elements of a head
# What is added to the score of a key that is not seen: -inf would give NaN. A mask of floats adds
# half of it at least.
_HIDDEN = {bfloat16: -(2.0**41), float16: -(2.0**15)}
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


def cudnn_attention(op: AttentionOp, b: Any, out: Any, *xs: Any) -> Any:
    """Call cuDNN for the results of attention; None if it has none for these operands."""
    if not cudnn_takes(op, *[x.type for x in xs]):
        return None
    q, k, v, *masks = xs
    heads = _cudnn_batched(out[0].shape, 3)
    results = (out[0].with_shape(heads), Type(heads[:-1], float32), _WORKSPACE)
    seen = _CudnnMasks(op, b, q, k, masks) if masks else None
    y, statistics, _ = b.cudnn(
        "fmhaScaleBiasSoftmax" if seen else "fmhaSoftmax",
        *[_cudnn_by_position(b, x) for x in (q, k, v)], *([seen.bias] if seen else []), out=results,
        orders=(_BY_POSITION, (0, 1, 2), (0,)), config=_cudnn_config(op, q, k, _FORWARD),
    )  # fmt: skip
    if seen:
        y, statistics = seen.rows_or_zero(y), seen.rows_or_zero(statistics)
    nothing = b.broadcast(b.constant(0, float32), out[2].shape)  # was lost: a query sees some keys
    return b.reshape(y, out[0].shape), b.reshape(statistics, out[1].shape), nothing


def cudnn_attention_gradient(op: AttentionGradient, b: Any, out: Any, *xs: Any) -> Any:
    """Call cuDNN for the cotangents of queries, keys and values; None if it has none for these."""
    q, k, v, y, statistics, _, g, *masks = xs
    if op.all_too or not cudnn_takes(op, *[x.type for x in (q, k, v, *masks)]):
        return None
    seen = _CudnnMasks(op, b, q, k, masks) if masks else None
    if seen:
        g = seen.rows_or_zero(b.reshape(g, _cudnn_batched(g.shape, 3)))
    operands = [_cudnn_by_position(b, x) for x in (q, k, v)]
    operands.append(b.reshape(statistics, _cudnn_batched(statistics.shape, 2)))
    operands += [_cudnn_by_position(b, g), *([seen.bias] if seen else []), _cudnn_by_position(b, y)]
    results = [t.with_shape(_cudnn_batched(t.shape, 3)) for t in out]
    *made, _ = b.cudnn(
        "fmhaScaleBiasSoftmaxBackward" if seen else "fmhaSoftmaxBackward", *operands,
        out=(*results, _WORKSPACE), orders=(*[_BY_POSITION] * 3, (0,)),
        config=_cudnn_config(op, q, k, _BACKWARD),
    )  # fmt: skip
    return tuple([b.reshape(x, t.shape) for x, t in zip(made, out, strict=True)])


def cudnn_takes(op: AttentionOp, q: Type, k: Type, v: Type, *masks: Type) -> bool:
    """Whether cuDNN computes attention, on every GPU that it has flash attention for."""
    width, rows, keys = q.shape[-1], q.shape[-2], k.shape[-2]
    if q.dtype not in _NAMES or width % 8 or width > _WIDEST or v.shape[-1] != width:
        return False
    window = not op.lower or (op.upper == (0,) and op.lower[0] <= 0 and rows <= keys)
    if op.upper not in ((), (0,)) or not window:
        return False
    floats = [m.dtype for m in masks if m.dtype is not bool_]
    fit = all(m.rank == q.rank for m in masks) and floats in ([], [q.dtype])  # none is rounded
    return not masks or (fit and op.zero_rows and not rows % 2 and not keys % 2)


class _CudnnMasks:
    """Masks as cuDNN takes them: numbers that are added to the scores; -inf hides a key.

    A query that sees no key gets the mean of some values, and not zero. So its row is set to zero,
    and its cotangent, too.
    """

    def __init__(self, op: AttentionOp, b: Any, q: Any, k: Any, masks: Sequence[Any]) -> None:
        self.b, (self.batch, self.heads, rows, _) = b, _cudnn_batched(q.shape, 3)
        self._leading = q.shape[:-3]
        self.scores = (rows, k.shape[-2])
        four = [self._four_dimensions(m) for m in masks]
        seen = functools.reduce(self._both, map(self._seen, four))
        kind = seen.type.with_dtype(q.dtype)
        added = [self._bounded(x) for x in four if x.dtype is not bool_] or [b.constant(0, q.dtype)]
        hidden = b.full(kind, _HIDDEN[q.dtype])
        self.bias = b.select(seen, b.broadcast(added[0], kind.shape), hidden)
        band = self._band(op)
        if band is not None:
            seen = self._both(seen, b.broadcast(band, seen.shape))
        some = b.reduce("or", seen, False, (3,))
        self.rows = b.broadcast_in_dim(
            b.reshape(some, [n for n in some.shape if n > 1]),
            (self.batch, self.heads, rows), [i for i, n in enumerate(some.shape) if n > 1],
        )  # fmt: skip

    def rows_or_zero(self, x: Any) -> Any:
        """An array [batch, head, row, ...] with zeros where a query sees no key."""
        here = self.b.broadcast_in_dim(self.rows, x.shape, (0, 1, 2))
        return self.b.select(here, x, self.b.full(x.type, 0))

    def _four_dimensions(self, mask: Any) -> Any:
        """A mask [batch or 1, heads or 1, rows, keys]."""
        *batch, heads, _, _ = mask.shape
        whole = (1,) * len(batch) if math.prod(batch) == 1 else self._leading
        full = self.b.broadcast(mask, (*whole, heads, *self.scores))
        return self.b.reshape(full, (math.prod(whole), heads, *self.scores))

    def _seen(self, mask: Any) -> Any:
        """Which keys a mask lets a query see."""
        if mask.dtype is bool_:
            return mask
        return self.b.compare("NE", mask, self.b.full(mask.type, -math.inf))

    def _bounded(self, mask: Any) -> Any:
        """What is added to the scores of keys that are seen: far from what hides the others."""
        least = self.b.full(mask.type, _HIDDEN[mask.dtype] / 2)
        return self.b.op("stablehlo.maximum", mask, least, out=mask.type)

    def _both(self, x: Any, y: Any) -> Any:
        shape = tuple([max(sizes) for sizes in zip(x.shape, y.shape, strict=True)])
        x, y = self.b.broadcast_all((x, y), shape)
        return self.b.op("stablehlo.and", x, y, out=x.type)

    def _band(self, op: AttentionOp) -> Any:
        """Which keys are seen by their positions; None if all are."""
        if not op.upper:
            return None
        i, j = (self.b.iota(self.scores, int32, axis) for axis in (0, 1))
        seen = self.b.compare("LE", j, i)
        if op.lower:
            first = self.b.op("stablehlo.add", i, self.b.full(i.type, op.lower[0]), out=i.type)
            seen = self._both(seen, self.b.compare("GE", j, first))
        return seen


def _cudnn_batched(shape: Sequence[int], count: int) -> tuple[int, ...]:
    """The shape with one dimension in front of the last `count`."""
    batch = len(shape) - count
    return (math.prod(shape[:batch]), *shape[batch:])


def _cudnn_by_position(b: Any, x: Any) -> Any:
    return b.transpose(b.reshape(x, _cudnn_batched(x.shape, 3)), _BY_POSITION)


def _cudnn_config(op: AttentionOp, q: Any, k: Any, products: dict[str, Any]) -> dict[str, Any]:
    """What XLA tells cuDNN about the computation."""
    batch, heads, rows, _ = _cudnn_batched(q.shape, 3)
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
            "sliding_window_length": 1 - op.lower[0] if op.lower else 0,
            "max_seg_per_batch": 1,
            "is_paged_attention": False,
            **{
                f"{name}_dot_dimension_numbers": _cudnn_dims(*dims)
                for name, dims in products.items()
            },
        }
    }


def _cudnn_dims(
    left: int, right: int, lefts: Sequence[int], rights: Sequence[int]
) -> dict[str, Any]:
    return {
        "lhs_contracting_dimensions": [str(left)],
        "rhs_contracting_dimensions": [str(right)],
        "lhs_batch_dimensions": [str(i) for i in lefts],
        "rhs_batch_dimensions": [str(i) for i in rights],
    }
