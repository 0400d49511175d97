"""Transformer layers, of an encoder and of a decoder, and stacks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.errors import ArgumentError
from pullback.functions import relu
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor
from pullback.nn.attention import MultiHeadAttention
from pullback.nn.containers import ModuleList
from pullback.nn.dropout_layers import Dropout
from pullback.nn.keys import layer_keys
from pullback.nn.linear import Linear
from pullback.nn.module import Module
from pullback.nn.module_walk import is_module_to_walk
from pullback.nn.normalization_layers import LayerNorm
from pullback.typing import ArrayLike

Activation = Callable[[Tensor], Tensor]


class _TransformerLayer(Module):
    """What the layers of encoders and decoders share: two affine maps and residual steps."""

    linear1: Linear
    linear2: Linear

    def __init__(
        self, d_model: int, dim_feedforward: int, dropout: float, activation: Activation,
        norm_first: bool, key: ArrayLike | None, dtype: Any,
    ) -> None:  # fmt: skip
        keys = layer_keys(key, 2)
        self.linear1 = Linear(d_model, dim_feedforward, key=keys[0], dtype=dtype)
        self.linear2 = Linear(dim_feedforward, d_model, key=keys[1], dtype=dtype)
        self.dropout = Dropout(dropout)
        self.activation, self.norm_first = activation, bool(norm_first)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _residual(self, x: Tensor, norm: LayerNorm, part: Callable[[Tensor], Tensor]) -> Tensor:
        """Add a part to `x`, and normalise before the part or after the sum."""
        if self.norm_first:
            return x + self.dropout(part(norm(x)))
        return norm(x + self.dropout(part(x)))


@boundary_methods
class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward network, over tensors [..., length, d_model].

    >>> layer = pb.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0)
    >>> layer(pb.ones((3, 5, 8)), causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = relu, norm_first: bool = False, *, layer_norm_eps: float = 1e-5,
        kv_heads: int | None = None, rotary: bool = False, key: ArrayLike | None = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        keys = layer_keys(key, 2)
        self.self_attn = MultiHeadAttention(
            d_model, nhead, kv_heads=kv_heads, dropout=dropout, rotary=rotary, key=keys[0],
            dtype=dtype,
        )  # fmt: skip
        super().__init__(d_model, dim_feedforward, dropout, activation, norm_first, keys[1], dtype)
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, dtype=dtype)

    def forward(
        self, x: Tensor, mask: ArrayLike | None = None, *, padding_mask: ArrayLike | None = None,
        causal: bool = False,
    ) -> Tensor:  # fmt: skip
        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, mask=mask, padding_mask=padding_mask, causal=causal)

        x = self._residual(x, self.norm1, attend)
        return self._residual(x, self.norm2, self._feed_forward)


@boundary_methods
class TransformerDecoderLayer(_TransformerLayer):
    """Causal self-attention, attention to a memory, and a feed-forward network.

    >>> layer = pb.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16, dropout=0.0)
    >>> layer(pb.ones((3, 5, 8)), pb.ones((3, 7, 8))).shape
    (3, 5, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = relu, norm_first: bool = False, *, layer_norm_eps: float = 1e-5,
        key: ArrayLike | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        keys = layer_keys(key, 3)
        options: dict[str, Any] = {"dropout": dropout, "dtype": dtype}
        self.self_attn = MultiHeadAttention(d_model, nhead, key=keys[0], **options)
        self.multihead_attn = MultiHeadAttention(d_model, nhead, key=keys[1], **options)
        super().__init__(d_model, dim_feedforward, dropout, activation, norm_first, keys[2], dtype)
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, dtype=dtype)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, dtype=dtype)

    def forward(
        self, x: Tensor, memory: Tensor, mask: ArrayLike | None = None,
        memory_mask: ArrayLike | None = None, *, padding_mask: ArrayLike | None = None,
        memory_padding_mask: ArrayLike | None = None, causal: bool = True,
    ) -> Tensor:  # fmt: skip
        def attend(y: Tensor) -> Tensor:
            return self.self_attn(y, mask=mask, padding_mask=padding_mask, causal=causal)

        def look_up(y: Tensor) -> Tensor:
            return self.multihead_attn(
                y, memory, memory, mask=memory_mask, padding_mask=memory_padding_mask
            )

        x = self._residual(x, self.norm1, attend)
        x = self._residual(x, self.norm2, look_up)
        return self._residual(x, self.norm3, self._feed_forward)


@boundary_methods
class _TransformerStack(Module):
    """Layers with parameters of their own that are applied one after another."""

    def __init__(
        self, make_layer: Callable[[], Module], num_layers: int, norm: Module | None = None
    ) -> None:
        if is_module_to_walk(make_layer):
            name = type(make_layer).__name__
            raise ArgumentError(
                "make_layer must be a function that returns a new layer, got a layer",
                op=type(self).__name__,
                hint=f"Write lambda: {name}(...): each layer has parameters of its own.",
            )
        self.layers = ModuleList([make_layer() for _ in range(num_layers)])
        self.norm = norm

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        for layer in self.layers:
            x = layer(x, *args, **kwargs)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_TransformerStack):
    """A stack of encoder layers, made by a function that is called for each.

    >>> make = lambda: pb.nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
    >>> encoder = pb.nn.TransformerEncoder(make, num_layers=2)
    >>> encoder(pb.ones((3, 5, 8))).shape
    (3, 5, 8)
    """


class TransformerDecoder(_TransformerStack):
    """A stack of decoder layers, made by a function that is called for each.

    >>> make = lambda: pb.nn.TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)
    >>> decoder = pb.nn.TransformerDecoder(make, num_layers=2)
    >>> decoder(pb.ones((3, 5, 8)), pb.ones((3, 7, 8))).shape
    (3, 5, 8)
    """
