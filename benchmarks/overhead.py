"""Compare the overheads of pullback, JAX and PyTorch in one run; print ratios.

Every library runs in its own process. The processes alternate, round by round, so that a slow
minute of the machine affects all of them, and medians over the rounds are printed.
A library that is not installed is left out (`pip install pullback[bench]` brings JAX).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

SIZES, BATCH = (784, 512, 512, 10), 256
LEARNING_RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8


def ten_ops(m: Any, x: Any) -> Any:
    """Ten operations, in the namespace of a library."""
    a = m.sin(x)
    b = m.exp(a * x)
    c = m.tanh(b + x)
    d = c * a - b
    return (m.cos(d) * c).sum()


def data() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Weights and biases in turn, images, one-hot labels."""
    rng = np.random.default_rng(0)
    params = []
    for m, n in pairwise(SIZES):
        params.append(rng.normal(0, (2 / m) ** 0.5, (m, n)).astype(np.float32))
        params.append(np.zeros(n, np.float32))
    x = rng.normal(size=(BATCH, SIZES[0])).astype(np.float32)
    y = np.eye(SIZES[-1], dtype=np.float32)[rng.integers(0, SIZES[-1], BATCH)]
    return params, x, y


def timed(f: Callable[[], Any], times: int) -> float:
    """Seconds per call."""
    start = time.perf_counter()
    for _ in range(times):
        f()
    return (time.perf_counter() - start) / times


# -- the libraries --------------------------------------------------------------------------------


class Pullback:
    def __init__(self) -> None:
        import pullback as pb

        self.pb = pb
        self.x, self.y = pb.tensor(np.ones(8, np.float32)), pb.tensor(np.ones(8, np.float32))
        pb.evaluate(self.x, self.y)
        params, x, y = data()
        self.params = [pb.tensor(p) for p in params]
        self.batch = pb.tensor(x), pb.tensor(y)
        self.optimizer = pb.optim.adam(LEARNING_RATE, BETAS, EPS)
        self.state = self.optimizer.init(self.params)
        self.add = pb.compile(lambda x, y: x + y)
        self.double = pb.compile(lambda tree: {name: x + x for name, x in tree.items()})
        self.tree = {f"p{i}": pb.tensor(np.ones(8, np.float32)) for i in range(100)}
        self.updates = {
            "compiled step": pb.compile(self.update),
            "compiled donating": pb.compile(self.update, donate_argnums=(0, 1)),
        }
        self.models = {name: self.model() for name in self.updates}

    def model(self) -> tuple[Any, Any]:
        params = [self.pb.tensor(p) for p in data()[0]]
        return params, self.optimizer.init(params)

    def op(self) -> dict[str, float]:
        x, y = self.x, self.y
        return {"op": timed(lambda: x + y, 2000)}

    def compiled(self) -> dict[str, float]:
        x, y, tree = self.x, self.y, self.tree
        return {
            "compiled": timed(lambda: self.add(x, y), 1000),
            "compiled tree": timed(lambda: self.double(tree), 50),
        }

    def grad(self) -> dict[str, float]:
        pb = self.pb
        return {"grad": timed(lambda: pb.grad(lambda x: ten_ops(pb, x))(self.x).numpy(), 100)}

    def loss(self, params: list[Any], x: Any, y: Any) -> Any:
        pb = self.pb
        w1, b1, w2, b2, w3, b3 = params
        x = pb.relu(x @ w1 + b1)
        x = pb.relu(x @ w2 + b2)
        return -(y * pb.log_softmax(x @ w3 + b3, axis=-1)).sum() / BATCH

    def update(self, params: list[Any], state: Any, x: Any, y: Any) -> Any:
        loss, grads = self.pb.value_and_grad(self.loss)(params, x, y)
        return *self.optimizer.update(grads, state, params), loss

    def step(self) -> dict[str, float]:
        start = time.perf_counter()
        self.params, self.state, loss = self.update(self.params, self.state, *self.batch)
        recorded = time.perf_counter()
        loss.item()
        return {"step": time.perf_counter() - start, "recording": recorded - start}

    def compiled_step(self) -> dict[str, float]:
        found = {}
        for name, update in self.updates.items():
            start = time.perf_counter()
            params, state, loss = update(*self.models[name], *self.batch)
            loss.item()
            found[name] = time.perf_counter() - start
            self.models[name] = params, state
        return found

    def programs(self) -> dict[str, float]:
        """Programs per step, measured separately because counting visits every live object."""
        ran = self.pb.engine_info().programs_run
        for _ in range(10):
            self.step()
        return {"programs": (self.pb.engine_info().programs_run - ran) / 10}


