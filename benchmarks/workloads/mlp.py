"""Training steps of a perceptron for images of 28 x 28 pixels and ten classes."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.training import ADAM, jax_training, pullback_training, torch_training
from benchmarks.workload import Case, Workload


def inputs(quick: bool) -> Any:
    sizes, batch = ((16, 8, 8, 10), 4) if quick else ((784, 512, 512, 10), 256)
    rng, params = np.random.default_rng(0), []
    for m, n in pairwise(sizes):
        params.append(rng.normal(0, (2 / m) ** 0.5, (m, n)).astype(np.float32))
        params.append(np.zeros(n, np.float32))
    x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
    return params, (x, rng.integers(0, sizes[-1], batch).astype(np.int32))


def with_pullback(arrays: Any, compiled: bool = True) -> Case:
    import pullback as pb

    def loss(params: Any, batch: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = params
        x, labels = batch
        x = pb.relu(x @ w1 + b1)
        x = pb.relu(x @ w2 + b2)
        scores = pb.log_softmax(x @ w3 + b3, axis=-1)
        return -pb.take_along_axis(scores, labels[:, None], axis=-1).mean()

    return pullback_training(loss, *arrays, optimizer=ADAM, compiled=compiled)


def with_jax(arrays: Any) -> Case:
    import jax
    import jax.numpy as jnp

    def loss(params: Any, batch: Any) -> Any:
        w1, b1, w2, b2, w3, b3 = params
        x, labels = batch
        x = jax.nn.relu(x @ w1 + b1)
        x = jax.nn.relu(x @ w2 + b2)
        scores = jax.nn.log_softmax(x @ w3 + b3, axis=-1)
        return -jnp.take_along_axis(scores, labels[:, None], axis=-1).mean()

    return jax_training(loss, *arrays, optimizer=ADAM)


def with_torch(arrays: Any, compile: Any) -> Case:
    import torch
    from torch import nn

    params, (x, labels) = arrays
    layers: list[nn.Module] = []
    for w, b in zip(params[::2], params[1::2]):
        linear = nn.Linear(*w.shape)
        linear.weight.data, linear.bias.data = torch.tensor(w.T.copy()), torch.tensor(b)
        layers += [linear, nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    forward, measure = compile(model), nn.CrossEntropyLoss()
    batch = torch.tensor(x), torch.tensor(labels).long()

    def gradients() -> Any:
        found = [p.grad for p in model.parameters() if p.grad is not None]
        return [g.T if g.ndim == 2 else g for g in found]

    return torch_training(
        lambda batch: measure(forward(batch[0]), batch[1]),
        model.parameters(), batch, gradients, optimizer=ADAM,
    )  # fmt: skip


PEERS = {"jax": with_jax, "torch": with_torch}
WORKLOADS = [
    Workload(
        "mlp", "MLP 784-512-512-10, batch 256, Adam", inputs, {"pullback": with_pullback, **PEERS},
        note="with reductions by YNNPACK, which may crash, 2.16 ms beside JAX's 2.42.",
    ),
    Workload(
        "mlp_undecorated", "MLP, pullback without `pb.compile`", inputs,
        {"pullback": partial(with_pullback, compiled=False), **PEERS}, torch_compile=False,
        note=(
            "the step is recorded while gradients of the step before are computed, on two "
            "cores. In turns with the compiled step in one process, it takes 1.07 to 1.16 times "
            "as long, and 1.23 times where the program is not cut after the loss."
        ),
    ),
]  # fmt: skip
