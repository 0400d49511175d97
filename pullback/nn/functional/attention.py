"""Attention: [..., heads, length, depth] for queries, keys and values."""

from __future__ import annotations

import math

from pullback import functions as pf
from pullback.errors import ArgumentError, DTypeError, ShapeError
from pullback.functions.arguments import (
    checked_integer_argument,
    float_arguments,
    literal_argument,
    shape_argument,
)
from pullback.functions.composed import composed
from pullback.graph.dtypes import bool_, int64
from pullback.lazy.operators import as_tensor
from pullback.lazy.record import record_several
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.arguments import (
    narrowed_to_functional_argument,
    widened_functional_argument,
)
from pullback.nn.functional.dropouts import dropout
from pullback.nn.functional.loss_arguments import real_loss_argument
from pullback.ops.fused.attention import Attention
from pullback.typing import ArrayLike


@composed
def scaled_dot_product_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, attn_mask: ArrayLike | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False, *, bias: ArrayLike | None = None,
    window: int | tuple[int | None, int | None] | None = None, query_offset: int | Tensor = 0,
    dropout_key: ArrayLike | None = None,
) -> Tensor:  # fmt: skip
    """Return softmax(scale * query @ key.mT + bias) @ value, over the keys that a query may see.

    The shapes are query [..., heads, L, E], key [..., heads, S, E] and value [..., heads, S, V].

    - `attn_mask`: bools that broadcast to [..., heads, L, S], true where a key is seen; floats are
      added to the scores, as `bias` is, -inf where a key is not seen
    - `is_causal`: query i sees key j only if j <= i + query_offset
    - `window`: a pair (left, right), or a number for both; query i sees the keys from i - left to
      i + right, where i includes `query_offset`, and `None` is no limit
    - `query_offset`: the position of the first query among the keys, as with a cache of keys; it
      may be a tensor
    - `scale`: 1 / sqrt(E) by default
    - `enable_gqa`: there are fewer heads of keys and values than of queries, each for a group of
      neighbouring ones
    - `dropout_p`: the probability that a weight is left out, with `dropout_key` or a key of
      `pb.nn.rng`

    The result for a query that sees no key is 0. Scores and softmax of 16-bit floats are computed
    in f32.

    >>> q = pb.ones((1, 2, 4))
    >>> v = pb.tensor([[[1.0], [3.0]]])
    >>> attend = pb.nn.functional.scaled_dot_product_attention
    >>> attend(q, q, v).tolist(), attend(q, q, v, is_causal=True).tolist()
    ([[[2.0], [2.0]]], [[[1.0], [2.0]]])
    """
    q, k, v = map(wrap, float_arguments(query, key, value))
    _check_attended(q, k, v)
    groups = _attention_head_groups(q, k, v) if enable_gqa else 1
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    masks = [as_tensor(x) for x in (attn_mask, bias) if x is not None]
    if isinstance(factor, Tensor):
        q, factor = q * factor, 1.0
    if not dropout_p and _attention_is_one_op(q, k, v, groups, masks):
        limits = _functional_attention_band(is_causal, window, query_offset)
        return _functional_attention(q, k, v, float(factor), limits, attn_mask, bias, query_offset)
    if groups > 1:  # [..., key heads, group, length, depth]
        q = pf.reshape(q, (*k.shape[:-2], groups, *q.shape[-2:]))
        k, v = pf.expand_dims(k, -3), pf.expand_dims(v, -3)
    scores = pf.matmul(
        widened_functional_argument(q) * factor, pf.matrix_transpose(widened_functional_argument(k))
    )
    scores, seen = _functional_attention_scores(scores, attn_mask, bias, groups)
    lower, upper = _functional_attention_band(is_causal, window, query_offset)
    for more in _functional_attention_masks(q.shape[-2], k.shape[-2], lower, upper, query_offset):
        seen = more if seen is None else seen & more
    weights = _attention_weights(scores, seen)
    if dropout_p:
        weights = dropout(weights, dropout_p, key=dropout_key)
    y = pf.matmul(narrowed_to_functional_argument(weights, v.dtype), v)
    return pf.reshape(y, (*y.shape[:-4], -1, *y.shape[-2:])) if groups > 1 else y


def _attention_is_one_op(q: Tensor, k: Tensor, v: Tensor, groups: int, masks: list[Tensor]) -> bool:
    """Whether the op takes these shapes: only masks broadcast."""
    alike = groups > 1 or q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    scores = (*q.shape[:-1], k.shape[-2])
    fit = [
        m.ndim <= q.ndim and all(a in (1, b) for a, b in zip(m.shape[::-1], scores[::-1]))
        for m in masks
    ]
    return alike and q.dtype.is_float and all(fit)


