"""Measure the time to the first result of a compiled training step, beside JAX.

The model is a transformer whose equal layers are written as a Python loop. The first call of
its training step is timed: tracing, compiling and running once. Every measurement runs in its own
process without a disk cache, and the libraries alternate.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 64, 4, 128, 32, 4
LEARNING_RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8
DEPTHS = (4, 8, 16, 32, 64)


def weights(depth: int) -> dict[str, Any]:
    """The parameters of a model, as arrays."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32)

    def layer() -> dict[str, np.ndarray]:
        ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        return {
            "scale1": ones, "shift1": zeros, "scale2": ones.copy(), "shift2": zeros.copy(),
            "query": normal(WIDTH, WIDTH), "key": normal(WIDTH, WIDTH),
            "value": normal(WIDTH, WIDTH), "out": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, 4 * WIDTH), "down": normal(4 * WIDTH, WIDTH),
        }  # fmt: skip

    return {
        "embedding": normal(VOCABULARY, WIDTH),
        "position": normal(LENGTH, WIDTH),
        "layers": [layer() for _ in range(depth)],
    }


def tokens() -> np.ndarray:
    return np.random.default_rng(1).integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype(np.int32)


# -- the model, in the namespace of a library ------------------------------------------------------


def normalised(m: Any, x: Any, scale: Any, shift: Any) -> Any:
    mean = m.mean(x, axis=-1, keepdims=True)
    centered = x - mean
    variance = m.mean(centered * centered, axis=-1, keepdims=True)
    return centered / m.sqrt(variance + 1e-5) * scale + shift


