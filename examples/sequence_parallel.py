"""Sequence-parallel layers: between the matrices, each device has a shard of the sequence.

Inside a pair of matrices the hidden units are split, as in `tensor_parallel.py`. Outside, positions
are independent and the sequence is split: norms and residual sums are computed once, not on every
device. Instead of an all_reduce, the sequence is gathered before the first matrix and partial sums
are reduced into shards after the second.
"""

from __future__ import annotations

import os

os.environ.setdefault("PULLBACK_CPU_DEVICES", "8")

import numpy as np

import pullback as pb

MESH = pb.DeviceMesh((2, 4), ("dp", "tp"))
BATCH, LENGTH, WIDTH, HIDDEN, LAYERS, STEPS = 4, 12, 16, 32, 2, 4

ALONG = pb.P("dp", "tp")  # examples, positions
SPECS = {"gain": pb.P(), "up": pb.P(None, "tp"), "down": pb.P("tp")}


def data(seed: int = 0) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    rng = np.random.default_rng(seed)
    layers = [
        {
            "gain": np.ones(WIDTH),
            "up": rng.normal(0, WIDTH**-0.5, (WIDTH, HIDDEN)),
            "down": rng.normal(0, HIDDEN**-0.5, (HIDDEN, WIDTH)),
        }
        for _ in range(LAYERS)
    ]
    return layers, rng.normal(size=(BATCH, LENGTH, WIDTH))


def constrain(x: pb.Tensor, spec: pb.P) -> pb.Tensor:
    """On a mesh, give `x` this layout; on one device, return it unchanged."""
    return x if x.sharding is None else pb.with_sharding_constraint(x, spec)


def block(layer: dict[str, pb.Tensor], x: pb.Tensor) -> pb.Tensor:
    normed = x * layer["gain"] / pb.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    whole = constrain(normed, pb.P("dp"))
    return x + constrain(pb.relu(whole @ layer["up"]) @ layer["down"], ALONG)


def forward(layers: list[dict[str, pb.Tensor]], x: pb.Tensor) -> pb.Tensor:
    for layer in layers:
        x = block(layer, x)
    return x


def loss_of(layers: list[dict[str, pb.Tensor]], x: pb.Tensor) -> pb.Tensor:
    return (pb.tanh(forward(layers, x)) ** 2).mean()


@pb.compile
def step(layers, x):
    loss, grads = pb.value_and_grad(loss_of)(layers, x)
    return pb.tree.map(lambda p, g: p - 0.1 * g, layers, grads), loss


def split(layers, x):
    made = [{name: p.shard(MESH, SPECS[name]) for name, p in layer.items()} for layer in layers]
    return made, x.shard(MESH, ALONG)


def train(place) -> tuple[list[np.ndarray], list[float]]:
    arrays, x = data()
    layers, x = place(pb.tree.map(pb.tensor, arrays), pb.tensor(x))
    losses = []
    for _ in range(STEPS):
        layers, loss = step(layers, x)
        losses.append(loss.item())
    return [p.numpy() for p in pb.tree.leaves(layers)], losses


def explained(f) -> object:
    """Return the collectives of `f(layers, x)`."""
    arrays, x = data()
    return pb.debug.explain_sharding(f)(*split(pb.tree.map(pb.tensor, arrays), pb.tensor(x)))


def main() -> None:
    alone, together = train(lambda layers, x: (layers, x)), train(split)
    for a, b in zip(alone[0], together[0], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    print(f"losses of {MESH.size} devices: {', '.join(f'{v:.4f}' for v in together[1])}")
    print(f"{LAYERS} layers forward: {explained(forward).counts}")
    print(f"a whole step: {explained(step).counts}")
    print("the same parameters as on one device")


if __name__ == "__main__":
    main()