def _functional_attention(
    q: Tensor, k: Tensor, v: Tensor, scale: float, limits: tuple[int | None, int | None],
    mask: ArrayLike | None, bias: ArrayLike | None, offset: int | Tensor,
) -> Tensor:  # fmt: skip
    """Attention as one op, which need not compute all weights at the same time."""
    rank = max(q.ndim, 3)
    added, seen = _attention_bias_and_mask(q, mask, bias)
    lower, upper = limits
    if isinstance(offset, Tensor):  # positions are known only at run time
        for more in _functional_attention_masks(q.shape[-2], k.shape[-2], lower, upper, offset):
            seen = more if seen is None else seen & more
        lower = upper = None
    elif offset:
        lower = None if lower is None else lower + offset
        upper = None if upper is None else upper + offset
    below, above = [() if n is None else (n,) for n in (lower, upper)]
    op = Attention(repr(scale), below, above)
    masks = [_attention_with_rank(m, rank) for m in (added, seen) if m is not None]
    nodes = [x._node for x in (*[_attention_with_rank(x, rank) for x in (q, k, v)], *masks)]
    y = record_several(op, tuple(nodes))[0]
    return pf.squeeze(y, 0) if q.ndim == 2 else y


def _attention_with_rank(x: Tensor, rank: int) -> Tensor:
    """The tensor with dimensions of size 1 in front."""
    return x if x.ndim == rank else pf.reshape(x, (*(1,) * (rank - x.ndim), *x.shape))


def _attention_bias_and_mask(
    q: Tensor, mask: ArrayLike | None, bias: ArrayLike | None
) -> tuple[Tensor | None, Tensor | None]:
    """What is added to the scores, and which of them count (`None`: all)."""
    added: Tensor | None = None
    seen: Tensor | None = None
    for what, given in (("attn_mask", mask), ("bias", bias)):
        if given is None:
            continue
        found = _checked_attention_mask(what, as_tensor(given))
        if found.dtype is bool_:
            seen = found
        else:
            found = real_loss_argument(found, widened_functional_argument(q), what)
            added = found if added is None else added + found
    return added, seen


def _checked_attention_mask(what: str, given: Tensor) -> Tensor:
    if what == "bias" and given.dtype is bool_:
        raise DTypeError(f"bias must be floats, got {given._node.type}")
    return given


def _check_attended(q: Tensor, k: Tensor, v: Tensor) -> None:
    fits = min(q.ndim, k.ndim, v.ndim) >= 2
    if not fits or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        given = ", ".join(str(x._node.type) for x in (q, k, v))
        wanted = "query [..., L, E], key [..., S, E] and value [..., S, V]"
        raise ShapeError(f"needs {wanted}, got {given}")


def _attention_head_groups(q: Tensor, k: Tensor, v: Tensor) -> int:
    """How many heads of queries share a head of keys and values."""
    if min(q.ndim, k.ndim) < 3 or k.shape[:-2] != v.shape[:-2] or q.shape[:-3] != k.shape[:-3]:
        given = ", ".join(str(x._node.type) for x in (q, k, v))
        raise ShapeError(f"enable_gqa needs [..., heads, length, depth] alike, got {given}")
    heads, shared = q.shape[-3], k.shape[-3]
    if not shared or heads % shared:
        message = f"the {heads} heads of queries must be a multiple of the {shared} of keys"
        raise ShapeError(message)
    return heads // shared


