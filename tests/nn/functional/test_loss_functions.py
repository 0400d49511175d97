"""Losses agree with their definitions in NumPy, and check their labels."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from nn_cases import check_derivatives, check_dtypes, check_values, positive, real

import pullback as pb
from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError

F = pb.nn.functional


def log_softmax(x, axis=-1):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def cross_entropy(x, t, w=None, ignored=-100, smoothing=0.0):
    """Losses and weights of rows [n, C], one at a time."""
    count = x.shape[-1]
    w = np.ones(count) if w is None else w
    losses, shares = [], []
    for row, label in zip(log_softmax(x), t):
        if label == ignored:
            losses.append(0.0)
            shares.append(0.0)
            continue
        target = np.full(count, smoothing / count)
        target[label] += 1 - smoothing
        losses.append(-(w * target * row).sum())
        shares.append(w[label])
    return np.array(losses), np.array(shares)


def weighted_mean(losses, shares):
    return losses.sum() / shares.sum()


def ctc(x, labels, blank=0):
    """-log of the total probability of all paths of classes that spell the labels."""
    logs, total = log_softmax(x), 0.0
    for path in itertools.product(range(x.shape[1]), repeat=x.shape[0]):
        spelled = [k for k, _ in itertools.groupby(path)]
        if [k for k in spelled if k != blank] == list(labels):
            total += math.exp(sum(logs[t, k] for t, k in enumerate(path)))
    return -math.log(total) if total else math.inf


def huber(d, delta):
    return np.where(np.abs(d) < delta, d**2 / 2, delta * (np.abs(d) - delta / 2))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def length(x):
    return np.sqrt((x**2).sum(-1))


def multilabel_margin(x, t):
    losses = []
    for row, labels in zip(x, t):
        wanted = list(itertools.takewhile(lambda k: k >= 0, labels))
        others = [i for i in range(len(row)) if i not in wanted]
        losses.append(sum(max(0, 1 - row[j] + row[i]) for j in wanted for i in others) / len(row))
    return np.array(losses)


def multi_margin(x, t, p=1, margin=1.0):
    rows = [
        sum(max(0, margin - row[k] + v) ** p for i, v in enumerate(row) if i != k) / len(row)
        for row, k in zip(x, t)
    ]
    return np.mean(rows)


X, Y, Z, P = real(5, 4), real(5, 4), real(5, 4), positive(5, 4)
T, IGNORED = np.array([0, 3, 1, 2, 2]), np.array([0, 3, -100, 2, 2])
SIGN = np.array([1, -1, 1, -1, -1])
SIGNS = np.where(real(5, 4) > 0, 1, -1)
LISTS = np.array([[0, 2, -1, 1], [3, -1, -1, -1], [-1, 0, 1, 2], [0, 1, 2, 3], [1, 1, -1, 0]])
W = np.array([0.3, 1.0, 2.0, 0.5])
SHORT = real(4, 2, 3)
CASES = {
    "cross_entropy": (F.cross_entropy, lambda x, t: cross_entropy(x, t)[0].mean(), X, T),
    "cross_entropy weighted": (
        lambda x, t, w: F.cross_entropy(x, t, w, label_smoothing=0.2),
        lambda x, t, w: weighted_mean(*cross_entropy(x, t, w, smoothing=0.2)), X, IGNORED, W,
    ),
    "cross_entropy by element": (
        lambda x, t: F.cross_entropy(x, t, ignore_index=3, reduction="none"),
        lambda x, t: cross_entropy(x, t, ignored=3)[0], X, T,
    ),
    "cross_entropy of images": (
        lambda x, t: F.cross_entropy(x, t, reduction="sum", axis=1),
        lambda x, t: cross_entropy(np.moveaxis(x, 1, -1).reshape(-1, 4), t.ravel())[0].sum(),
        real(2, 4, 3, 2), T[np.arange(12) % 5].reshape(2, 3, 2),
    ),
    "cross_entropy of probabilities": (
        lambda x, p: F.cross_entropy(x, p, label_smoothing=0.1),
        lambda x, p: -((p * 0.9 + 0.1 / 4) * log_softmax(x)).sum(-1).mean(), X, P,
    ),
    "nll_loss": (F.nll_loss, lambda x, t: -x[np.arange(5), t].mean(), X, T),
    "binary_cross_entropy": (
        F.binary_cross_entropy,
        lambda p, t: -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean(), P, positive(5, 4),
    ),
    "binary_cross_entropy_with_logits": (
        lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, pos_weight=p),
        lambda x, t, w, p: -(
            w * (p * t * np.log(sigmoid(x)) + (1 - t) * np.log(sigmoid(-x)))
        ).mean(), X, P, positive(5, 1), positive(4),
    ),
    "kl_div": (
        lambda x, p: F.kl_div(x, p, "batchmean"),
        lambda x, p: (p * (np.log(p) - x)).sum() / 5, X, P,
    ),
    "kl_div of logarithms": (
        lambda x, p: F.kl_div(x, p, log_target=True), lambda x, p: (np.exp(p) * (p - x)).mean(),
        X, Y,
    ),
    "mse_loss": (
        lambda x, y, w: F.mse_loss(x, y, weight=w),
        lambda x, y, w: (w * (x - y) ** 2).sum() / w.sum(), X, Y, P,
    ),
    "l1_loss": (F.l1_loss, lambda x, y: np.abs(x - y).mean(), X, Y),
    "smooth_l1_loss": (
        lambda x, y: F.smooth_l1_loss(x, y, "sum", 0.7), lambda x, y: huber(x - y, 0.7).sum() / 0.7,
        X, Y,
    ),
    "huber_loss": (
        lambda x, y: F.huber_loss(x, y, "none", 0.7), lambda x, y: huber(x - y, 0.7), X, Y,
    ),
    "poisson_nll_loss": (
        lambda x, y: F.poisson_nll_loss(x, y, full=True),
        lambda x, y: (np.exp(x) - y * x + y * np.log(y) - y + np.log(2 * np.pi * y) / 2).mean(),
        X, P + 2,
    ),
    "gaussian_nll_loss": (
        lambda x, y, v: F.gaussian_nll_loss(x, y, v, True),
        lambda x, y, v: ((np.log(2 * np.pi * v) + (x - y) ** 2 / v) / 2).mean(), X, Y, P,
    ),
    "cosine_embedding_loss": (
        lambda x, y, t: F.cosine_embedding_loss(x, y, t, 0.1, "none"),
        lambda x, y, t: (lambda c: np.where(t == 1, 1 - c, np.maximum(c - 0.1, 0)))(
            (x * y).sum(-1) / length(x) / length(y)), X, Y, SIGN,
    ),
    "triplet_margin_loss": (
        lambda x, y, z: F.triplet_margin_loss(x, y, z, eps=0.0, swap=True),
        lambda x, y, z: np.maximum(
            length(x - y) - np.minimum(length(x - z), length(y - z)) + 1, 0).mean(), X, Y, Z,
    ),
    "margin_ranking_loss": (
        lambda x, y, t: F.margin_ranking_loss(x, y, t, 0.2),
        lambda x, y, t: np.maximum(0.2 - t * (x - y), 0).mean(), X[:, 0], Y[:, 0], SIGN,
    ),
    "hinge_embedding_loss": (
        F.hinge_embedding_loss,
        lambda x, t: np.where(t == 1, x, np.maximum(1 - x, 0)).mean(), X, SIGNS,
    ),
    "soft_margin_loss": (F.soft_margin_loss, lambda x, t: softplus(-t * x).mean(), X, SIGNS),
    "multi_margin_loss": (F.multi_margin_loss, multi_margin, X, T),
    "multi_margin_loss squared": (
        lambda x, t: F.multi_margin_loss(x, t, 2, 0.4), lambda x, t: multi_margin(x, t, 2, 0.4),
        X, T,
    ),
    "multilabel_margin_loss": (
        lambda x, t: F.multilabel_margin_loss(x, t, "none"), multilabel_margin, X, LISTS,
    ),
    "multilabel_soft_margin_loss": (
        F.multilabel_soft_margin_loss,
        lambda x, t: (softplus(x) - t * x).mean(), X, (SIGNS > 0).astype(np.int64),
    ),
    "ctc_loss": (
        lambda x: F.ctc_loss(F.log_softmax(x), [[1, 2], [1, 1]], [4, 3], [2, 2], reduction="none"),
        lambda x: np.array([ctc(x[:, 0], [1, 2]), ctc(x[:3, 1], [1, 1])]), SHORT,
    ),
    "ctc_loss mean": (
        lambda x: F.ctc_loss(F.log_softmax(x), [1, 0, 1], [4, 2], [2, 1], blank=2),
        lambda x: (ctc(x[:, 0], [1, 0], 2) / 2 + ctc(x[:2, 1], [1], 2)) / 2, SHORT,
    ),
}  # fmt: skip


def test_values(engine):
    check_values(CASES)


def test_derivatives():
    check_derivatives(CASES)


def test_dtypes():
    rough = {"ctc_loss", "ctc_loss mean", "poisson_nll_loss"}  # their arguments are rounded, too
    check_dtypes({name: case for name, case in CASES.items() if name not in rough})
    check_dtypes({name: CASES[name] for name in rough}, 0.1)


def test_extreme_values():
    with pb.config(engine="reference"):
        x = pb.tensor([[1e4, -1e4], [-1e4, 1e4]])
        assert F.cross_entropy(x, [0, 0], reduction="none").tolist() == [0.0, 2e4]
        assert F.binary_cross_entropy([0.0, 1.0], [1.0, 0.0]).item() == 100.0
        z = pb.tensor([500.0, -500.0])
        assert F.binary_cross_entropy_with_logits(z, [0.0, 1.0]).item() == 500.0
        slope = pb.grad(lambda z: F.binary_cross_entropy_with_logits(z, [0.0, 1.0]))(z)
        assert slope.tolist() == [0.5, -0.5]
        assert F.kl_div(pb.log([0.5, 0.5]), [1.0, 0.0], "sum").item() == pytest.approx(math.log(2))


def test_targets_that_do_not_fit_their_frames():
    with pb.config(engine="reference"):
        x = pb.tensor(SHORT)

        def loss(x, zero_infinity):
            logs = F.log_softmax(x)
            return F.ctc_loss(logs, [[1, 1], [1, 2]], [2, 4], [2, 2], 0, "none", zero_infinity)

        assert loss(x, False).tolist()[0] == math.inf
        kept = loss(x, True)
        assert kept.tolist()[0] == 0 and kept.tolist()[1] == loss(x, False).tolist()[1]
        slope = pb.grad(lambda x: loss(x, True).sum())(x).numpy()
        assert np.isfinite(slope).all() and not slope[:, 0].any() and slope[:, 1].any()
        empty = F.ctc_loss(F.log_softmax(x), [[1], [1]], [4, 4], [0, 0], reduction="none")
        assert empty.tolist() == pytest.approx((-F.log_softmax(x)[..., 0].sum(0)).tolist())


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: F.cross_entropy(X, [0, 1, 2, 3, 4]), IndexOutOfRange,
     "cross_entropy: a class index must be at least 0 and less than 4, got 4"),
    (lambda: F.cross_entropy(X, [0, 1, 2, 3, -1]), IndexOutOfRange, "got -1"),
    (lambda: F.cross_entropy(X, pb.tensor(T) + 3).numpy(), IndexOutOfRange, "out of range"),
    (lambda: F.cross_entropy(X, [0.0, 1.0, 2.0, 3.0, 1.0]), DTypeError, "must be an integer"),
    (lambda: F.cross_entropy(X, [0, 1]), ShapeError, "axis=1"),
    (lambda: F.cross_entropy(X, T, pb.ones(3)), ShapeError, "weight must be"),
    (lambda: F.cross_entropy(X, T, reduction="batch"), ArgumentError, "reduction must be one of"),
    (lambda: F.cross_entropy(X, T, label_smoothing=2.0), ArgumentError, "label_smoothing must"),
    (lambda: F.mse_loss(pb.ones((3, 1)), pb.ones(3)), ShapeError, "the same shape"),
    (lambda: F.hinge_embedding_loss(X, SIGN), ShapeError, "target must have shape"),
    (lambda: F.ctc_loss(SHORT, [[1, 5], [1, 1]], [4, 4], [2, 2]).numpy(), IndexOutOfRange, "less"),
    (lambda: F.ctc_loss(SHORT, [[1], [1]], [4, 5], [1, 1]), IndexOutOfRange, "input_lengths"),
    (lambda: F.ctc_loss(SHORT, [1, 1], [4, 4], pb.tensor([1, 1])), ArgumentError, "must be known"),
])  # fmt: skip
def test_mistakes_are_reported(call, error, message):
    with pb.config(engine="reference"), pytest.raises(error, match=message):
        call()
