"""Multi-head attention as a layer."""

from __future__ import annotations

from typing import Any, overload

from pullback.errors import ArgumentError, ShapeError
from pullback.functions import arange, expand_dims, moveaxis, reshape, split, zeros
from pullback.graph.argument_checks import checked_integer_argument
from pullback.graph.boundary import boundary_methods
from pullback.graph.dtypes import bool_
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.nn import functional
from pullback.nn.init import xavier_uniform
from pullback.nn.initial import initial_parameter
from pullback.nn.keys import layer_keys
from pullback.nn.kv_cache import KVCache
from pullback.nn.linear import Linear
from pullback.nn.module import Module
from pullback.typing import ArrayLike


@boundary_methods
class MultiHeadAttention(Module):
    """Attention with several heads over tensors [..., length, embed_dim].

    With `kv_heads` below `num_heads`, groups of query heads share keys and values. With `rotary`,
    queries and keys are rotated by their positions. Queries, keys and values are projected by
    `in_proj_weight`, in this order, with one product where they come from the same tensor.

    A call takes `query`, and `key` and `value` for attention to another sequence, and

    - `mask`: bools or floats that broadcast to [..., heads, length, keys], as
      `pb.nn.functional.scaled_dot_product_attention` takes them: true where a key is seen
    - `padding_mask`: bools [..., keys], true for keys that are there
    - `causal`: position i sees the positions up to i; always so with a cache
    - `cache`: a `KVCache`; the call then returns the result and the next cache

    >>> attention = pb.nn.MultiHeadAttention(8, num_heads=2)
    >>> x = pb.ones((3, 5, 8))
    >>> attention(x, causal=True).shape
    (3, 5, 8)
    >>> cache = attention.empty_cache((3,), 16)
    >>> y, cache = attention(x, cache=cache)
    >>> y, cache = attention(x[:, :1], cache=cache)
    >>> y.shape, cache.length.item()
    ((3, 1, 8), 6)
    """

    in_proj_weight: Tensor
    in_proj_bias: Tensor | None
    out_proj: Linear

    def __init__(
        self, embed_dim: int, num_heads: int, *, kv_heads: int | None = None, bias: bool = True,
        dropout: float = 0.0, rotary: bool = False, rotary_base: float = 10000.0,
        window: int | None = None, key: ArrayLike | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.embed_dim = checked_integer_argument("MultiHeadAttention", embed_dim, "embed_dim")
        self.num_heads = checked_integer_argument("MultiHeadAttention", num_heads, "num_heads")
        self.kv_heads = self.num_heads if kv_heads is None else kv_heads
        if self.num_heads < 1 or embed_dim % num_heads:
            what = f"embed_dim, {embed_dim}, must be a multiple of num_heads, {num_heads}"
            raise ArgumentError(f"MultiHeadAttention: {what}")
        if self.kv_heads < 1 or num_heads % self.kv_heads:
            what = f"num_heads, {num_heads}, must be a multiple of kv_heads, {self.kv_heads}"
            raise ArgumentError(f"MultiHeadAttention: {what}")
        self.head_dim = embed_dim // num_heads
        self.dropout, self.window = float(dropout), window
        self.rotary, self.rotary_base = bool(rotary), float(rotary_base)
        rows = (num_heads + 2 * self.kv_heads) * self.head_dim
        keys = layer_keys(key, 2)
        self.in_proj_weight = initial_parameter(
            xavier_uniform, keys[0], (rows, embed_dim), dtype=dtype
        )
        self.in_proj_bias = zeros(rows, dtype=dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, key=keys[1], dtype=dtype)
        if bias:
            self.out_proj.bias = zeros(embed_dim, dtype=dtype)

    @overload
    def forward(self, query: Tensor, key: Tensor | None = ..., value: Tensor | None = ..., *,
                mask: ArrayLike | None = ..., padding_mask: ArrayLike | None = ...,
                causal: bool = ..., cache: None = ...) -> Tensor: ...  # fmt: skip
    @overload
    def forward(self, query: Tensor, key: Tensor | None = ..., value: Tensor | None = ..., *,
                mask: ArrayLike | None = ..., padding_mask: ArrayLike | None = ...,
                causal: bool = ..., cache: KVCache) -> tuple[Tensor, KVCache]: ...  # fmt: skip
    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, *,
        mask: ArrayLike | None = None, padding_mask: ArrayLike | None = None, causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor | tuple[Tensor, KVCache]:  # fmt: skip
        q, k, v = self._projected(query, key, value)
        offset: Any = 0 if cache is None else cache.length
        if self.rotary:
            q, k = self._rotated(q, offset), self._rotated(k, offset)
        if cache is not None:
            cache = cache.append(k, v)
            k, v = cache.keys.astype(q.dtype), cache.values.astype(q.dtype)
        seen, bias = _layer_mask_and_bias(mask, padding_mask)
        y = functional.scaled_dot_product_attention(
            q, k, v, seen, bias=bias,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=causal or cache is not None,
            enable_gqa=self.kv_heads != self.num_heads,
            window=None if self.window is None else (self.window, None),
            query_offset=offset,
        )  # fmt: skip
        y = self.out_proj(_merged_layer_heads(y))
        return y if cache is None else (y, cache)

    def empty_cache(self, batch: tuple[int, ...], size: int, dtype: Any = None) -> KVCache:
        """Return a cache for sequences of at most `size` positions.

        >>> pb.nn.MultiHeadAttention(8, num_heads=2).empty_cache((3,), 16).keys.shape
        (3, 2, 16, 4)
        """
        shape = (*batch, self.kv_heads, size, self.head_dim)
        return KVCache.empty(shape, dtype or self.in_proj_weight.dtype)

    def _projected(self, query: Tensor, key: Tensor | None, value: Tensor | None) -> list[Tensor]:
        """Queries, keys and values [..., heads, length, head_dim]."""
        if query.ndim < 2 or query.shape[-1] != self.embed_dim:
            wanted = f"[..., length, {self.embed_dim}]"
            raise ShapeError(f"MultiHeadAttention: needs {wanted}, got {query._node.type}")
        depth = self.head_dim
        rows = [self.num_heads * depth, self.kv_heads * depth, self.kv_heads * depth]
        ends = [rows[0], rows[0] + rows[1]]
        if key is None and value is None:
            whole = functional.linear(query, self.in_proj_weight, self.in_proj_bias)
            found = split(whole, ends, axis=-1)
        else:
            key = query if key is None else key
            given = [query, key, key if value is None else value]
            weights = split(self.in_proj_weight, ends)
            biases = [None] * 3 if self.in_proj_bias is None else split(self.in_proj_bias, ends)
            found = [functional.linear(*xs) for xs in zip(given, weights, biases)]
        return [_separate_layer_heads(x, n // depth) for x, n in zip(found, rows)]

    def _rotated(self, x: Tensor, offset: Any) -> Tensor:
        positions = arange(x.shape[-2]) + offset
        return functional.rotary_embedding(x, positions, base=self.rotary_base)


def _separate_layer_heads(x: Tensor, heads: int) -> Tensor:
    """[..., length, heads * depth] as [..., heads, length, depth]."""
    return moveaxis(reshape(x, (*x.shape[:-1], heads, -1)), -2, -3)


def _merged_layer_heads(x: Tensor) -> Tensor:
    """[..., heads, length, depth] as [..., length, heads * depth]."""
    x = moveaxis(x, -3, -2)
    return reshape(x, (*x.shape[:-2], -1))


def _layer_mask_and_bias(
    mask: ArrayLike | None, padding: ArrayLike | None
) -> tuple[Tensor | None, Tensor | None]:
    """Which keys are seen, and what is added to the scores [..., heads, length, keys]."""
    seen = None if padding is None else expand_dims(padding, (-3, -2))
    if mask is None:
        return seen, None
    given = asarray(mask)
    if given.dtype is not bool_:
        return seen, given
    return given if seen is None else given & seen, None
