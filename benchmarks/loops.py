"""Compare an LSTM with scan, forward and with its gradient, with JAX's; print ratios.

The libraries alternate, so that a slow moment of the machine affects both; medians are printed.
pullback's time includes recording the step at each call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def data(steps: int, batch: int, width: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"wx": (width, 4 * width), "wh": (width, 4 * width), "b": (4 * width,)}
    params = {k: rng.normal(0, 0.1, shape).astype(np.float32) for k, shape in shapes.items()}
    return params, rng.normal(size=(steps, batch, width)).astype(np.float32)


def lstm(scan: Callable, tanh: Callable, sigmoid: Callable, zeros: Callable) -> Callable:
    """The mean square of all states, in the namespace of a library."""

    def loss(params: dict, xs: Any) -> Any:
        width = params["wh"].shape[0]

        def cell(state: tuple, x: Any) -> tuple:
            h, c = state
            z = x @ params["wx"] + h @ params["wh"] + params["b"]
            i, f, o, g = (z[:, k * width : (k + 1) * width] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * tanh(g)
            h = sigmoid(o) * tanh(c)
            return (h, c), h

        start = zeros((xs.shape[1], width))
        _, hs = scan(cell, (start, start), xs)
        return (hs * hs).mean()

    return loss


def pullback_calls(params: dict, xs: np.ndarray) -> list[Callable[[], Any]]:
    import pullback as pb

    loss = lstm(pb.scan, pb.tanh, pb.sigmoid, pb.zeros)
    both = pb.value_and_grad(loss)
    params, xs = pb.tree.map(pb.tensor, params), pb.tensor(xs)

    def gradient() -> Any:
        value, grads = both(params, xs)
        pb.evaluate(value, grads)
        return value.item(), [g.numpy() for g in grads.values()]

    return [lambda: loss(params, xs).item(), gradient]


def jax_calls(params: dict, xs: np.ndarray) -> list[Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    loss = lstm(jax.lax.scan, jnp.tanh, jax.nn.sigmoid, jnp.zeros)
    forward, both = jax.jit(loss), jax.jit(jax.value_and_grad(loss))
    params, xs = jax.tree.map(jnp.asarray, params), jnp.asarray(xs)
    return [lambda: float(forward(params, xs)), lambda: jax.block_until_ready(both(params, xs))]


def medians(calls: list[Callable[[], Any]], rounds: int) -> list[float]:
    """Seconds of each call, in turns."""
    for call in calls:
        call()
        call()
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, into in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            into.append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    arguments = data(args.steps, args.batch, args.width)
    ours, theirs = pullback_calls(*arguments), jax_calls(*arguments)
    for name, mine, other in zip(("forward", "forward and gradient"), ours, theirs, strict=True):
        a, b = medians([mine, other], args.rounds)
        print(f"{name}: pullback {a * 1e3:.2f} ms, JAX {b * 1e3:.2f} ms, ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