def _functional_attention_scores(
    scores: Tensor, mask: ArrayLike | None, bias: ArrayLike | None, groups: int
) -> tuple[Tensor, Tensor | None]:
    """The scores with what is added to them, and which of them count (`None`: all)."""
    seen: Tensor | None = None
    for what, given in (("attn_mask", mask), ("bias", bias)):
        if given is None:
            continue
        found = _checked_attention_mask(what, as_tensor(given))
        if groups > 1 and found.ndim > 2:  # its heads in groups, like those of queries
            heads = found.shape[-3]
            split = (heads // groups, groups) if heads > 1 else (1, 1)
            found = pf.reshape(found, (*found.shape[:-3], *split, *found.shape[-2:]))
        if found.dtype is bool_:
            seen = found
            continue
        scores = scores + real_loss_argument(found, scores, what)
        some = scores != -math.inf
        seen = some if seen is None else seen & some
    return scores, seen


def _functional_attention_band(
    is_causal: bool, window: object, offset: int | Tensor
) -> tuple[int | None, int | None]:
    """How far before and after its own position a query sees keys."""
    left, right = _attention_window_sides(window)
    if not isinstance(offset, Tensor):
        checked_integer_argument("", offset, "query_offset")
    return None if left is None else -left, 0 if is_causal else right


def _functional_attention_masks(
    queries: int, keys: int, lower: int | None, upper: int | None, offset: int | Tensor
) -> list[Tensor]:
    """Masks [L, S] of the keys that a query sees by their positions."""
    if lower is None and upper is None:
        return []
    away = pf.arange(keys) - _attention_query_positions(queries, offset)
    made = []
    if upper is not None:
        made.append(away <= upper)
    if lower is not None:
        made.append(away >= lower)
    return made


def _attention_window_sides(window: object) -> tuple[int | None, int | None]:
    if window is None:
        return None, None
    sides = window if isinstance(window, (tuple, list)) else (window, window)
    found = [None if n is None else checked_integer_argument("", n, "window") for n in sides]
    if len(found) != 2 or any(n is not None and n < 0 for n in found):
        must = "a number of at least 0, or a pair of them"
        raise ArgumentError(f"window must be {must}, got {window!r}")
    return found[0], found[1]


def _attention_weights(scores: Tensor, seen: Tensor | None) -> Tensor:
    """The softmax over the keys that are seen: 0 for the others, also where there is none."""
    if seen is None:
        return pf.softmax(scores)
    least = literal_argument(float(pf.finfo(scores.dtype).min), scores.dtype)
    weights = pf.softmax(pf.where(seen, scores, least))
    return pf.where(seen, weights, literal_argument(0, weights.dtype))


@composed
def split_heads(x: ArrayLike, num_heads: int) -> Tensor:
    """Return [..., length, heads * depth] as [..., heads, length, depth].

    >>> pb.nn.functional.split_heads(pb.ones((2, 5, 12)), 3).shape
    (2, 3, 5, 4)
    """
    a = as_tensor(x)
    heads = checked_integer_argument("", num_heads, "num_heads")
    if a.ndim < 2 or heads < 1 or a.shape[-1] % heads:
        message = f"needs [..., length, features] with features divisible by {heads}"
        raise ShapeError(f"{message}, got {a._node.type}")
    parts = pf.reshape(a, (*a.shape[:-1], heads, a.shape[-1] // heads))
    return pf.swapaxes(parts, -3, -2)


@composed
def merge_heads(x: ArrayLike) -> Tensor:
    """Return [..., heads, length, depth] as [..., length, heads * depth].

    >>> pb.nn.functional.merge_heads(pb.ones((2, 3, 5, 4))).shape
    (2, 5, 12)
    """
    a = as_tensor(x)
    if a.ndim < 3:
        raise ShapeError(f"needs [..., heads, length, depth], got {a._node.type}")
    a = pf.swapaxes(a, -3, -2)
    return pf.reshape(a, (*a.shape[:-2], a.shape[-2] * a.shape[-1]))


@composed
def causal_mask(length: int, keys: int | None = None, offset: int | Tensor = 0) -> Tensor:
    """Return a mask [length, keys] that is true where key j is not after query i + offset.

    >>> pb.nn.functional.causal_mask(2).tolist()
    [[True, False], [True, True]]
    """
    queries, count = shape_argument("", (length, length if keys is None else keys))
    return pf.arange(count) <= _attention_query_positions(queries, offset)


def _attention_query_positions(length: int, offset: int | Tensor) -> Tensor:
    """The positions of queries among the keys, as a column."""
    start = as_tensor(offset)
    if not start.dtype.is_integer:
        raise DTypeError(f"the offset must be an integer, got {start._node.type}")
    return pf.reshape(pf.arange(length), (-1, 1)) + start


@composed
def padding_mask(lengths: ArrayLike, size: int) -> Tensor:
    """Return a mask [..., 1, 1, size] that is true for the first elements of each sequence.

    It broadcasts with the scores [..., heads, L, size] of attention.

    >>> pb.nn.functional.padding_mask([1, 3], 3)[:, 0, 0].tolist()
    [[True, False, False], [True, True, True]]
    """
    counts = as_tensor(lengths)
    if not counts.dtype.is_integer:
        raise DTypeError(f"lengths must be integers, got {counts._node.type}")
    (count,) = shape_argument("", size)
    return pf.arange(count) < pf.reshape(counts.astype(int64), (*counts.shape, 1, 1, 1))


__all__ = [
    "causal_mask", "merge_heads", "padding_mask", "scaled_dot_product_attention", "split_heads",
]  # fmt: skip
