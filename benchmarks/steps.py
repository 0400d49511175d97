"""Time training steps of large models in f32 or bf16, beside JAX, on the available device.

Three models (a perceptron, a transformer, a convolutional network) of sizes for a GPU, one source
for both libraries, plain gradient descent, donated parameters. Parameters are f32; `--dtype bf16`
computes in bf16. `python -m benchmarks` compares models of sizes for a CPU.
JAX also computes products in full f32 (`jax_default_matmul_precision`), as pullback always does.
Each library runs in its own process, and the processes alternate.
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
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RATE = 1e-3
# width, layers, batch; width, heads, layers, length, batch; side of images, channels, batch
SMALL = {"mlp": (512, 3, 256), "transformer": (64, 4, 2, 32, 4), "conv": (16, 16, 32)}
LARGE = {"mlp": (4096, 4, 4096), "transformer": (1024, 16, 8, 512, 16), "conv": (64, 128, 256)}


def normal(rng: Any, *shape: int) -> np.ndarray:
    scale = np.prod(shape[:-1]) ** -0.5
    return rng.normal(0, scale, shape).astype(np.float32)


# -- the models: parameters and a batch as arrays, a loss in the namespace of a library ------------


def mlp(rng: Any, width: int, depth: int, batch: int) -> tuple[Any, Any, Any]:
    def loss(m: Any, params: Any, batch: Any, dtype: str) -> Any:
        x, y = batch
        x = m.astype(x, dtype)
        for w in params:
            x = m.tanh(x @ m.astype(w, dtype))
        return m.mean((m.astype(x, "f32") - y) ** 2)

    params = [normal(rng, width, width) for _ in range(depth)]
    return params, (normal(rng, batch, width), normal(rng, batch, width)), loss


def transformer(
    rng: Any, width: int, heads: int, depth: int, length: int, batch: int
) -> tuple[Any, Any, Any]:
    def layer() -> dict[str, np.ndarray]:
        square = {name: normal(rng, width, width) for name in ("query", "key", "value", "out")}
        wide = {"up": normal(rng, width, 4 * width), "down": normal(rng, 4 * width, width)}
        return {**square, **wide, "scale1": np.ones(width, "f"), "scale2": np.ones(width, "f")}

    mask = np.tril(np.ones((length, length), bool))

    def norm(m: Any, x: Any, scale: Any, dtype: str) -> Any:
        x = m.astype(x, "f32")
        x = x - m.mean(x, axis=-1, keepdims=True)
        return m.astype(x / m.sqrt(m.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale, dtype)

    def attention(m: Any, w: Any, x: Any, dtype: str) -> Any:
        def split(y: Any) -> Any:
            return m.transpose(m.reshape(y, (batch, length, heads, width // heads)), (0, 2, 1, 3))

        q, k, v = (split(x @ w[name]) for name in ("query", "key", "value"))
        scores = m.astype(q @ m.transpose(k, (0, 1, 3, 2)), "f32") / (width // heads) ** 0.5
        mixed = m.astype(m.softmax(m.where(mask, scores, -1e9), axis=-1), dtype) @ v
        return m.reshape(m.transpose(mixed, (0, 2, 1, 3)), (batch, length, width)) @ w["out"]

    def loss(m: Any, params: Any, tokens: Any, dtype: str) -> Any:
        words = m.astype(params["words"], dtype)
        x = words[tokens]
        for p in params["layers"]:
            w = {name: m.astype(v, dtype) for name, v in p.items()}
            x = x + attention(m, w, norm(m, x, p["scale1"], dtype), dtype)
            x = x + m.relu(norm(m, x, p["scale2"], dtype) @ w["up"]) @ w["down"]
        logits = m.log_softmax(m.astype(x @ words.T, "f32"), axis=-1)
        return -m.mean(m.take_along_axis(logits, tokens[..., None], axis=-1))

    params = {"words": normal(rng, 512, width), "layers": [layer() for _ in range(depth)]}
    return params, rng.integers(0, 512, (batch, length)).astype(np.int32), loss


def conv(rng: Any, side: int, channels: int, batch: int) -> tuple[Any, Any, Any]:
    def loss(m: Any, params: Any, batch: Any, dtype: str) -> Any:
        x, y = batch
        x = m.astype(x, dtype)
        for w in params[:-1]:
            x = m.relu(m.conv(x, m.astype(w, dtype)))
        x = m.mean(m.astype(x, "f32"), axis=(1, 2))
        return m.mean((x @ params[-1] - y) ** 2)

    sizes = (3, channels, channels, 2 * channels)
    params = [normal(rng, 3, 3, m, n) for m, n in pairwise(sizes)]
    params.append(normal(rng, sizes[-1], 10))
    return params, (normal(rng, batch, side, side, 3), normal(rng, batch, 10)), loss


MODELS = {"mlp": mlp, "transformer": transformer, "conv": conv}


# -- the libraries ---------------------------------------------------------------------------------


class Pullback:
    def __init__(self) -> None:
        import pullback as pb

        self.grad, self.compile, self.map = pb.value_and_grad, pb.compile, pb.tree.map
        self.array = pb.tensor
        self.m = SimpleNamespace(
            mean=pb.mean, sqrt=pb.sqrt, reshape=pb.reshape, transpose=pb.transpose, tanh=pb.tanh,
            where=pb.where, softmax=pb.softmax, log_softmax=pb.log_softmax, relu=pb.relu,
            take_along_axis=pb.take_along_axis, astype=pb.astype,
            conv=lambda x, w: pb.conv(x, w, padding="SAME"),
        )  # fmt: skip


class Jax:
    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_default_matmul_precision", "highest")
        nn = jax.nn
        self.grad, self.compile, self.map = jax.value_and_grad, jax.jit, jax.tree.map
        self.array = jnp.asarray
        kind = {"f32": jnp.float32, "bf16": jnp.bfloat16}
        self.m = SimpleNamespace(
            mean=jnp.mean, sqrt=jnp.sqrt, reshape=jnp.reshape, transpose=jnp.transpose,
            tanh=jnp.tanh, where=jnp.where, softmax=nn.softmax, log_softmax=nn.log_softmax,
            relu=nn.relu, take_along_axis=jnp.take_along_axis,
            astype=lambda x, d: x.astype(kind[d]),
            conv=lambda x, w: jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            ),
        )  # fmt: skip


LIBRARIES = {"pullback": Pullback, "jax": Jax}


def prepare(library: Any, model: str, sizes: Any, dtype: str) -> Any:
    """A function that runs `n` steps and reads the last loss."""
    params, batch, loss = MODELS[model](np.random.default_rng(0), *sizes)
    params, batch = library.map(library.array, params), library.map(library.array, batch)

    def step(params: Any, batch: Any) -> Any:
        value, grads = library.grad(lambda p: loss(library.m, p, batch, dtype))(params)
        return library.map(lambda p, g: p - RATE * g, params, grads), value

    compiled = library.compile(step, donate_argnums=(0,))

    def run(n: int) -> float:
        nonlocal params
        for _ in range(n):
            params, value = compiled(params, batch)
        return value.item()

    return run


def serve(name: str) -> None:
    """Measure what each input line names and answer with one line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the libraries must not mix with the answers
    library, ready = LIBRARIES[name](), {}
    for line in sys.stdin:
        model, sizes, dtype, count = json.loads(line)
        start = time.perf_counter()
        if (model, dtype) not in ready:
            ready.clear()
            ready[model, dtype] = prepare(library, model, sizes, dtype)
        value = ready[model, dtype](count)
        answer = {"seconds": (time.perf_counter() - start) / count, "loss": value}
        print(json.dumps(answer), file=answers)


