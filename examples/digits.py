"""Train a small classifier on 8x8 images of handwritten digits, save it and load it again.

Run it with `make demo`. `fit` shows the progress, measures, and writes the loss curve; each step is
one compiled program.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import pullback as pb
from pullback import nn
from pullback.nn import functional as F

OUT = Path(__file__).parent / "out"


def loss(model, batch):
    """The cross-entropy of a batch, and the share of images that are recognised."""
    images, labels = batch
    logits = model(images)
    accuracy = (logits.argmax(-1) == labels).astype("float32").mean()
    return F.cross_entropy(logits, labels), {"accuracy": accuracy}


def new_model() -> nn.Sequential:
    with nn.rng(pb.random.key(0)):
        return nn.Sequential(
            nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 64),
            nn.ReLU(), nn.Linear(64, 10),
        )  # fmt: skip


def main(epochs: int = 30, out: Path = OUT, progress: bool = True) -> dict[str, float]:
    """Train; return what was measured."""
    before = pb.cache_info().compiles
    train, test = pb.data.random_split(pb.data.digits(), (0.8, 0.2), pb.random.key(1))
    batches = pb.data.DataLoader(train, 64, shuffle=True, key=pb.random.key(2), drop_last=True)
    held_out = pb.data.DataLoader(test, len(test))
    rate = pb.optim.schedules.cosine(3e-3, epochs * len(batches))
    result = pb.train.fit(
        new_model(), loss, batches, pb.optim.adamw(rate), epochs=epochs, validation=held_out,
        log_every=len(batches), log=out, key=pb.random.key(3), progress=progress,
    )  # fmt: skip

    # The trained model is saved, and loaded into a new one.
    model, saved = result.model.eval(), out / "digits.safetensors"
    pb.save(saved, model)
    loaded = pb.load(saved, like=new_model().eval())
    (images, labels), *_ = held_out
    predictions = loaded(images).argmax(-1)
    assert bool((loaded(images) == model(images)).all())
    accuracy = float((predictions == labels).astype("float32").mean())
    assert abs(accuracy - result.history["validation accuracy"][-1]) < 1e-6

    compiled = pb.cache_info().compiles - before
    print(f"test accuracy  {accuracy:.1%}")
    print(f"{result.steps} steps, {compiled} programs compiled")
    print(f"loss curve     {os.path.relpath(out / 'history.svg')}")
    print(f"saved model    {os.path.relpath(saved)}, which gives the same predictions")
    wrong = np.flatnonzero((predictions != labels).numpy())
    print(f"not recognised: {len(wrong)} of {len(labels)} images")
    return {"accuracy": accuracy, "steps": result.steps, "compiled": compiled}


if __name__ == "__main__":
    assert main()["accuracy"] > 0.95
