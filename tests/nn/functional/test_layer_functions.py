"""Norms, activations, attention and position embeddings agree with their definitions in NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nn_cases import check_derivatives, check_dtypes, check_values, positive, real

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, ShapeError

F = pb.nn.functional


def standard(x, axes, eps=1e-5):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def response_norm(x, size, alpha, beta, k):
    out = np.zeros_like(x)
    for c in range(x.shape[-1]):
        low, high = max(0, c - size // 2), min(x.shape[-1], c + (size - 1) // 2 + 1)
        total = (x[..., low:high] ** 2).sum(-1)
        out[..., c] = x[..., c] / (k + alpha / size * total) ** beta
    return out


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v, seen=None, scale=None, bias=0.0):
    """One query at a time."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    scores = scale * q @ np.swapaxes(k, -1, -2) + bias
    seen = np.ones(scores.shape, bool) if seen is None else np.broadcast_to(seen, scores.shape)
    for place in np.ndindex(*q.shape[:-1]):
        some = seen[place]
        if some.any():
            out[place] = softmax(scores[place][some]) @ v[place[:-1]][some]
    return out


def rotary(x, positions, base=10000.0, interleaved=False):
    d = x.shape[-1]
    out = np.zeros_like(x)
    for i in range(d // 2):
        a, b = (2 * i, 2 * i + 1) if interleaved else (i, i + d // 2)
        turn = np.exp(1j * positions * base ** (-2 * i / d))
        z = (x[..., a] + 1j * x[..., b]) * turn
        out[..., a], out[..., b] = z.real, z.imag
    return out


def position_mask(rows, columns, low, high, offset=0):
    away = np.arange(columns) - np.arange(rows)[:, None] - offset
    return (away >= low) & (away <= high)


X, W, B = real(3, 4, 6), real(6), real(6)
Q, K, V = real(2, 4, 3, 4), real(2, 4, 5, 4), real(2, 4, 5, 3)
FEW = real(2, 2, 5, 4)
MASK = real(2, 1, 3, 5) > 0
MASK[0, 0, 1] = False  # a query that sees nothing
BIAS = real(4, 3, 5)
NEVER = np.where(MASK, real(2, 1, 3, 5), -np.inf)
attend = F.scaled_dot_product_attention
NORMS = {
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda x, w, b: standard(x, (0, 1)) * w + b, X, W, B,
    ),
    "batch_norm first": (
        lambda x, m, v: F.batch_norm(x, m, v, eps=0.1, layout="NCHW"),
        lambda x, m, v: (x - m[:, None]) / np.sqrt(v[:, None] + 0.1), X, real(4), positive(4),
    ),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (4, 6), w, b),
        lambda x, w, b: standard(x, (1, 2)) * w + b, X, real(4, 6), real(4, 6),
    ),
    "rms_norm": (
        lambda x, w: F.rms_norm(x, 6, w, 0.1),
        lambda x, w: x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1) * w, X, W,
    ),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 3, w, b),
        lambda x, w, b: standard(x.reshape(3, 4, 3, 2), (1, 3)).reshape(x.shape) * w + b, X, W, B,
    ),
    "instance_norm": (
        lambda x, w: F.instance_norm(x, weight=w, layout="NCHW"),
        lambda x, w: standard(x, 2) * w[:, None], X, real(4),
    ),
    "local_response_norm": (
        lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 2.0),
        lambda x: response_norm(x, 3, 0.5, 0.6, 2.0), X,
    ),
}  # fmt: skip
ACTIVATIONS = {
    "gelu": (lambda x: F.gelu(x, "tanh"), lambda x: x / 2 * (
        1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), X),
    "softplus": (lambda x: F.softplus(x, 2.0), lambda x: np.log1p(np.exp(2 * x)) / 2, X),
    "prelu": (
        lambda x, w: F.prelu(x, w, layout="NCHW"),
        lambda x, w: np.where(x > 0, x, w[:, None] * x), X, real(4),
    ),
    "rrelu": (F.rrelu, lambda x: np.where(x > 0, x, x * (1 / 8 + 1 / 3) / 2), X),
    "logsigmoid": (F.logsigmoid, lambda x: -np.log1p(np.exp(-x)), X),
}  # fmt: skip
ATTENTION = {
    "attention": (attend, attention, Q, K, V),
    "attention with bools": (
        lambda q, k, v: attend(q, k, v, MASK), lambda q, k, v: attention(q, k, v, MASK), Q, K, V,
    ),
    "attention with floats": (
        lambda q, k, v, b: attend(q, k, v, NEVER, bias=b, scale=0.3),
        lambda q, k, v, b: attention(q, k, v, MASK, 0.3, np.where(MASK, NEVER, 0) + b),
        Q, K, V, BIAS,
    ),
    "causal attention": (
        lambda q, k, v: attend(q, k, v, is_causal=True, query_offset=pb.tensor(2)),
        lambda q, k, v: attention(q, k, v, position_mask(3, 5, -9, 0, 2)), Q, K, V,
    ),
    "attention in a window": (
        lambda q, k, v: attend(q, k, v, window=(1, None), is_causal=True),
        lambda q, k, v: attention(q, k, v, position_mask(3, 5, -1, 0)), Q, K, V,
    ),
    "attention both ways": (
        lambda q, k, v: attend(q, k, v, window=1),
        lambda q, k, v: attention(q, k, v, position_mask(3, 5, -1, 1)), Q, K, V,
    ),
    "grouped attention": (
        lambda q, k: attend(q, k, k, bias=BIAS, enable_gqa=True),
        lambda q, k: attention(q, k.repeat(2, 1), k.repeat(2, 1), bias=BIAS), Q, FEW,
    ),
    "rotary": (
        F.rotary_embedding, lambda x: rotary(x, np.arange(4)), X,
    ),
    "rotary interleaved": (
        lambda x: F.rotary_embedding(x, [3, 4, 5, 7], base=100.0, rotary_dim=4, interleaved=True),
        lambda x: np.concatenate(
            [rotary(x[..., :4], np.array([3, 4, 5, 7]), 100.0, True), x[..., 4:]], -1), X,
    ),
    "heads": (
        lambda x: F.merge_heads(F.split_heads(x, 3) * pb.arange(3.0, dtype="f64")[:, None, None]),
        lambda x: x * np.arange(3.0).repeat(2), X,
    ),
}  # fmt: skip
CASES = {**NORMS, **ACTIVATIONS, **ATTENTION}


