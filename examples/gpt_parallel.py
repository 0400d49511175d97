"""The GPT of gpt.py on a mesh of 2 x 2 devices: data parallel along one axis, tensor parallel along
the other.

Model, loss and training step are those of one device. Only the layouts differ: examples are split
along "dp"; along "tp", each device has half of the hidden units and of the vocabulary.
"""

from __future__ import annotations

import os

os.environ.setdefault("PULLBACK_CPU_DEVICES", "4")

import numpy as np
from gpt import GPT, loss

import pullback as pb
from pullback import nn

MESH = pb.DeviceMesh((2, 2), ("dp", "tp"))

# By the end of a parameter's path; a linear layer has a weight [outputs, inputs].
SPECS = {
    "attention.in_proj_weight": pb.P("tp"),
    "attention.in_proj_bias": pb.P("tp"),
    "attention.out_proj.weight": pb.P(None, "tp"),
    "network.layers[0].weight": pb.P("tp"),
    "network.layers[0].bias": pb.P("tp"),
    "network.layers[2].weight": pb.P(None, "tp"),
    "head.weight": pb.P("tp"),
}


def sharded(model: GPT) -> GPT:
    """The model with parameters split along "tp", and whole along "dp"."""

    def place(path: str, p: pb.Tensor) -> pb.Tensor:
        return p.shard(MESH, next((SPECS[end] for end in SPECS if path.endswith(end)), pb.P()))

    return pb.tree.map_with_path(place, model)


def train(steps: int, width: int, place_model, sharding) -> tuple[list[float], GPT]:
    text = pb.data.text()
    tokenizer = pb.data.CharTokenizer(text)
    with nn.rng(pb.random.key(0)):
        model = place_model(GPT(len(tokenizer), width))
    windows = pb.data.TokenWindows(tokenizer.encode(text), 32)
    data = pb.data.DataLoader(
        windows, 8, shuffle=True, key=pb.random.key(1), drop_last=True, sharding=sharding
    )
    loop = pb.train.TrainingLoop(model, loss, pb.optim.adamw(3e-3))
    losses = [loop.step(batch)["loss"] for _, batch in zip(range(steps), data)]
    return [value.item() for value in losses], loop.model


def main(steps: int = 20, width: int = 64) -> tuple[list[float], list[float]]:
    """Return the losses on one device and on four."""
    alone, model = train(steps, width, lambda model: model, None)
    together, split = train(steps, width, sharded, pb.Sharding(MESH, pb.P("dp")))
    for a, b in zip(model.parameters(), split.parameters(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), atol=1e-3)
    held = sum(p.shards()[0].data.size for p in split.parameters())
    print(f"losses of {MESH.size} devices: {together[0]:.4f} to {together[-1]:.4f}")
    print(f"each holds {held:,} of {model.num_parameters():,} parameters")
    return alone, together


if __name__ == "__main__":
    alone, together = main()
    np.testing.assert_allclose(together, alone, rtol=1e-4)
    print("the same losses as on one device")