class Jax:
    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.jnp = jax, jnp
        self.x, self.y = jnp.ones(8, jnp.float32), jnp.ones(8, jnp.float32)
        _, x, y = data()
        self.batch = jnp.asarray(x), jnp.asarray(y)
        self.jitted = {
            "step": jax.jit(self.update),
            "donating": jax.jit(self.update, donate_argnums=(0, 1)),
        }
        self.models = {name: self.model() for name in self.jitted}
        self.add = jax.jit(lambda x, y: x + y)
        self.double = jax.jit(lambda tree: {name: x + x for name, x in tree.items()})
        self.tree = {f"p{i}": jnp.ones(8, jnp.float32) for i in range(100)}

    def model(self) -> tuple[Any, Any]:
        jnp = self.jnp
        params = [jnp.asarray(p) for p in data()[0]]
        zeros = [jnp.zeros_like(p) for p in params]
        return params, (jnp.zeros((), jnp.int32), zeros, list(map(jnp.copy, zeros)))

    def op(self) -> dict[str, float]:
        x, y = self.x, self.y
        return {"op": timed(lambda: x + y, 2000)}

    compiled = Pullback.compiled

    def compiled_step(self) -> dict[str, float]:
        return {}

    def grad(self) -> dict[str, float]:
        jax, jnp = self.jax, self.jnp
        return {"grad": timed(lambda: np.asarray(jax.grad(lambda x: ten_ops(jnp, x))(self.x)), 20)}

    def loss(self, params: list[Any], x: Any, y: Any) -> Any:
        nn = self.jax.nn
        w1, b1, w2, b2, w3, b3 = params
        x = nn.relu(x @ w1 + b1)
        x = nn.relu(x @ w2 + b2)
        return -(y * nn.log_softmax(x @ w3 + b3, axis=-1)).sum() / BATCH

    def update(self, params: list[Any], state: Any, x: Any, y: Any) -> Any:
        loss, grads = self.jax.value_and_grad(self.loss)(params, x, y)
        count, means, squares = state
        count, (b1, b2) = count + 1, BETAS
        means = [b1 * m + (1 - b1) * g for m, g in zip(means, grads, strict=True)]
        squares = [b2 * v + (1 - b2) * g * g for v, g in zip(squares, grads, strict=True)]
        length = LEARNING_RATE / (1 - b1**count)
        correction = 1 / self.jnp.sqrt(1 - b2**count)
        params = [
            p - length * m / (self.jnp.sqrt(v) * correction + EPS)
            for p, m, v in zip(params, means, squares, strict=True)
        ]
        return params, (count, means, squares), loss

    def step(self) -> dict[str, float]:
        found = {}
        for name, jitted in self.jitted.items():
            start = time.perf_counter()
            params, state, loss = jitted(*self.models[name], *self.batch)
            loss.item()
            found[name] = time.perf_counter() - start
            self.models[name] = params, state
        return found


class Torch:
    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.x, self.y = torch.ones(8), torch.ones(8)
        params, x, y = data()
        self.params = [torch.tensor(p, requires_grad=True) for p in params]
        self.batch = torch.tensor(x), torch.tensor(y)
        self.optimizer = torch.optim.Adam(self.params, LEARNING_RATE, BETAS, EPS)

    def op(self) -> dict[str, float]:
        x, y = self.x, self.y
        return {"op": timed(lambda: x + y, 2000)}

    def grad(self) -> dict[str, float]:
        torch = self.torch

        def once() -> np.ndarray:
            x = self.x.detach().requires_grad_()
            return torch.autograd.grad(ten_ops(torch, x), x)[0].numpy()

        return {"grad": timed(once, 100)}

    def compiled(self) -> dict[str, float]:
        return {}

    compiled_step = compiled

    def step(self) -> dict[str, float]:
        torch, (x, y) = self.torch, self.batch
        w1, b1, w2, b2, w3, b3 = self.params
        start = time.perf_counter()
        self.optimizer.zero_grad()
        x = torch.relu(x @ w1 + b1)
        x = torch.relu(x @ w2 + b2)
        loss = -(y * torch.log_softmax(x @ w3 + b3, dim=-1)).sum() / BATCH
        loss.backward()
        self.optimizer.step()
        loss.item()
        return {"step": time.perf_counter() - start}


LIBRARIES = {"pullback": Pullback, "jax": Jax, "torch": Torch}
FIRST = {  # what a cold process prints first
    "numpy": "import numpy as np; print(np.array([1., 2.]) + 1)",
    "pullback": "import pullback as pb; print(pb.tensor([1., 2.]) + 1)",
    "jax": "import jax.numpy as jnp; print(jnp.array([1., 2.]) + 1)",
    "torch": "import torch; print(torch.tensor([1., 2.]) + 1)",
}


# -- taking turns ---------------------------------------------------------------------------------