def attention(m: Any, p: Any, x: Any, mask: Any) -> Any:
    def split(y: Any) -> Any:
        y = m.reshape(y, (BATCH, LENGTH, HEADS, WIDTH // HEADS))
        return m.transpose(y, (0, 2, 1, 3))

    q, k, v = split(x @ p["query"]), split(x @ p["key"]), split(x @ p["value"])
    scores = q @ m.transpose(k, (0, 1, 3, 2)) / (WIDTH // HEADS) ** 0.5
    mixed = m.softmax(m.where(mask, scores, -1e9), axis=-1) @ v
    return m.reshape(m.transpose(mixed, (0, 2, 1, 3)), (BATCH, LENGTH, WIDTH)) @ p["out"]


def loss(m: Any, params: Any, batch: Any) -> Any:
    inputs, targets = batch[:, :-1], batch[:, 1:]
    x = params["embedding"][inputs] + params["position"]
    mask = np.tril(np.ones((LENGTH, LENGTH), bool))
    for p in params["layers"]:
        x = x + attention(m, p, normalised(m, x, p["scale1"], p["shift1"]), mask)
        hidden = m.relu(normalised(m, x, p["scale2"], p["shift2"]) @ p["up"])
        x = x + hidden @ p["down"]
    logits = m.log_softmax(x @ params["embedding"].T, axis=-1)
    chosen = m.take_along_axis(logits, targets[..., None], axis=-1)
    return -m.mean(chosen)


def adam(m: Any, p: Any, g: Any, mean: Any, square: Any, count: Any) -> tuple:
    b1, b2 = BETAS
    mean = b1 * mean + (1 - b1) * g
    square = b2 * square + (1 - b2) * g * g
    length = LEARNING_RATE / (1 - b1**count)
    correction = 1 / m.sqrt(1 - b2**count)
    return p - length * mean / (m.sqrt(square) * correction + EPS), mean, square


# -- the libraries ---------------------------------------------------------------------------------


def first_pullback(depth: int) -> list[float]:
    import pullback as pb

    m = pb
    rule = pb.optim.adam(LEARNING_RATE, BETAS, EPS)
    params = pb.tree.map(pb.tensor, weights(depth))
    state, batch = rule.init(params), pb.tensor(tokens())

    @pb.compile
    def step(params: Any, state: Any, batch: Any) -> Any:
        value, grads = pb.value_and_grad(lambda p: loss(m, p, batch))(params)
        return *rule.update(grads, state, params), value

    return timed(step, params, state, batch)


def first_jax(depth: int) -> list[float]:
    import jax
    import jax.numpy as jnp

    nn = jax.nn
    m = SimpleNamespace(
        mean=jnp.mean, sqrt=jnp.sqrt, reshape=jnp.reshape, transpose=jnp.transpose,
        where=jnp.where, softmax=nn.softmax, log_softmax=nn.log_softmax, relu=nn.relu,
        take_along_axis=jnp.take_along_axis,
    )  # fmt: skip
    params = jax.tree.map(jnp.asarray, weights(depth))
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (jnp.zeros((), jnp.int32), zeros, jax.tree.map(jnp.copy, zeros))

    @jax.jit
    def step(params: Any, state: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(lambda p: loss(m, p, batch))(params)
        count, means, squares = state
        count = count + 1
        leaves, tree = jax.tree.flatten(params)
        rows = zip(leaves, *map(jax.tree.leaves, (grads, means, squares)), strict=True)
        made = [adam(jnp, *row, count) for row in rows]
        params, means, squares = (jax.tree.unflatten(tree, list(c)) for c in zip(*made))
        return params, (count, means, squares), value

    return timed(step, params, state, jnp.asarray(tokens()))


def timed(step: Any, params: Any, state: Any, batch: Any) -> list[float]:
    """Seconds of the first call and of a later one, and the loss after both."""
    start = time.perf_counter()
    params, state, value = step(params, state, batch)
    first_loss = value.item()
    first = time.perf_counter() - start
    later = []
    for _ in range(5):
        start = time.perf_counter()
        params, state, value = step(params, state, batch)
        value.item()
        later.append(time.perf_counter() - start)
    return [first, statistics.median(later), first_loss, value.item()]


LIBRARIES = {"pullback": first_pullback, "jax": first_jax}


def measure(name: str, depth: int) -> list[float]:
    """Take one measurement in a separate process with an empty disk cache."""
    command = [sys.executable, __file__, "--measure", name, str(depth)]
    environment = {**os.environ, "PULLBACK_CACHE": "0"}
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return json.loads(ran.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depths", type=int, nargs="*", default=list(DEPTHS))
    parser.add_argument("--peer", nargs="*", choices=["jax"], default=["jax"])
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, depth = options.measure
        print(json.dumps(LIBRARIES[name](int(depth))))
        return
    names = ["pullback", *[p for p in options.peer if importlib.util.find_spec(p)]]
    report(names, options.depths, options.rounds)


def report(names: list[str], depths: list[int], rounds: int) -> None:
    table = Table(title="first call of a transformer's training step: trace, compile, run once")
    table.add_column("layers", justify="right")
    for name in names:
        table.add_column(f"{name}, s", justify="right")
    if "jax" in names:
        table.add_column("x JAX", justify="right")
    for name in names:
        table.add_column(f"{name}, x {depths[0]} layers", justify="right")
    for name in names:
        table.add_column(f"{name}, later step, ms", justify="right")
    base: dict[str, float] = {}
    losses = []
    for depth in depths:
        found: dict[str, list[list[float]]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                found[name].append(measure(name, depth))
        firsts = {n: statistics.median(f[0] for f in found[n]) for n in names}
        laters = {n: statistics.median(f[1] for f in found[n]) for n in names}
        losses.append({n: found[n][0][2:] for n in names})
        base = base or firsts
        cells = [f"{firsts[n]:.2f}" for n in names]
        cells += [f"{firsts['pullback'] / firsts['jax']:.2f}"] if "jax" in names else []
        cells += [f"{firsts[n] / base[n]:.2f}" for n in names]
        table.add_row(str(depth), *cells, *[f"{1000 * laters[n]:.1f}" for n in names])
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print("aims: 4 layers no longer than JAX; 64 layers at most 4 times 4 layers")
    for depth, one in zip(depths, losses, strict=True):
        shown = ", ".join(f"{n} {a:.4f} then {b:.4f}" for n, (a, b) in one.items())
        console.print(f"loss with {depth} layers, first and sixth step: {shown}")


if __name__ == "__main__":
    main()
