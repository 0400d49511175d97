"""Tensor-parallel layers: the columns of the first matrix and the rows of the second are split.

Each device computes some of the hidden units and their contribution to the output. Each pair of
matrices needs one all_reduce in the forward pass and one in the backward pass.
"""

from __future__ import annotations

import os

os.environ.setdefault("PULLBACK_CPU_DEVICES", "8")

import numpy as np

import pullback as pb

MESH = pb.DeviceMesh(8, "tp")
WIDTH, HIDDEN, BATCH, LAYERS, STEPS = 16, 36, 10, 3, 4  # 36 units on 8 devices: 5 each, then 1

SPECS = {
    "gain": pb.P(),
    "up": pb.P(None, "tp"),  # columns
    "bias": pb.P("tp"),
    "down": pb.P("tp"),  # rows
}


def data(seed: int = 0) -> tuple[list[dict[str, np.ndarray]], np.ndarray]:
    rng = np.random.default_rng(seed)
    layers = [
        {
            "gain": np.ones(WIDTH),
            "up": rng.normal(0, WIDTH**-0.5, (WIDTH, HIDDEN)),
            "bias": np.zeros(HIDDEN),
            "down": rng.normal(0, HIDDEN**-0.5, (HIDDEN, WIDTH)),
        }
        for _ in range(LAYERS)
    ]
    return layers, rng.normal(size=(BATCH, WIDTH))


def block(layer: dict[str, pb.Tensor], x: pb.Tensor) -> pb.Tensor:
    normed = x * layer["gain"] / pb.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6)
    return x + pb.relu(normed @ layer["up"] + layer["bias"]) @ layer["down"]


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


def split(layers: list[dict[str, pb.Tensor]]) -> list[dict[str, pb.Tensor]]:
    return [{name: p.shard(MESH, SPECS[name]) for name, p in layer.items()} for layer in layers]


def train(place) -> tuple[list[np.ndarray], list[float]]:
    arrays, x = data()
    layers, losses = place(pb.tree.map(pb.tensor, arrays)), []
    for _ in range(STEPS):
        layers, loss = step(layers, pb.tensor(x))
        losses.append(loss.item())
    return [p.numpy() for p in pb.tree.leaves(layers)], losses


def explained(f) -> object:
    """Return the collectives of `f(layers, x)`."""
    arrays, x = data()
    return pb.debug.explain_sharding(f)(split(pb.tree.map(pb.tensor, arrays)), pb.tensor(x))


def main() -> None:
    alone, together = train(lambda layers: layers), train(split)
    for a, b in zip(alone[0], together[0], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12)
    print(f"losses of {MESH.size} devices: {', '.join(f'{v:.4f}' for v in together[1])}")
    print(f"{LAYERS} layers forward: {explained(forward).counts}")
    print(f"a whole step: {explained(step).counts}")
    print("the same parameters as on one device")


if __name__ == "__main__":
    main()