def serve(name: str) -> None:
    """Measure what each input line names and answer with one line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the libraries must not mix with the answers
    library = LIBRARIES[name]()
    for line in sys.stdin:
        print(json.dumps(getattr(library, line.strip())()), file=answers)


class Worker:
    """A library in a process of its own; a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: dict[str, list[float]] = {}
        pipe = subprocess.PIPE
        command = [sys.executable, __file__, "--worker", name]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def measure(self, what: str, keep: bool = True) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that measures {self.name} ended")
        if keep:
            self.keep(json.loads(answer))

    def keep(self, found: dict[str, float]) -> None:
        for key, value in found.items():
            self.seen.setdefault(key, []).append(value)

    def median(self, key: str) -> float | None:
        return statistics.median(self.seen[key]) if key in self.seen else None

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def cold(code: str, **environment: str) -> float:
    """Run a process without cached programs, unless `environment` provides them."""
    environment = {**os.environ, "PULLBACK_CACHE": "0", **environment}
    command = [sys.executable, "-c", code]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def warm(code: str) -> float:
    """Run a process that finds the programs of an earlier one on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PULLBACK_CACHE": "1", "PULLBACK_CACHE_DIR": folder}
        cold(code, **environment)
        return cold(code, **environment)


def run(names: list[str], rounds: int, steps: int) -> tuple[dict[str, Worker], dict[str, float]]:
    """Medians of everything; the libraries take turns."""
    starts: dict[str, list[float]] = {}
    for _ in range(max(3, rounds // 3)):
        for name in ["numpy", *names]:
            starts.setdefault(f"import {name}", []).append(cold(f"import {name}"))
            starts.setdefault(f"print {name}", []).append(cold(FIRST[name]))
        starts.setdefault("warm pullback", []).append(warm(FIRST["pullback"]))
    workers = {name: Worker(name) for name in names}
    for worker in workers.values():
        for what in ("op", "compiled", "grad", *["step"] * 3, *["compiled_step"] * 3):
            worker.measure(what, keep=False)
    for _ in range(rounds):
        todo = {"op": 1, "compiled": 1, "grad": 1, "step": steps, "compiled_step": steps}
        for what, times in todo.items():
            for worker in workers.values():
                for _ in range(times):
                    worker.measure(what)
    workers["pullback"].measure("programs")
    for worker in workers.values():
        worker.close()
    return workers, {key: statistics.median(values) for key, values in starts.items()}


# -- the table ------------------------------------------------------------------------------------

TITLES = {"pullback": "pullback", "jax": "JAX", "torch": "PyTorch"}


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def report(workers: dict[str, Worker], starts: dict[str, float]) -> None:
    peers = [name for name in workers if name != "pullback"]
    table = Table(title="medians; x: pullback's time divided by the peer's")
    table.add_column("")
    table.add_column("pullback", justify="right")
    for name in peers:
        table.add_column(TITLES[name], justify="right")
        table.add_column("x", justify="right")
    table.add_column("aim")

    def row(title: str, values: dict[str, float | None], aim: str = "") -> None:
        own = values["pullback"]
        cells = [seconds(own)]
        for name in peers:
            peer = values.get(name)
            cells += [seconds(peer), f"{own / peer:.2f}" if own and peer else ""]
        table.add_row(title, *cells, aim)

    def medians(key: str) -> dict[str, float | None]:
        return {name: worker.median(key) for name, worker in workers.items()}

    row("one elementwise op, recorded (peers: dispatched)", medians("op"), "6 us")
    row("compiled call with 2 small arguments (JAX: jitted)", medians("compiled"), "2 x JAX")
    row("    with a tree of 100 parameters", medians("compiled tree"), "1.5 x JAX")
    row("grad of ten ops, evaluated (JAX: un-jitted)", medians("grad"), "0.2 x JAX")
    row("MLP training step (JAX: jitted)", medians("step"), "1.25 x JAX")
    row("    of which recording", medians("recording"))
    donating = {"pullback": workers["pullback"].median("step")}
    if "jax" in workers:
        donating["jax"] = workers["jax"].median("donating")
        row("    beside JAX's step that donates its buffers", donating)
    for title, own, peer in (
        ("    compiled (JAX: jitted)", "compiled step", "step"),
        ("    compiled, and donating its buffers", "compiled donating", "donating"),
    ):
        jitted = {"jax": workers["jax"].median(peer)} if "jax" in workers else {}
        row(title, {"pullback": workers["pullback"].median(own), **jitted})
    base = starts["import numpy"]
    row(
        "import, beyond numpy's",
        {name: starts[f"import {name}"] - base for name in workers},
        "0.3 s",
    )
    row("cold process to first print", {n: starts[f"print {n}"] for n in workers}, "0.5 s")
    row("    with its program on the disk", {"pullback": starts["warm pullback"]})
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    programs = workers["pullback"].median("programs")
    console.print(
        f"MLP {'-'.join(map(str, SIZES))}, batch {BATCH}, Adam, f32: {programs:g} program(s) a step"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10, help="training steps a round")
    parser.add_argument("--peer", nargs="*", choices=["jax", "torch"], default=["jax", "torch"])
    parser.add_argument("--worker", choices=list(LIBRARIES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options.worker)
        return
    peers = [name for name in options.peer if importlib.util.find_spec(name)]
    report(*run(["pullback", *peers], options.rounds, options.steps))


if __name__ == "__main__":
    main()
