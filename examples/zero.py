"""Training with sharded parameters, gradients and optimizer state, as in ZeRO.

As in `data_parallel.py`, each device has a shard of every batch. Everything else is sharded too: a
parameter is gathered where it is used, its gradient is reduced into shards, and each device updates
its own shard with its own shard of the optimizer's state.
"""

from __future__ import annotations

import os
from itertools import pairwise

os.environ.setdefault("PULLBACK_CPU_DEVICES", "8")

import numpy as np

import pullback as pb

MESH = pb.DeviceMesh(8, "dp")
SIZES, BATCH, STEPS = (16, 40, 24, 8), 64, 5

optimizer = pb.optim.adam(learning_rate=1e-2)


def data(seed: int = 0) -> tuple[list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """A matrix for each layer, and a batch for each step."""
    rng = np.random.default_rng(seed)
    params = [rng.normal(0, m**-0.5, (m, n)) for m, n in pairwise(SIZES)]
    shapes = ((BATCH, SIZES[0]), (BATCH, SIZES[-1]))
    return params, [tuple(rng.normal(size=s) for s in shapes) for _ in range(STEPS)]


def loss_of(params: list[pb.Tensor], x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    *hidden, last = params
    for w in hidden:
        x = pb.tanh(x @ w)
    return ((x @ last - y) ** 2).mean()


@pb.compile(donate_argnums=(0, 1))
def step(params, state, x, y):
    loss, grads = pb.value_and_grad(loss_of)(params, x, y)
    params, state = optimizer.update(grads, state, params)
    return params, state, loss


def split(array) -> pb.Tensor:
    """Split the rows of parameters and batches over the devices."""
    return pb.tensor(array).shard(MESH, pb.P("dp"))


def train(place) -> tuple[list[pb.Tensor], object, list[float]]:
    arrays, batches = data()
    params = [place(a) for a in arrays]
    state, losses = optimizer.init(params), []
    for x, y in batches:
        params, state, loss = step(params, state, place(x), place(y))
        losses.append(loss.item())
    return params, state, losses


def bytes_on(device: int, tree) -> int:
    """Return the bytes of a tree that one device holds."""
    return sum(t.shards()[device].data.nbytes for t in pb.tree.leaves(tree))


def explained() -> object:
    """Return the collectives of one step."""
    arrays, ((x, y), *_) = data()
    params = [split(a) for a in arrays]
    return pb.debug.explain_sharding(step)(params, optimizer.init(params), split(x), split(y))


def main() -> None:
    alone, together = train(pb.tensor), train(split)
    for a, b in zip(alone[0], together[0], strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-9, atol=1e-12)
    params, state, losses = together
    total = sum(p.numpy().nbytes for p in [*params, *pb.tree.leaves(state.slots)])
    held = bytes_on(0, (params, state.slots))
    assert held * MESH.size == total
    print(f"losses of {MESH.size} devices: {', '.join(f'{v:.4f}' for v in losses)}")
    print(f"parameters and state: {total} bytes, {held} on each device")
    print(f"one step: {explained().counts}")
    print("the same parameters as on one device")


if __name__ == "__main__":
    main()
