"""Attention and transformer layers against NumPy, and caches against whole sequences."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback import nn
from pullback.errors import ArgumentError, PullbackError, ShapeError

RNG = np.random.default_rng(0)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads_of(x, n):
    return np.moveaxis(x.reshape(*x.shape[:-1], n, -1), -2, -3)


def attention_reference(layer, query, memory, seen):
    """Multi-head attention as a formula, with one head of keys for each group of queries."""
    q_rows, kv_rows = layer.num_heads * layer.head_dim, layer.kv_heads * layer.head_dim
    parts = [q_rows, q_rows + kv_rows]
    weights = np.split(layer.in_proj_weight.numpy(), parts)
    biases = np.split(layer.in_proj_bias.numpy(), parts)
    q, k, v = (x @ w.T + b for x, w, b in zip((query, memory, memory), weights, biases))
    q, k, v = heads_of(q, layer.num_heads), heads_of(k, layer.kv_heads), heads_of(v, layer.kv_heads)
    k, v = (np.repeat(x, layer.num_heads // layer.kv_heads, axis=-3) for x in (k, v))
    scores = np.where(seen, q @ np.swapaxes(k, -1, -2) / np.sqrt(layer.head_dim), -np.inf)
    y = np.moveaxis(softmax(scores) @ v, -3, -2)
    y = y.reshape(*y.shape[:-2], -1)
    return y @ layer.out_proj.weight.numpy().T + layer.out_proj.bias.numpy()


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_attention_equals_its_formula(kv_heads):
    layer = nn.MultiHeadAttention(8, 4, kv_heads=kv_heads, dtype="float64", key=pb.random.key(1))
    layer.in_proj_bias = pb.tensor(RNG.normal(size=layer.in_proj_bias.shape))
    x, memory = RNG.normal(size=(2, 5, 8)), RNG.normal(size=(2, 3, 8))
    padding = np.array([[True, True, False], [True, True, True]])
    causal = np.tri(5, dtype=bool)
    bias = RNG.normal(size=(5, 5))

    @pb.compile
    def all_forms(x, memory):
        return (
            layer(x, causal=True),
            layer(x, mask=causal),
            layer(x, memory, padding_mask=padding),
            layer(x, mask=pb.where(causal, bias, -np.inf), padding_mask=np.ones((2, 5), bool)),
        )

    found = [np.asarray(y) for y in all_forms(x, memory)]
    wanted = attention_reference(layer, x, x, causal)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-10)
    np.testing.assert_allclose(found[1], wanted, rtol=1e-10)
    cross = attention_reference(layer, x, memory, padding[:, None, None, :])
    np.testing.assert_allclose(found[2], cross, rtol=1e-10)
    assert np.abs(found[3] - wanted).max() > 1e-3 and np.isfinite(found[3]).all()


@pytest.mark.parametrize("options", [{}, {"rotary": True, "kv_heads": 1}, {"window": 2}])
def test_a_cache_gives_what_the_whole_sequence_gives(options):
    layer = nn.MultiHeadAttention(8, 2, dtype="float64", key=pb.random.key(2), **options)
    x = pb.tensor(RNG.normal(size=(2, 6, 8)))
    whole = layer(x, causal=True)
    step = pb.compile(lambda x, cache: layer(x, cache=cache))
    first, cache = step(x[:, :3], layer.empty_cache((2,), 6))
    found = [first]
    for i in range(3, 6):
        y, cache = step(x[:, i : i + 1], cache)
        found.append(y)
    np.testing.assert_allclose(np.concatenate(found, axis=1), whole.numpy(), rtol=1e-10)
    assert cache.length.item() == 6
    with pytest.raises(PullbackError):  # the cache is full
        step(x[:, :1], cache)[0].numpy()
    with pytest.raises(ArgumentError, match="7 positions do not fit into a cache of 6"):
        layer(pb.ones((2, 7, 8), dtype="float64"), cache=layer.empty_cache((2,), 6))


def test_mistakes_are_named():
    with pytest.raises(ArgumentError, match="must be a multiple of num_heads"):
        nn.MultiHeadAttention(7, 2)
    with pytest.raises(ArgumentError, match="must be a multiple of kv_heads"):
        nn.MultiHeadAttention(8, 4, kv_heads=3)
    with pytest.raises(ShapeError, match=r"needs \[..., length, 8\]"):
        nn.MultiHeadAttention(8, 4)(pb.ones((2, 7)))


def residual_parts(layer, x, *attends):
    """A transformer layer as a sequence of residual steps."""
    steps = [*attends, lambda y: layer.linear2(pb.relu(layer.linear1(y)))]
    norms = [layer.norm1, layer.norm2, getattr(layer, "norm3", None)]
    for norm, part in zip(norms, steps):
        x = x + part(norm(x)) if layer.norm_first else norm(x + part(x))
    return x


def test_transformer_layers_are_their_parts():
    options = [{"dropout": 0.0, "norm_first": first} for first in (False, True)]
    encoders = [nn.TransformerEncoderLayer(8, 2, 16, **o) for o in options]
    decoders = [nn.TransformerDecoderLayer(8, 2, 16, **o) for o in options]
    x, memory = (pb.tensor(RNG.normal(size=(2, n, 8)).astype(np.float32)) for n in (4, 3))

    @pb.compile
    def all_forms(x, memory):
        found = [layer(x) for layer in encoders] + [layer(x, memory) for layer in decoders]
        wanted = [residual_parts(layer, x, layer.self_attn) for layer in encoders]
        for d in decoders:
            attends = [
                lambda y, d=d: d.self_attn(y, causal=True),
                lambda y, d=d: d.multihead_attn(y, memory, memory),
            ]
            wanted.append(residual_parts(d, x, *attends))
        grads = pb.grad(lambda layer: (layer(x) ** 2).sum())(encoders[0])
        return found, wanted, grads

    found, wanted, grads = all_forms(x, memory)
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y.numpy(), z.numpy(), atol=1e-5)
    assert all(np.isfinite(g.numpy()).all() for g in pb.tree.leaves(grads))


def test_attention_under_vmap_and_checkpoint():
    layer = nn.MultiHeadAttention(8, 2, key=pb.random.key(3))
    x = pb.tensor(RNG.normal(size=(3, 4, 8)).astype(np.float32))
    np.testing.assert_allclose(pb.vmap(layer)(x).numpy(), layer(x).numpy(), atol=1e-6)
    plain = pb.grad(lambda m: (m(x) ** 2).sum())(layer)
    again = pb.grad(lambda m: (pb.checkpoint(m)(x) ** 2).sum())(layer)
    for a, b in zip(pb.tree.leaves(plain), pb.tree.leaves(again), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-5)
