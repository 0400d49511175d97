"""Data-parallel training: every device has all parameters and a shard of each batch.

The training step is the same as on a single device. Only the code that creates parameters and
batches chooses their layout; gradients are summed over the devices with one all_reduce.
"""

from __future__ import annotations

import os
from itertools import pairwise

os.environ.setdefault("PULLBACK_CPU_DEVICES", "8")

import numpy as np

import pullback as pb

MESH = pb.DeviceMesh(8, "dp")
SIZES, BATCH, STEPS = (16, 32, 32, 4), 60, 5  # 60 examples on 8 devices: the last has 4

optimizer = pb.optim.adam(learning_rate=1e-2)


def data(seed: int = 0) -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """Weights and biases in turn, and a batch for each step."""
    rng = np.random.default_rng(seed)
    params = []
    for m, n in pairwise(SIZES):
        params += [rng.normal(0, m**-0.5, (m, n)), np.zeros(n)]
    shapes = ((BATCH, SIZES[0]), (BATCH, SIZES[-1]))
    return params, [tuple(rng.normal(size=s) for s in shapes) for _ in range(STEPS)]


def loss_of(params: list[pb.Tensor], x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    *hidden, w, b = params
    for i in range(0, len(hidden), 2):
        x = pb.tanh(x @ hidden[i] + hidden[i + 1])
    return ((x @ w + b - y) ** 2).mean()


@pb.compile
def step(params, state, x, y):
    loss, grads = pb.value_and_grad(loss_of)(params, x, y)
    params, state = optimizer.update(grads, state, params)
    return params, state, loss


def train(place_parameter, place_batch) -> tuple[list[np.ndarray], list[float]]:
    arrays, batches = data()
    params = [place_parameter(pb.tensor(a)) for a in arrays]
    state, losses = optimizer.init(params), []
    for x, y in batches:
        params, state, loss = step(params, state, place_batch(x), place_batch(y))
        losses.append(loss.item())
    return [p.numpy() for p in params], losses


def whole(parameter: pb.Tensor) -> pb.Tensor:
    return parameter.shard(MESH, pb.P())


def split(batch: np.ndarray) -> pb.Tensor:
    return pb.tensor(batch).shard(MESH, pb.P("dp"))


def explained() -> object:
    """Return the collectives of one step."""
    arrays, ((x, y), *_) = data()
    params = [whole(pb.tensor(a)) for a in arrays]
    return pb.debug.explain_sharding(step)(params, optimizer.init(params), split(x), split(y))


def main() -> None:
    alone = train(lambda parameter: parameter, pb.tensor)
    together = train(whole, split)
    for a, b in zip(alone[0], together[0], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    print(f"losses of {MESH.size} devices: {', '.join(f'{v:.4f}' for v in together[1])}")
    print(explained())
    print("the same parameters as on one device")


if __name__ == "__main__":
    main()