class Worker:
    """A library in a process of its own."""

    def __init__(self, name: str) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, __file__, "--worker", name]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def ask(self, *what: Any) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="sizes to try the script with")
    parser.add_argument("--dtype", choices=["f32", "bf16"], nargs="*", default=["f32"])
    parser.add_argument("--steps", type=int, default=10, help="steps between two reads of the loss")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.worker)
        return
    workers = {n: Worker(n) for n in LIBRARIES if importlib.util.find_spec(n)}
    table = Table("model", "dtype", *[f"{n}, ms" for n in workers], "x JAX", "losses")
    for model, sizes in (SMALL if options.small else LARGE).items():
        for dtype in options.dtype:
            table.add_row(model, dtype, *measured(workers, model, sizes, dtype, options))
    Console().print(table)


def measured(workers: Any, model: str, sizes: Any, dtype: str, options: Any) -> list[str]:
    for worker in workers.values():
        worker.ask(model, sizes, dtype, 2)
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
    for _ in range(options.rounds):
        for name, worker in workers.items():
            seen[name].append(worker.ask(model, sizes, dtype, options.steps))
    times = [statistics.median(a["seconds"] for a in answers) for answers in seen.values()]
    ratio = f"{times[0] / times[1]:.2f}" if len(times) > 1 else ""
    losses = ", ".join(f"{answers[-1]['loss']:.5f}" for answers in seen.values())
    return [*[f"{1e3 * t:.2f}" for t in times], ratio, losses]


if __name__ == "__main__":
    main()
