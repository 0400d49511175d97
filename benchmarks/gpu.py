"""Time training steps of GPT-2 small on a GPU, beside JAX and torch.compile.

One source for all libraries: bf16 computation, f32 parameters, Adam, the residual stream in bf16,
causal attention by each library's own function (cuDNN's in JAX). Each library runs in a process of
its own; the processes take turns, since all of them want the whole GPU. `--variants` runs pullback
with several options of XLA instead and writes the table to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

RATE, BETAS, EPS = 1e-4, (0.9, 0.95), 1e-8
# layers, width, heads, length, batch, vocabulary
SIZES = {
    "tiny": (2, 64, 2, 64, 2, 128),
    "small": (12, 768, 12, 1024, 16, 50304),
    "medium": (24, 1024, 16, 1024, 8, 50304),
}
VARIANTS = {
    "default": "",
    "no Triton products": "--xla_gpu_enable_triton_gemm=false",
    "latency-hiding scheduler": "--xla_gpu_enable_latency_hiding_scheduler=true",
    "no command buffers": "--xla_gpu_enable_command_buffer=",
    "no autotuning": "--xla_gpu_autotune_level=0",
    "cuDNN products": "--xla_gpu_cudnn_gemm_fusion_level=2",
}


def parameters(rng: np.random.Generator, size: str) -> Any:
    layers, width, _, length, _, words = SIZES[size]

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.02, shape).astype(np.float32)

    def linear(name: str, m: int, n: int) -> dict[str, np.ndarray]:
        return {name: normal(m, n), f"{name}_bias": np.zeros(n, np.float32)}

    def norm(name: str) -> dict[str, np.ndarray]:
        return {name: np.ones(width, np.float32), f"{name}_bias": np.zeros(width, np.float32)}

    def layer() -> dict[str, np.ndarray]:
        return {
            **norm("norm1"), **linear("qkv", width, 3 * width), **linear("out", width, width),
            **norm("norm2"), **linear("up", width, 4 * width), **linear("down", 4 * width, width),
        }  # fmt: skip

    tables = {"words": normal(words, width), "positions": normal(length, width)}
    return {**tables, **norm("norm"), "layers": [layer() for _ in range(layers)]}


def loss(m: Any, params: Any, tokens: Any, heads: int) -> Any:
    """The mean cross-entropy of each token after the first, in the namespace of a library."""

    def norm(x: Any, p: Any, name: str) -> Any:
        y = m.f32(x)
        y = y - m.mean(y)
        y = y * m.rsqrt(m.mean(y * y) + 1e-5)
        return m.bf16(y * p[name] + p[f"{name}_bias"])

    def linear(x: Any, p: Any, name: str) -> Any:
        return x @ m.bf16(p[name]) + m.bf16(p[f"{name}_bias"])

    given, wanted = tokens[:, :-1], tokens[:, 1:]
    batch, length = given.shape
    words = m.bf16(params["words"])
    x = m.rows(words, given) + m.bf16(params["positions"])[:length]
    width = x.shape[-1]
    for p in params["layers"]:
        qkv = linear(norm(x, p, "norm1"), p, "qkv").reshape(batch, length, 3, heads, width // heads)
        y = m.attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]).reshape(batch, length, width)
        x = x + linear(y, p, "out")
        x = x + linear(m.gelu(linear(norm(x, p, "norm2"), p, "up")), p, "down")
    return m.cross_entropy(norm(x, params, "norm") @ words.T, wanted)


def pullback_run(params: Any, tokens: Any, heads: int) -> Any:
    import pullback as pb
    from pullback.nn import functional as F

    def turned(x: Any) -> Any:
        return pb.transpose(x, (0, 2, 1, 3))

    m = SimpleNamespace(
        f32=lambda x: x.astype(pb.float32), bf16=lambda x: x.astype(pb.bfloat16),
        mean=lambda x: x.mean(axis=-1, keepdims=True), rsqrt=pb.rsqrt,
        gelu=lambda x: F.gelu(x, approximate="tanh"), rows=lambda table, at: table[at],
        attention=lambda q, k, v: turned(
            F.scaled_dot_product_attention(turned(q), turned(k), turned(v), is_causal=True)
        ),
        cross_entropy=lambda x, at: F.cross_entropy(x.reshape(-1, x.shape[-1]).astype(pb.float32),
                                                    at.reshape(-1)),
    )  # fmt: skip
    params, tokens = pb.tree.map(pb.tensor, (params, tokens))
    rule = pb.optim.adam(RATE, betas=BETAS, eps=EPS)
    state = rule.init(params)

    def update(params: Any, state: Any, tokens: Any) -> Any:
        value, grads = pb.value_and_grad(lambda p: loss(m, p, tokens, heads))(params)
        params, state = rule.update(grads, state, params)
        return params, state, value

    compiled = pb.compile(update, donate_argnums=(0, 1))

    def run(count: int) -> float:
        nonlocal params, state
        for _ in range(count):
            params, state, value = compiled(params, state, tokens)
        return value.item()

    return run


def jax_run(params: Any, tokens: Any, heads: int) -> Any:
    import jax
    import jax.numpy as jnp

    from benchmarks.training import jax_adam_state

    def cross_entropy(x: Any, at: Any) -> Any:
        logs = jax.nn.log_softmax(x.astype(jnp.float32))
        return -jnp.mean(jnp.take_along_axis(logs, at[..., None], axis=-1))

    m = SimpleNamespace(
        f32=lambda x: x.astype(jnp.float32), bf16=lambda x: x.astype(jnp.bfloat16),
        mean=lambda x: x.mean(axis=-1, keepdims=True), rsqrt=jax.lax.rsqrt,
        gelu=lambda x: jax.nn.gelu(x, approximate=True), rows=lambda table, at: table[at],
        attention=lambda q, k, v: jax.nn.dot_product_attention(
            q, k, v, is_causal=True, implementation="cudnn"
        ),
        cross_entropy=cross_entropy,
    )  # fmt: skip
    params, tokens = jax.tree.map(jnp.asarray, (params, tokens))
    state = jax_adam_state(params)

    def update(params: Any, state: Any, tokens: Any) -> Any:
        value, grads = jax.value_and_grad(lambda p: loss(m, p, tokens, heads))(params)
        (count, means, squares), (b1, b2) = state, BETAS
        count = count + 1
        means = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, means, grads)
        squares = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, squares, grads)
        first, second = 1 / (1 - b1**count), 1 / (1 - b2**count)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return p - RATE * (m * first) / (jnp.sqrt(v * second) + EPS)

        return jax.tree.map(moved, params, means, squares), (count, means, squares), value

    jitted = jax.jit(update, donate_argnums=(0, 1))

    def run(count: int) -> float:
        nonlocal params, state
        for _ in range(count):
            params, state, value = jitted(params, state, tokens)
        return value.item()

    return run


def torch_run(params: Any, tokens: Any, heads: int) -> Any:
    import torch
    import torch.nn.functional as F

    torch.set_float32_matmul_precision("high")
    m = SimpleNamespace(
        f32=lambda x: x.float(), bf16=lambda x: x.bfloat16(),
        mean=lambda x: x.mean(-1, keepdim=True), rsqrt=torch.rsqrt,
        gelu=lambda x: F.gelu(x, approximate="tanh"), rows=lambda table, at: F.embedding(at, table),
        attention=lambda q, k, v: F.scaled_dot_product_attention(
            *[x.transpose(1, 2) for x in (q, k, v)], is_causal=True
        ).transpose(1, 2),
        cross_entropy=lambda x, at: F.cross_entropy(x.flatten(0, 1).float(), at.flatten()),
    )  # fmt: skip

    def leaf(x: np.ndarray) -> Any:
        return torch.tensor(x, device="cuda", requires_grad=True)

    layers = [{name: leaf(x) for name, x in p.items()} for p in params["layers"]]
    tensors = {name: leaf(x) for name, x in params.items() if name != "layers"}
    everything = [*tensors.values(), *[x for p in layers for x in p.values()]]
    rule = torch.optim.Adam(everything, lr=RATE, betas=BETAS, eps=EPS, fused=True)
    at = torch.tensor(tokens, device="cuda").long()
    compiled = torch.compile(lambda p, at: loss(m, p, at, heads))

    def run(count: int) -> float:
        for _ in range(count):
            rule.zero_grad()
            value = compiled({**tensors, "layers": layers}, at)
            value.backward()
            rule.step()
        return value.item()

    return run


LIBRARIES = {"pullback": pullback_run, "jax": jax_run, "torch": torch_run}


def work(library: str, size: str, steps: int) -> None:
    """Measure in this process; answer with one line."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the libraries must not mix with the answer
    _, _, heads, length, batch, words = SIZES[size]
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, words, (batch, length + 1)).astype(np.int32)
    params, start = parameters(rng, size), time.perf_counter()
    run = LIBRARIES[library](params, tokens, heads)
    first = run(1)
    seconds, times = time.perf_counter() - start, []
    run(3)
    for _ in range(5):
        start = time.perf_counter()
        last = run(steps)
        times.append((time.perf_counter() - start) / steps)
    answer = {"first": seconds, "ms": 1e3 * statistics.median(times), "losses": (first, last)}
    print(json.dumps(answer), file=answers, flush=True)


