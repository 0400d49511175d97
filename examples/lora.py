"""Fine-tuning with LoRA: a classifier of digits learns rotated digits with few new parameters.

The weights of the trained model are stored in 4 bits and stay as they are (QLoRA); each layer gets
two small matrices, and only those are trained.
"""

from __future__ import annotations

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F


def loss(model, batch):
    x, y = batch
    return F.cross_entropy(model(x), y)


def accuracy(model, x, y) -> float:
    return float((model(pb.tensor(x)).argmax(-1).numpy() == y).mean())


def main(epochs: int = 20) -> dict[str, float]:
    """Train, then adapt; return what was measured."""
    images, y = pb.data.digits()
    upright = images.reshape(len(images), 64)
    turned = np.ascontiguousarray(np.rot90(images, axes=(1, 2))).reshape(len(images), 64)
    with nn.rng(pb.random.key(0)):
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def train(model, x, rate):
        loader = pb.data.DataLoader((x, y), 128, shuffle=True, key=pb.random.key(1))
        return pb.train.fit(model, loss, loader, pb.optim.adam(rate), epochs=epochs).model

    model = train(model, upright, 3e-3)
    before = accuracy(model, turned, y)
    trained = model.num_parameters()
    nn.add_lora(model, rank=4, quantize=True, key=pb.random.key(2))
    new = sum(p.size for p in nn.trainable(model).values())
    adapted = train(model, turned, 1e-2)
    found = {
        "upright": accuracy(model, upright, y), "turned before": before,
        "turned after": accuracy(adapted, turned, y), "share": new / trained,
    }  # fmt: skip
    merged = nn.merge_lora(pb.tree.map(lambda p: p, adapted))
    assert abs(accuracy(merged, turned, y) - found["turned after"]) < 0.01
    print(f"turned digits: {before:.1%} before, {found['turned after']:.1%} after training")
    print(f"{new:,} new parameters beside {trained:,} in 4 bits")
    return found


if __name__ == "__main__":
    found = main()
    assert found["turned before"] < 0.5 and found["turned after"] > 0.9
