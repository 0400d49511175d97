"""Layers agree with NumPy, in both engines and both layouts."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback import nn

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _seed():
    """Each test draws its parameters from the same keys, whatever ran before."""
    nn.seed(0)


def real(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def weights_of(layer: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in layer.state_dict().items()}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# References, channels last


def convolved(x, layer, stride, padding, dilation=1, groups=1, mode="constant"):
    """[N, spatial..., C] with filters [spatial..., C / groups, F], one place after the other."""
    w = weights_of(layer)
    filters, rank = w["weight"], x.ndim - 2
    x = np.pad(x, [(0, 0), *[(padding, padding)] * rank, (0, 0)], mode)
    window = [(k - 1) * dilation + 1 for k in filters.shape[:rank]]
    counts = [(n - k) // stride + 1 for n, k in zip(x.shape[1:-1], window)]
    inner, outer = filters.shape[-2], filters.shape[-1] // groups
    y = np.zeros((x.shape[0], *counts, filters.shape[-1]))
    for place in itertools.product(*map(range, counts)):
        at = [slice(p * stride, p * stride + k, dilation) for p, k in zip(place, window)]
        for g in range(groups):
            part = x[(slice(None), *at, slice(g * inner, (g + 1) * inner))]
            f = filters[..., g * outer : (g + 1) * outer]
            y[(slice(None), *place, slice(g * outer, (g + 1) * outer))] = np.tensordot(
                part, f, axes=rank + 1
            )
    return y + w.get("bias", 0)


def spread(x, layer, stride, padding):
    """The transpose of a convolution: each pixel adds its filter to the result."""
    w = weights_of(layer)
    filters = w["weight"]
    sizes = [(n - 1) * stride + k for n, k in zip(x.shape[1:-1], filters.shape)]
    y = np.zeros((x.shape[0], *sizes, filters.shape[-2]))
    for place in itertools.product(*map(range, x.shape[1:-1])):
        at = [slice(p * stride, p * stride + k) for p, k in zip(place, filters.shape)]
        y[(slice(None), *at)] += np.tensordot(x[(slice(None), *place)], filters, axes=(-1, -1))
    inside = [slice(padding, n - padding) for n in sizes]
    return y[(slice(None), *inside)] + w.get("bias", 0)


def standardised(x, axes, eps, unbiased_by=0):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def recurrent(kind: str, w: dict, x: np.ndarray, suffix: str, backwards: bool = False):
    """Outputs and last states of one direction over [T, N, C]."""
    ih, hh = w[f"weight_ih{suffix}"], w[f"weight_hh{suffix}"]
    bi, bh = w[f"bias_ih{suffix}"], w[f"bias_hh{suffix}"]
    n = hh.shape[1]
    h = c = np.zeros((x.shape[1], n))
    rows = []
    for row in x[::-1] if backwards else x:
        a, b = row @ ih.T + bi, h @ hh.T + bh
        if kind == "RNN":
            h = np.tanh(a + b)
        elif kind == "GRU":
            r, z = sigmoid(a[:, :n] + b[:, :n]), sigmoid(a[:, n : 2 * n] + b[:, n : 2 * n])
            h = (1 - z) * np.tanh(a[:, 2 * n :] + r * b[:, 2 * n :]) + z * h
        else:
            i, f, g, o = np.split(a + b, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.stack(rows[::-1] if backwards else rows), h, c


def two_layers(kind: str, layer: Any, x: np.ndarray) -> list[np.ndarray]:
    """Both layers of a bidirectional network: outputs and the last states."""
    w, ends = weights_of(layer), []
    for number in range(2):
        parts = []
        for suffix in (f"_l{number}", f"_l{number}_reverse"):
            y, *end = recurrent(kind, w, x, suffix, suffix.endswith("reverse"))
            parts.append(y)
            ends.append(end)
        x = np.concatenate(parts, axis=-1)
    states = [np.stack([e[i] for e in ends]) for i in range(2 if kind == "LSTM" else 1)]
    return [x, *states]


def flat(y: Any) -> list:
    return [z for part in y for z in flat(part)] if isinstance(y, (tuple, list)) else [y]


def image_cases() -> list:
    """Layers of images [N, spatial..., C], the input, and what NumPy says."""
    x1, x2, x3 = real(2, 7, 4), real(2, 6, 7, 4), real(1, 4, 5, 4, 2)
    cases = []

    def add(layer: Any, x: np.ndarray, reference: Any) -> None:
        layer = layer.to(pb.float64)
        cases.append((layer, x, reference(layer)))

    add(nn.Conv1d(4, 6, 3, stride=2, padding=1), x1, lambda m: convolved(x1, m, 2, 1))
    add(
        nn.Conv2d(4, 6, 2, dilation=2, groups=2, bias=False),
        x2,
        lambda m: convolved(x2, m, 1, 0, 2, 2),
    )
    add(nn.Conv2d(4, 2, 3, padding="same"), x2, lambda m: convolved(x2, m, 1, 1))
    add(
        nn.Conv2d(4, 2, 3, padding=1, padding_mode="circular"),
        x2,
        lambda m: convolved(x2, m, 1, 1, mode="wrap"),
    )
    add(
        nn.Conv2d(4, 2, 3, padding=((1, 1), (1, 1)), padding_mode="reflect"),
        x2,
        lambda m: convolved(x2, m, 1, 1, mode="reflect"),
    )
    add(nn.Conv3d(2, 3, 2), x3, lambda m: convolved(x3, m, 1, 0))
    add(nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), x1, lambda m: spread(x1, m, 2, 1))
    add(nn.ConvTranspose2d(4, 3, 2), x2, lambda m: spread(x2, m, 1, 0))
    add(nn.ConvTranspose3d(2, 3, 2, stride=2), x3, lambda m: spread(x3, m, 2, 0))
    add(nn.BatchNorm1d(4), x1, lambda m: standardised(x1, (0, 1), 1e-5))
    add(nn.BatchNorm2d(4, 1e-2), x2, lambda m: standardised(x2, (0, 1, 2), 1e-2))
    add(nn.BatchNorm2d(4).eval(), x2, lambda m: x2 / np.sqrt(1 + 1e-5))
    add(nn.InstanceNorm2d(4), x2, lambda m: standardised(x2, (1, 2), 1e-5))
    add(
        nn.GroupNorm(2, 4),
        x2,
        lambda m: standardised(x2.reshape(2, 6, 7, 2, 2), (1, 2, 4), 1e-5).reshape(x2.shape),
    )
    add(nn.MaxPool2d(2), x2, lambda m: x2[:, :, :6].reshape(2, 3, 2, 3, 2, 4).max((2, 4)))
    add(nn.AvgPool2d(2), x2, lambda m: x2[:, :, :6].reshape(2, 3, 2, 3, 2, 4).mean((2, 4)))
    add(nn.AdaptiveAvgPool2d(1), x2, lambda m: x2.mean((1, 2), keepdims=True))
    add(
        nn.AdaptiveMaxPool3d((2, None, 1)),
        x3,
        lambda m: x3.reshape(1, 2, 2, 5, 4, 2).max((2, 4))[:, :, :, None],
    )
    add(
        nn.ReflectionPad2d((1, 2, 0, 1)),
        x2,
        lambda m: np.pad(x2, [(0, 0), (0, 1), (1, 2), (0, 0)], "reflect"),
    )
    add(
        nn.ConstantPad1d(1, 0.5),
        x1,
        lambda m: np.pad(x1, [(0, 0), (1, 1), (0, 0)], constant_values=0.5),
    )
    add(nn.Upsample(scale_factor=2.0), x2, lambda m: x2.repeat(2, 1).repeat(2, 2))
    add(
        nn.PixelShuffle(2),
        x2,
        lambda m: x2.reshape(2, 6, 7, 1, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 12, 14, 1),
    )
    add(nn.PReLU(4), x2, lambda m: np.where(x2 > 0, x2, 0.25 * x2))
    return cases  # fmt: skip


def other_cases() -> list:
    """Layers of vectors and sequences, the inputs, and what NumPy says."""
    a, b, index = real(5, 3), real(5, 2), np.array([[1, 0], [3, 2]])
    linear, bilinear = nn.Linear(3, 4).to(pb.float64), nn.Bilinear(3, 2, 4).to(pb.float64)
    table = nn.Embedding(4, 3, padding_idx=-4).to(pb.float64)
    w, v = weights_of(linear), weights_of(bilinear)
    cases = [
        (linear, (a,), a @ w["weight"].T + w["bias"]),
        (bilinear, (a, b), np.einsum("ni,oij,nj->no", a, v["weight"], b) + v["bias"]),
        (table, (index,), np.asarray(table.weight)[index]),
        (nn.LayerNorm((5, 3)).to(pb.float64), (a,), standardised(a, (0, 1), 1e-5)),
        (nn.RMSNorm(3, 1e-3).to(pb.float64), (a,),
         a / np.sqrt((a**2).mean(-1, keepdims=True) + 1e-3)),
        (nn.Flatten(0), (a,), a.ravel()), (nn.Unflatten(0, (1, -1)), (a,), a[None]),
        (nn.Softmax(axis=0), (a,), np.exp(a) / np.exp(a).sum(0)), (nn.Tanh(), (a,), np.tanh(a)),
        (nn.MSELoss(), (a, a + 1), np.array(1.0)), (nn.L1Loss(reduction="sum"), (a, a + 1), 15.0),
        (nn.NLLLoss(weight=np.arange(3.0)), (a, [0, 1, 2, 2, 1]),
         -(a[[1, 2, 3, 4], [1, 2, 2, 1]] * [1, 2, 2, 1]).sum() / 6),
    ]  # fmt: skip
    x = real(4, 2, 3)
    for kind in ("RNN", "GRU", "LSTM"):
        layer = getattr(nn, kind)(3, 5, num_layers=2, bidirectional=True).to(pb.float64)
        cases.append((layer, (x,), two_layers(kind, layer, x)))
        cell = getattr(nn, f"{kind}Cell")(3, 5).to(pb.float64)
        _, h, c = recurrent(kind, {f"{n}_": v for n, v in weights_of(cell).items()}, x[:1], "_")
        cases.append((cell, (x[0],), [h, c] if kind == "LSTM" else [h]))
    return cases


def test_values():
    with pb.config(engine="reference"):
        images = image_cases()
        cases = [*other_cases(), *[(m, (x,), y) for m, x, y in images]]
        for layer, x, y in images:
            if hasattr(layer, "layout"):
                cases.append((first(layer), (np.moveaxis(x, -1, 1),), np.moveaxis(y, -1, 1)))
        for layer, inputs, wanted in cases:
            for value, want in zip(flat(layer(*inputs)), flat(wanted), strict=True):
                assert value.shape == np.shape(want), layer
                np.testing.assert_allclose(value.numpy(), want, 1e-12, 1e-12, err_msg=repr(layer))


def test_values_of_a_compiled_network():
    class Network(nn.Module):
        def __init__(self):
            self.layers = nn.Sequential(
                nn.Conv2d(2, 4, 3, padding="same"), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2),
                nn.Flatten(1, 2),
            )  # fmt: skip
            self.table, self.memory = nn.Embedding(5, 4), nn.GRU(4, 3, batch_first=True)
            self.loss = nn.CrossEntropyLoss(weight=[1.0, 2.0, 1.0])

        def forward(self, x, index, labels):
            y, h = self.memory(self.layers(x) + self.table(index))
            return self.loss(y[:, -1] + h[0], labels), self

    model = Network()
    x, index = real(2, 4, 4, 2).astype(np.float32), np.array([[0, 4, 2, 2], [1, 1, 3, 0]])
    with pb.config(engine="reference"):
        wanted, after = copy.deepcopy(model)(x, index, [2, 1])
    found, new = pb.compile(lambda m, *xs: m(*xs))(model, x, index, np.array([2, 1]))
    np.testing.assert_allclose(found.item(), wanted.item(), 1e-5)
    for a, b in zip(new.buffers(), after.buffers(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5, 1e-6)


def first(layer: Any) -> Any:
    """The same layer for images [N, C, spatial...]."""
    made = pb.tree.map(lambda x: x, layer)
    object.__setattr__(made, "layout", "NCHW")
    weight = getattr(made, "weight", None)
    if weight is not None and weight.ndim > 2:
        made.weight = pb.moveaxis(weight, (-2, -1), (1, 0))
    return made


DERIVATIVES = [
    (lambda: nn.Conv1d(2, 2, 2, stride=2, layout="NCHW"), (1, 2, 5)),
    (lambda: nn.BatchNorm1d(2), (3, 2)), (lambda: nn.InstanceNorm1d(2, affine=True), (1, 3, 2)),
    (lambda: nn.GRU(1, 2, bidirectional=True), (2, 1, 1)),
    (lambda: nn.LSTM(1, 2, proj_size=1), (2, 1, 1)), (lambda: nn.PReLU(), (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("make", "shape"), DERIVATIVES)
def test_derivatives(make, shape):
    with pb.config(engine="reference"):
        model = make().to(pb.float64)
        names = [name for name, _ in model.named_parameters()]

        def loss(x: Any, *values: Any) -> Any:
            new = pb.tree.map(lambda t: t, model)
            for name, value in zip(names, values):
                setattr(new, name, value)
            return sum((y * y).sum() for y in flat(new(x)))

        pb.check_grads(loss, (pb.tensor(real(*shape)), *model.parameters()), order=2)


def test_batches_and_transforms_of_sequences():
    with pb.config(engine="reference"):
        layer = nn.LSTM(3, 4, batch_first=True).to(pb.float64)
        x = pb.tensor(real(2, 5, 3))
        y, (h, _) = layer(x)
        one, (last, _) = pb.vmap(layer)(x)
        compiled, _ = pb.compile(lambda m, x: m(x))(layer, x)
        for z in (one, compiled):
            np.testing.assert_allclose(z.numpy(), y.numpy(), 1e-12)
        np.testing.assert_allclose(last[:, 0].numpy(), h[0].numpy(), 1e-12)
        half, state = layer(x[:, :2])
        rest, _ = layer(x[:, 2:], state)
        np.testing.assert_allclose(pb.concat([half, rest], axis=1).numpy(), y.numpy(), 1e-12)
