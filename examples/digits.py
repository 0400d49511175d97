"""Train a small classifier on 8x8 images of handwritten digits.

Run it with `make demo`. Nothing is decorated: `step` is plain Python, its operations are recorded,
and each call runs as one compiled program.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import pullback as pb
from pullback.train.line_chart import line_chart

HERE = Path(__file__).parent
OUT = HERE / "out"
SIZES = (64, 128, 64, 10)
EPOCHS, BATCH = 40, 64


def load(seed: int = 0) -> tuple[np.ndarray, ...]:
    """Images in [0, 1] and one-hot labels: four fifths to train, the rest to test."""
    images, labels = pb.data.digits()
    x = images.reshape(len(images), -1)
    y = np.eye(10, dtype=np.float32)[labels]
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = np.split(order, [len(x) * 4 // 5])
    return x[train], y[train], x[test], y[test]


def initial_params(seed: int = 0) -> list[dict[str, pb.Tensor]]:
    rng = np.random.default_rng(seed)
    return [
        {
            "w": pb.tensor(rng.normal(0, (2 / m) ** 0.5, (m, n)).astype(np.float32)),
            "b": pb.tensor(np.zeros(n, np.float32)),
        }
        for m, n in pairwise(SIZES)
    ]


def predict(params: list[dict[str, pb.Tensor]], x: pb.Tensor) -> pb.Tensor:
    *hidden, last = params
    for layer in hidden:
        x = pb.relu(x @ layer["w"] + layer["b"])
    return x @ last["w"] + last["b"]


def loss_of(params: list[dict[str, pb.Tensor]], x: pb.Tensor, y: pb.Tensor) -> pb.Tensor:
    """Cross-entropy with one-hot labels."""
    return -pb.mean(pb.sum(y * pb.log_softmax(predict(params, x), axis=-1), axis=-1))


optimizer = pb.optim.adam(learning_rate=1e-3)


def step(params, state, x, y):
    loss, grads = pb.value_and_grad(loss_of)(params, x, y)
    params, state = optimizer.update(grads, state, params)
    return params, state, loss


def accuracy(params: list[dict[str, pb.Tensor]], x: pb.Tensor, y: pb.Tensor) -> float:
    hits = pb.argmax(predict(params, x), axis=-1) == pb.argmax(y, axis=-1)
    return pb.mean(hits.astype(pb.float32)).item()


def main() -> None:
    train_x, train_y, test_x, test_y = load()
    params = initial_params()
    state = optimizer.init(params)
    test_x, test_y = pb.tensor(test_x), pb.tensor(test_y)
    rng = np.random.default_rng(1)
    steps = len(train_x) // BATCH
    curves: dict[str, list[tuple[float, float]]] = {"training": [], "test": []}

    console = Console()
    with Progress(
        TextColumn("epoch"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"),
        TimeElapsedColumn(), console=console,
    ) as progress:  # fmt: skip
        bar = progress.add_task("compiling", total=EPOCHS)
        for epoch in range(1, EPOCHS + 1):
            losses = []
            for rows in rng.permutation(len(train_x))[: steps * BATCH].reshape(steps, BATCH):
                x, y = pb.tensor(train_x[rows]), pb.tensor(train_y[rows])
                params, state, loss = step(params, state, x, y)
                losses.append(loss)
            mean = float(np.mean([loss.item() for loss in losses]))
            held_out = loss_of(params, test_x, test_y).item()
            curves["training"].append((epoch, mean))
            curves["test"].append((epoch, held_out))
            progress.update(bar, advance=1, description=f"loss {mean:.4f}, on test {held_out:.4f}")

    chart = OUT / "digits-loss.svg"
    line_chart(chart, curves, "Handwritten digits: loss by epoch", "epoch", "cross-entropy")
    info = pb.cache_info()
    console.print(f"test accuracy  [bold]{accuracy(params, test_x, test_y):.1%}[/]")
    console.print(f"{EPOCHS * steps} steps, {info.compiles} programs compiled")
    console.print(f"loss curve     {os.path.relpath(chart)}")


if __name__ == "__main__":
    main()
