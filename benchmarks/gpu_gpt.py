"""Training steps of GPT-2, one source for all libraries.

Computation and the residual stream in bf16, parameters in f32, Adam, causal attention by each
library's own function (cuDNN's in JAX).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.training import Optimizer, jax_training, pullback_training, torch_training
from benchmarks.workload import Case, leaves, mapped

OPTIMIZER = Optimizer(1e-4, betas=(0.9, 0.95))
# layers, width, heads, length, batch, vocabulary
SIZES = {
    "tiny": (2, 64, 2, 64, 2, 128),
    "small": (12, 768, 12, 1024, 16, 50304),
    "medium": (24, 1024, 16, 1024, 8, 50304),
}


def inputs(quick: bool, size: str = "small") -> tuple[Any, np.ndarray, int]:
    """Parameters, tokens [batch, length + 1] and the number of heads."""
    sizes = SIZES["tiny" if quick else size]
    _, _, heads, length, batch, words = sizes
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, words, (batch, length + 1)).astype(np.int32)
    return parameters(rng, *sizes), tokens, heads


def parameters(
    rng: np.random.Generator, layers: int, width: int, heads: int, length: int, batch: int,
    words: int,
) -> Any:  # fmt: skip
    def normal(*shape: int) -> np.ndarray:
        return np.float32(0.02) * rng.standard_normal(shape, np.float32)

    def linear(name: str, m: int, n: int) -> dict[str, np.ndarray]:
        return {name: normal(m, n), f"{name}_bias": np.zeros(n, np.float32)}

    def norm(name: str) -> dict[str, np.ndarray]:
        return {name: np.ones(width, np.float32), f"{name}_bias": np.zeros(width, np.float32)}

    def layer() -> dict[str, np.ndarray]:
        return {
            **norm("norm1"), **linear("qkv", width, 3 * width), **linear("out", width, width),
            **norm("norm2"), **linear("up", width, 4 * width), **linear("down", 4 * width, width),
        }  # fmt: skip

    tables = {"words": normal(words, width), "positions": normal(length, width)}
    return {**tables, **norm("norm"), "layers": [layer() for _ in range(layers)]}


def loss(m: Any, params: Any, tokens: Any, heads: int) -> Any:
    """The mean cross-entropy of each token after the first, in the namespace of a library."""

    def norm(x: Any, p: Any, name: str) -> Any:
        y = m.f32(x)
        y = y - m.mean(y)
        y = y * m.rsqrt(m.mean(y * y) + 1e-5)
        return m.bf16(y * p[name] + p[f"{name}_bias"])

    def linear(x: Any, p: Any, name: str) -> Any:
        return x @ m.bf16(p[name]) + m.bf16(p[f"{name}_bias"])

    given, wanted = tokens[:, :-1], tokens[:, 1:]
    batch, length = given.shape
    words = m.bf16(params["words"])
    x = m.rows(words, given) + m.bf16(params["positions"])[:length]
    width = x.shape[-1]
    for p in params["layers"]:
        qkv = linear(norm(x, p, "norm1"), p, "qkv").reshape(batch, length, 3, heads, width // heads)
        y = m.attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]).reshape(batch, length, width)
        x = x + linear(y, p, "out")
        x = x + linear(m.gelu(linear(norm(x, p, "norm2"), p, "up")), p, "down")
    return m.cross_entropy(norm(x, params, "norm") @ words.T, wanted)


def with_pullback(arrays: Any, compiled: bool = True, exact: bool = False) -> Case:
    """Steps of pullback; `exact` ones compute everything in f32."""
    import pullback as pb
    from pullback.nn import functional as F

    short = pb.float32 if exact else pb.bfloat16

    def turned(x: Any) -> Any:
        return pb.transpose(x, (0, 2, 1, 3))

    m = SimpleNamespace(
        f32=lambda x: x.astype(pb.float32), bf16=lambda x: x.astype(short),
        mean=lambda x: x.mean(axis=-1, keepdims=True), rsqrt=pb.rsqrt,
        gelu=lambda x: F.gelu(x, approximate="tanh"), rows=lambda table, at: table[at],
        attention=lambda q, k, v: turned(
            F.scaled_dot_product_attention(turned(q), turned(k), turned(v), is_causal=True)
        ),
        cross_entropy=lambda x, at: F.cross_entropy(x.reshape(-1, x.shape[-1]).astype(pb.float32),
                                                    at.reshape(-1)),
    )  # fmt: skip
    params, tokens, heads = arrays
    return pullback_training(
        lambda params, tokens: loss(m, params, tokens, heads), params, tokens, OPTIMIZER, compiled
    )


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    attention = "cudnn" if jax.default_backend() == "gpu" else None

    def cross_entropy(x: Any, at: Any) -> Any:
        logs = jax.nn.log_softmax(x.astype(jnp.float32))
        return -jnp.mean(jnp.take_along_axis(logs, at[..., None], axis=-1))

    m = SimpleNamespace(
        f32=lambda x: x.astype(jnp.float32), bf16=lambda x: x.astype(jnp.bfloat16),
        mean=lambda x: x.mean(axis=-1, keepdims=True), rsqrt=jax.lax.rsqrt,
        gelu=lambda x: jax.nn.gelu(x, approximate=True), rows=lambda table, at: table[at],
        attention=lambda q, k, v: jax.nn.dot_product_attention(
            q, k, v, is_causal=True, implementation=attention
        ),
        cross_entropy=cross_entropy,
    )  # fmt: skip
    params, tokens, heads = arrays
    return jax_training(
        lambda params, tokens: loss(m, params, tokens, heads), params, tokens, OPTIMIZER
    )


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch
    import torch.nn.functional as F

    m = SimpleNamespace(
        f32=lambda x: x.float(), bf16=lambda x: x.bfloat16(),
        mean=lambda x: x.mean(-1, keepdim=True), rsqrt=torch.rsqrt,
        gelu=lambda x: F.gelu(x, approximate="tanh"), rows=lambda table, at: F.embedding(at, table),
        attention=lambda q, k, v: F.scaled_dot_product_attention(
            *[x.transpose(1, 2) for x in (q, k, v)], is_causal=True
        ).transpose(1, 2),
        cross_entropy=lambda x, at: F.cross_entropy(x.flatten(0, 1).float(), at.flatten()),
    )  # fmt: skip
    params, tokens, heads = arrays
    tensors = mapped(lambda x: torch.tensor(x, requires_grad=True), params)
    forward = compile(lambda params, tokens: loss(m, params, tokens, heads))
    return torch_training(
        lambda tokens: forward(tensors, tokens), [x for _, x in leaves(tensors)],
        torch.tensor(tokens).long(), optimizer=OPTIMIZER,
    )  # fmt: skip
