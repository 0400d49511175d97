"""The calls of the kernels that compute attention and its gradient on CPUs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback.graph.dtypes import DType, bool_, float32, float64
from pullback.graph.types import Type

if TYPE_CHECKING:
    from pullback.ops.fused.attention import AttentionOp

_FAR = 1 << 40  # beyond every position
_KINDS = _BIAS, _MASK, _FILL = range(3)


class AttentionFactor(NamedTuple):
    """A number that queries are multiplied with, or divided by."""

    value: Any
    divides: bool


def attention_kernel_call(
    op: AttentionOp, b: Any, out: Any, *xs: Any, factor: AttentionFactor | None = None
) -> Any:
    """Call the kernel for the results of attention."""
    q, k, v, *masks = xs
    if not _kernels_take(q, *masks):
        return None
    order = attention_kernel_rows_first(b, q)
    y, *rows = (
        t.with_shape(_flat_attention_kernel_shape(t.shape, t.rank - n))
        for t, n in zip(out, (3, 2, 2))
    )
    stored, strides = _attention_kernel_storage(y, order)
    given = [_placed_for_kernel(b, x) for x in (q, k, v)]
    operands, numbers, places = _attention_kernel_arguments(
        op, b, given, masks, q, k, v, factor=factor
    )
    made, *sums = b.kernel(
        "attention", *operands, out=(stored, *rows), numbers=(*numbers, 0),
        strides=places, results=strides,
    )  # fmt: skip
    return _attention_kernel_result(b, made, order, out[0]), *[
        b.reshape(x, out[1].shape) for x in sums
    ]


def attention_gradient_kernel_call(
    op: Any, b: Any, out: Any, *xs: Any, factor: AttentionFactor | None = None
) -> Any:
    """Call the kernel for the cotangents of queries, keys and values."""
    q, k, v, y, statistics, lost, g, *more = xs
    masks = [x for x in more if len(x.shape) != len(q.shape) - 1]
    rows = [x for x in more if len(x.shape) == len(q.shape) - 1]
    if op.all_too or not _kernels_take(q, *masks) or statistics.dtype is not q.dtype:
        return None
    orders = [attention_kernel_rows_first(b, x) for x in (q, k, v)]
    flat = [t.with_shape(_flat_attention_kernel_shape(t.shape, t.rank - 3)) for t in out]
    stored, strides = zip(*[_attention_kernel_storage(t, order) for t, order in zip(flat, orders)])
    given = [_placed_for_kernel(b, x) for x in (q, k, v, y, g)]
    operands, numbers, places = _attention_kernel_arguments(
        op, b, given, masks, q, k, v,
        (statistics, lost, *[b.convert(x, q.dtype) for x in rows]), factor,
    )  # fmt: skip
    made = b.kernel(
        "attention_gradient", *operands, out=stored, numbers=(*numbers, len(rows)),
        strides=places, results=sum(strides, ()),
    )  # fmt: skip
    return tuple(
        [_attention_kernel_result(b, x, order, t) for x, order, t in zip(made, orders, out)]
    )


def attention_kernel_rows_first(b: Any, x: Any) -> bool:
    """Whether the heads of a position are next to each other in memory: [B, T, H, D]."""
    _, _, (_, head, row, _) = b.strided(
        b.reshape(x, _flat_attention_kernel_shape(x.shape, len(x.shape) - 3))
    )
    return head < row


def _kernels_take(q: Any, *masks: Any) -> bool:
    """Whether the kernels take these operands."""
    kinds = [_kernel_mask_kind(m) for m in masks]
    return q.dtype in (float32, float64) and len(set(kinds)) == len(kinds)


def _flat_attention_kernel_shape(shape: Sequence[int], batch: int) -> tuple[int, ...]:
    """The shape with one dimension in place of the first ones."""
    count = 1
    for n in shape[:batch]:
        count *= n
    return (count, *shape[batch:])


def _placed_for_kernel(b: Any, x: Any) -> tuple[Any, tuple[int, ...]]:
    """The memory of an operand [batch, head, row, element], and five numbers that say where."""
    base, offset, strides = b.strided(
        b.reshape(x, _flat_attention_kernel_shape(x.shape, len(x.shape) - 3))
    )
    return base, (offset, *strides)


def _mask_for_kernel(b: Any, x: Any, batch: tuple[int, ...], dtype: DType) -> Any:
    if x.dtype is not bool_:
        x = b.convert(x, dtype)
    if not x.shape:
        return x, (0,) * 5
    if any(n > 1 for n in x.shape[:-3]):
        x = b.broadcast(x, (*batch, *x.shape[-3:]))
    base, place = _placed_for_kernel(b, x)
    found = zip(_flat_attention_kernel_shape(x.shape, len(x.shape) - 3), place[1:], strict=True)
    return base, (place[0], *[0 if n == 1 else s for n, s in found])


def _attention_kernel_arguments(
    op: AttentionOp, b: Any, given: Sequence[Any], masks: Sequence[Any], q: Any, k: Any, v: Any,
    more: Sequence[Any] = (), factor: AttentionFactor | None = None,
) -> tuple[list[Any], tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """The operands of a kernel, its numbers, and the places of q, k, v, out, g, bias and mask."""
    batch = q.shape[:-3]
    found = {
        _kernel_mask_kind(m): _mask_for_kernel(b, m, batch, q.dtype)
        for m in sorted(masks, key=_kernel_mask_kind)
    }
    places = [place for _, place in given]
    places += [(0,) * 5] * (5 - len(places))
    places += [found[kind][1] if kind in found else (0,) * 5 for kind in (_BIAS, _MASK)]
    numbers = (
        *_flat_attention_kernel_shape(q.shape[:-2], len(batch)),
        k.shape[-3], q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1],
        op.lower[0] if op.lower else -_FAR, op.upper[0] if op.upper else _FAR,
        int(op.zero_rows), _attention_kernel_bits(op.scale),
        *[int(k in found) for k in _KINDS],
        0 if factor is None else 1 + factor.divides,
    )  # fmt: skip
    operands = [*[x for x, _ in given], *more, *[x for x, _ in found.values()]]
    if factor is not None:
        operands.append(b.convert(factor.value, q.dtype))
    return operands, numbers, sum(places, ())


def _kernel_mask_kind(x: Any) -> int:
    """What an operand among the masks is."""
    return _MASK if x.dtype is bool_ else _BIAS if x.shape else _FILL


def _attention_kernel_bits(number: str) -> int:
    return int.from_bytes(struct.pack("<d", float(number)), "little", signed=True)


def _attention_kernel_storage(type: Type, rows_first: bool) -> tuple[Type, tuple[int, ...]]:
    """The type of a result [batch, head, row, element] as it is stored, and five numbers."""
    batch, heads, rows, n = type.shape
    if rows_first:
        return type.with_shape((batch, rows, heads, n)), (0, rows * heads * n, n, heads * n, 1)
    return type, (0, heads * rows * n, rows * n, n, 1)


def _attention_kernel_result(b: Any, x: Any, rows_first: bool, out: Type) -> Any:
    return b.reshape(b.transpose(x, (0, 2, 1, 3)) if rows_first else x, out.shape)
