"""Training steps of a network with three convolutions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.training import jax_training, pullback_training, torch_training
from benchmarks.workload import Case, Workload, normal

STRIDES = (1, 2, 2)
PADDING = ((1, 1), (1, 1))


def inputs(quick: bool) -> Any:
    batch, side, channels = (2, 8, (3, 4, 8, 8)) if quick else (32, 32, (3, 32, 64, 64))
    rng = np.random.default_rng(0)
    params = [normal(rng, 3, 3, m, n) for m, n in pairwise(channels)]
    params.append(normal(rng, channels[-1], 10))
    images = normal(rng, batch, side, side, 3, scale=1.0)
    return params, (images, rng.integers(0, 10, batch).astype(np.int32))


def with_pullback(arrays: Any) -> Case:
    import pullback as pb

    def loss(params: Any, batch: Any) -> Any:
        x, labels = batch
        *filters, w = params
        for f, stride in zip(filters, STRIDES):
            x = pb.relu(pb.conv(x, f, strides=stride, padding=PADDING))
        return pb.nn.functional.cross_entropy(x.mean(axis=(1, 2)) @ w, labels)

    return pullback_training(loss, *arrays)


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    layout = ("NHWC", "HWIO", "NHWC")

    def loss(params: Any, batch: Any) -> Any:
        x, labels = batch
        *filters, w = params
        for f, stride in zip(filters, STRIDES):
            x = jax.lax.conv_general_dilated(x, f, (stride,) * 2, PADDING, dimension_numbers=layout)
            x = jax.nn.relu(x)
        scores = jax.nn.log_softmax(x.mean(axis=(1, 2)) @ w, axis=-1)
        return -jnp.take_along_axis(scores, labels[:, None], axis=-1).mean()

    return jax_training(loss, *arrays)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch
    from torch import nn

    (*filters, w), (images, labels) = arrays
    layers: list[nn.Module] = []
    for f, stride in zip(filters, STRIDES):
        conv = nn.Conv2d(*f.shape[2:], 3, stride, padding=1, bias=False)
        conv.weight.data = torch.tensor(f.transpose(3, 2, 0, 1).copy())
        layers += [conv, nn.ReLU()]
    last = nn.Linear(*w.shape, bias=False)
    last.weight.data = torch.tensor(w.T.copy())
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)
    forward, measure = compile(model), nn.CrossEntropyLoss()
    batch = torch.tensor(images.transpose(0, 3, 1, 2).copy()), torch.tensor(labels).long()

    def gradients() -> Any:
        *of_filters, of_last = (p.grad for p in model.parameters() if p.grad is not None)
        return [*(g.permute(2, 3, 1, 0) for g in of_filters), of_last.T]

    return torch_training(
        lambda batch: measure(forward(batch[0]), batch[1]), model.parameters(), batch, gradients
    )


WORKLOADS = [
    Workload(
        "cnn", "CNN, three 3x3 convolutions on 32 x 32x32x3", inputs,
        {"pullback": with_pullback, "jax": with_jax, "torch": with_torch},
    )
]  # fmt: skip