def test_values(engine):
    alike = ("causal attention", "attention in a window", "attention both ways", "instance_norm")
    check_values({n: c for n, c in CASES.items() if engine != "xla" or n not in alike})


def test_derivatives():
    check_derivatives(CASES)


def test_dtypes():
    mixed = {"heads"}  # an operand is f64
    check_dtypes({name: case for name, case in CASES.items() if name not in mixed}, 0.05)


def test_queries_that_see_nothing():
    with pb.config(engine="reference"):

        def loss(q):
            return (attend(q, K, V, MASK) ** 2).sum() + (attend(q, K, V, NEVER) ** 2).sum()

        slope = pb.grad(loss)(pb.tensor(Q)).numpy()
        assert np.isfinite(slope).all() and not slope[0, :, 1].any() and slope[0, :, 0].any()


def test_running_statistics():
    with pb.config(engine="reference"):
        x = pb.tensor(X)
        y, mean, var = F.batch_norm_train(x, np.zeros(6), np.ones(6), momentum=0.25)
        np.testing.assert_allclose(y.numpy(), standard(X, (0, 1)))
        np.testing.assert_allclose(mean.numpy(), 0.25 * X.mean((0, 1)))
        np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * X.var((0, 1), ddof=1))
        slope = pb.grad(lambda x: F.batch_norm_train(x, np.zeros(6), np.ones(6))[1].sum())(x)
        assert not slope.numpy().any()
        half = F.batch_norm_train(x.astype("bf16"), pb.zeros(6), pb.ones(6))
        assert half.output.dtype is pb.bfloat16 and half.running_var.dtype is pb.float32


def test_masks_and_large_scores():
    with pb.config(engine="reference"):
        assert F.causal_mask(2, 4, 1).sum(1).tolist() == [2, 3]
        assert F.padding_mask([0, 2], 3).sum((1, 2, 3)).tolist() == [0, 2]
        half = pb.full((1, 2, 4), 200.0, dtype="f16")
        assert np.isfinite(attend(half, half, half).numpy()).all()


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: F.batch_norm(X), ArgumentError, "batch_norm: there are no running statistics"),
    (lambda: F.batch_norm(X, real(5), real(6)), ShapeError, "running_mean must be"),
    (lambda: F.batch_norm_train(pb.ones((1, 3)), pb.ones(3), pb.ones(3)), ShapeError, "more than"),
    (lambda: F.layer_norm(X, 5), ShapeError, "normalized_shape must be the last"),
    (lambda: F.group_norm(X, 4), ArgumentError, "num_groups must divide the 6"),
    (lambda: F.gelu(X, "erf"), ArgumentError, "approximate must be one of"),
    (lambda: attend(Q, K, V[..., :3, :]), ShapeError, "needs query"),
    (lambda: attend(Q, FEW[:, :, :, :], FEW[:, :1], enable_gqa=True), ShapeError, "enable_gqa"),
    (lambda: attend(Q, K, V, bias=MASK), DTypeError, "bias must be floats"),
    (lambda: attend(Q, K, V, window=-1), ArgumentError, "window must be"),
    (lambda: F.rotary_embedding(X, rotary_dim=3), ArgumentError, "must be even"),
    (lambda: F.split_heads(X, 4), ShapeError, "divisible by 4"),
])  # fmt: skip
def test_mistakes_are_reported(call, error, message):
    with pb.config(engine="reference"), pytest.raises(error, match=message):
        call()