def measured(library: str, options: argparse.Namespace, flags: str = "") -> Any:
    """What a process of its own measures; None if it fails."""
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip()
    command = [sys.executable, __file__, "--worker", library, "--size", options.size]
    command += ["--steps", str(options.steps)]
    done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--steps", type=int, default=10, help="steps between two reads of the loss")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=[*LIBRARIES])
    parser.add_argument("--variants", type=Path, metavar="FILE")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.size, options.steps)
        return
    installed = [name for name in options.libraries if find_spec(name)]
    cases = [(name, name, "") for name in installed]
    if options.variants:
        cases = [(title, "pullback", flags) for title, flags in VARIANTS.items()]
    found: dict[str, list[Any]] = {title: [] for title, *_ in cases}
    for _ in range(options.rounds):
        for title, library, flags in cases:
            answer = measured(library, options, flags)
            found[title] += [] if answer is None else [answer]
    show(found, options)


def show(found: dict[str, list[Any]], options: argparse.Namespace) -> None:
    table = Table("", "ms a step", "first call, s", "losses", title=f"GPT-2 {options.size}")
    for title, answers in found.items():
        if not answers:
            table.add_row(title, "failed", "", "")
            continue
        ms, first = (statistics.median([a[key] for a in answers]) for key in ("ms", "first"))
        losses = ", ".join(f"{x:.4f}" for x in answers[0]["losses"])
        table.add_row(title, f"{ms:.1f}", f"{first:.1f}", losses)
    Console(width=100).print(table)
    if options.variants:
        with options.variants.open("w") as file:
            Console(file=file, width=100).print(table)


if __name__ == "__main__":
    main()
