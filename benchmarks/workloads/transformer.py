"""Training steps of a transformer that predicts the next token ("lm").

pullback's and JAX's are written out, with plain functions; `transformer_modules` has those of
PyTorch and of `pb.nn`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from benchmarks.measures import peak_bytes, seconds_of_first_call
from benchmarks.training import jax_training, pullback_training
from benchmarks.workload import Case, Workload
from benchmarks.workloads.transformer_arrays import Arrays, inputs
from benchmarks.workloads.transformer_modules import with_pullback_nn, with_torch


def with_pullback(arrays: Arrays, compiled: bool = True) -> Case:
    import pullback as pb

    heads = arrays.heads

    def layer_norm(p: Any, x: Any) -> Any:
        mean = x.mean(axis=-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
        return (x - mean) / pb.sqrt(variance + 1e-5) * p["scale"] + p["shift"]

    def linear(p: Any, x: Any) -> Any:
        return x @ p["w"] + p["b"]

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + pb.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def attention(p: Any, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = linear(p["qkv"], x).reshape(batch, length, 3, heads, width // heads)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads)
        mask = pb.tril(pb.ones((length, length), dtype=bool))
        mixed = pb.softmax(pb.where(mask, scores, -math.inf), axis=-1) @ v
        return linear(p["out"], mixed.transpose(0, 2, 1, 3).reshape(batch, length, width))

    def loss(params: Any, batch: Any) -> Any:
        tokens, following = batch
        x = params["words"][tokens] + params["positions"]
        for p in params["layers"]:
            x = x + attention(p, layer_norm(p["norm1"], x))
            x = x + linear(p["down"], gelu(linear(p["up"], layer_norm(p["norm2"], x))))
        logits = layer_norm(params["norm"], x) @ params["head"]
        scores = pb.log_softmax(logits, axis=-1)
        return -pb.take_along_axis(scores, following[..., None], axis=-1).mean()

    return pullback_training(loss, arrays.params, arrays.batch, compiled=compiled)


def with_jax(arrays: Arrays) -> Case:
    import jax
    import jax.numpy as jnp

    heads = arrays.heads

    def layer_norm(p: Any, x: Any) -> Any:
        mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]

    def linear(p: Any, x: Any) -> Any:
        return x @ p["w"] + p["b"]

    def attention(p: Any, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = linear(p["qkv"], x).reshape(batch, length, 3, heads, width // heads)
        q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads)
        mask = jnp.tril(jnp.ones((length, length), bool))
        mixed = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), axis=-1) @ v
        return linear(p["out"], mixed.transpose(0, 2, 1, 3).reshape(batch, length, width))

    def loss(params: Any, batch: Any) -> Any:
        tokens, following = batch
        x = params["words"][tokens] + params["positions"]
        for p in params["layers"]:
            x = x + attention(p, layer_norm(p["norm1"], x))
            x = x + linear(p["down"], jax.nn.gelu(linear(p["up"], layer_norm(p["norm2"], x))))
        scores = jax.nn.log_softmax(layer_norm(params["norm"], x) @ params["head"], axis=-1)
        return -jnp.take_along_axis(scores, following[..., None], axis=-1).mean()

    return jax_training(loss, arrays.params, arrays.batch)


PEERS = {"jax": with_jax, "torch": with_torch}
CASES = {"pullback": with_pullback, **PEERS}
COLD = {"PULLBACK_CACHE": "0"}
WORKLOADS = [
    Workload(
        "lm", "lm: transformer 4 layers x 256, 8 heads, 8 x 128 tokens, vocabulary 1,000", inputs,
        CASES, tolerance=1e-3,
    ),
    Workload(
        "lm_nn", "lm (`pb.nn`): the same, of layers", inputs,
        {"pullback": with_pullback_nn, **PEERS}, tolerance=1e-3, torch_compile=False,
    ),
    Workload(
        "lm_undecorated", "lm, pullback without `pb.compile`", inputs,
        {"pullback": partial(with_pullback, compiled=False), **PEERS}, tolerance=1e-3,
        torch_compile=False, note="in turns with the compiled step, 1.04 to 1.07 times as long.",
    ),
    Workload(
        "lm_first_call", "lm: first call, trace, compile and run, nothing on the disk", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch.compile": with_torch}, unit="s",
        tolerance=1e-3, measure=seconds_of_first_call, environment=COLD,
    ),
    Workload(
        "lm_memory", "lm: peak memory of a step, beyond the loaded library", inputs,
        CASES, unit="MB", tolerance=1e-3, torch_compile=False, measure=peak_bytes,
        environment=COLD,
    ),
    Workload(
        "lm_undecorated_memory", "lm, pullback without `pb.compile`: peak memory of a step", inputs,
        {"pullback": partial(with_pullback, compiled=False), **PEERS}, unit="MB",
        tolerance=1e-3, torch_compile=False, measure=peak_bytes, environment=COLD,
    ),
]  # fmt: skip
