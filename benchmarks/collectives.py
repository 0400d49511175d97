"""Compare the communication of programs on a mesh with JAX's partitioner on the same programs.

Collectives are counted in pullback's per-device program, and in the HLO that XLA compiled for JAX
on eight virtual CPU devices, with equal layouts of the results. Bytes are what each device sends in
a ring: all_reduce 2 (N-1)/N of its operand, all_gather and reduce_scatter (N-1)/N of the larger
side, all_to_all (N-1)/N of what a device has, collective_permute all of it.

JAX is compiled for CPUs, where XLA leaves an all_reduce and a slice as they are: for other devices
some of its all_reduces would be reduce_scatters, of half the bytes.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

AXES = {"dp": 2, "tp": 4}
BATCH, LENGTH, WIDTH, HEADS, HIDDEN = 16, 32, 64, 8, 256
Spec = tuple[str | None, ...]

# For each program: shapes, and for each way to split it the specs of parameters, input, result.
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)},
    "attention": dict.fromkeys(("q", "k", "v", "out"), (WIDTH, WIDTH)),
}
INPUT: dict[str, tuple[int, ...]] = {
    "mlp": (BATCH * LENGTH, WIDTH),
    "attention": (BATCH, LENGTH, WIDTH),
}
COLUMNS, ROWS, WHOLE = (None, "tp"), ("tp",), ()
SPLITS: dict[str, Callable[[str], Spec]] = {
    "data": lambda name: WHOLE,
    "tensor": lambda name: ROWS if name in ("down", "out") else COLUMNS,
    "data and tensor": lambda name: ROWS if name in ("down", "out") else COLUMNS,
    "zero": lambda name: ("dp",),
    "sequence": lambda name: WHOLE,
}
INPUT_SPECS: dict[str, Spec] = {
    "data": ("dp",), "tensor": (), "data and tensor": ("dp",), "zero": ("dp",),
    "sequence": ("dp", "tp"),
}  # fmt: skip


def mlp(m: Any, p: dict[str, Any], x: Any) -> Any:
    return m.relu(x @ p["up"]) @ p["down"]


def attention(m: Any, p: dict[str, Any], x: Any) -> Any:
    def heads(w: Any) -> Any:
        return (x @ w).reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS)

    scores = m.einsum("bthk,bshk->bhts", heads(p["q"]), heads(p["k"])) * (WIDTH // HEADS) ** -0.5
    mixed = m.einsum("bhts,bshk->bthk", m.softmax(scores, axis=-1), heads(p["v"]))
    return mixed.reshape(BATCH, LENGTH, WIDTH) @ p["out"]


PROGRAMS = {"mlp": mlp, "attention": attention}


def cases() -> list[tuple[str, str, str]]:
    names = [(p, s) for p in PROGRAMS for s in SPLITS if (p, s) != ("mlp", "sequence")]
    return [(p, s, way) for p, s in names for way in ("forward", "gradient")]


def whole_program(m: Any, program: str, way: str) -> Callable[..., Any]:
    """The result, or the loss and its gradients with respect to all parameters and the input."""
    forward = PROGRAMS[program]
    if way == "forward":
        return lambda p, x: forward(m, p, x)
    return m.value_and_grad(lambda p, x: (forward(m, p, x) ** 2).mean())


# -- pullback --------------------------------------------------------------------------------------


class Pullback:
    def __init__(self) -> None:
        import pullback as pb

        pb.config(engine="reference")  # nothing runs: no device is needed
        self.pb, self.relu, self.softmax, self.einsum = pb, pb.relu, pb.softmax, pb.einsum
        self.mesh = pb.DeviceMesh(tuple(AXES.values()), tuple(AXES))

    def value_and_grad(self, f: Callable) -> Callable:
        return self.pb.value_and_grad(f, argnums=(0, 1))

    def put(self, shape: tuple[int, ...], spec: Spec) -> Any:
        array = np.zeros(shape, np.float32)
        return self.pb.tensor(array).shard(self.mesh, self.pb.P(*spec))

    def exchanges(self, program: str, split: str, way: str) -> list[tuple[str, float]]:
        params = {n: self.put(s, SPLITS[split](n)) for n, s in SHAPES[program].items()}
        x = self.put(INPUT[program], INPUT_SPECS[split])
        f = whole_program(self, program, way)
        if way == "forward":
            f = self._laid_out(f, INPUT_SPECS[split])
        found = self.pb.debug.explain_sharding(f)(params, x)
        return [(e.kind, e.nbytes) for e in found.exchanges]

    def _laid_out(self, f: Callable, spec: Spec) -> Callable:
        return lambda p, x: self.pb.reshard(f(p, x), self.pb.P(*spec))


# -- JAX -------------------------------------------------------------------------------------------


class Jax:
    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.relu, self.softmax = jax, jax.nn.relu, jax.nn.softmax
        self.einsum = jnp.einsum
        devices = np.array(jax.devices()[: math.prod(AXES.values())])
        self.mesh = jax.sharding.Mesh(devices.reshape(tuple(AXES.values())), tuple(AXES))

    def value_and_grad(self, f: Callable) -> Callable:
        return self.jax.value_and_grad(f, argnums=(0, 1))

    def sharding(self, spec: Spec) -> Any:
        return self.jax.sharding.NamedSharding(self.mesh, self.jax.sharding.PartitionSpec(*spec))

    def exchanges(self, program: str, split: str, way: str) -> list[tuple[str, float]]:
        lies = {n: self.sharding(SPLITS[split](n)) for n in SHAPES[program]}
        along = self.sharding(INPUT_SPECS[split])
        shapes = {
            n: self.jax.ShapeDtypeStruct(s, np.float32, sharding=lies[n])
            for n, s in SHAPES[program].items()
        }
        x = self.jax.ShapeDtypeStruct(INPUT[program], np.float32, sharding=along)
        results = along if way == "forward" else (self.sharding(()), (lies, along))
        f = self.jax.jit(whole_program(self, program, way), out_shardings=results)
        return in_hlo(f.lower(shapes, x).compile().as_text())


KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
LINE = re.compile(rf"= (.*?) ({'|'.join(KINDS)})(?:-start)?\(.*")
SIZES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "s64": 8, "pred": 1}


def in_hlo(text: str) -> list[tuple[str, float]]:
    """The collectives of a compiled program, and the bytes that each device sends for it."""
    found = []
    for line in text.splitlines():
        match = LINE.search(line)
        if match is None:
            continue
        arrays = re.findall(r"(\w+)\[([\d,]*)\]", match[1])
        nbytes = sum(SIZES[t] * math.prod(map(int, filter(None, s.split(",")))) for t, s in arrays)
        kind, count = match[2].replace("-", "_"), group_size(line)
        if kind == "reduce_scatter":
            nbytes *= count
        share = 1.0 if kind == "collective_permute" else (count - 1) / count
        found.append((kind, nbytes * share * (2 if kind == "all_reduce" else 1)))
    return found


def group_size(line: str) -> int:
    """How many devices take part in a collective, in any of the ways to write it."""
    if match := re.search(r"replica_groups=\{\{([\d,]+)\}", line):
        return len(match[1].split(","))
    if match := re.search(r"replica_groups=\[\d+,(\d+)\]<=", line):
        return int(match[1])
    if match := re.search(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\S+)? \{(.*?)\}", line):
        sizes = dict(re.findall(r"('\w+')=(\d+)", match[1]))
        return math.prod(int(sizes[a]) for a in re.findall(r"'\w+'", match[2]))
    return math.prod(AXES.values())


# -- side by side ----------------------------------------------------------------------------------


def measured(library: str) -> list[list[tuple[str, float]]]:
    """The collectives of every case, measured in a separate process."""
    flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={math.prod(AXES.values())}"}
    run = [sys.executable, __file__, library]
    done = subprocess.run(run, env=os.environ | flags, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def shown(exchanges: list[tuple[str, float]]) -> str:
    counts = Counter(kind for kind, _ in exchanges)
    return ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())) or "nothing"


def verdict(ours: list[tuple[str, float]], theirs: list[tuple[str, float]]) -> str:
    sent, other = (sum(b for _, b in e) for e in (ours, theirs))
    if len(ours) > len(theirs) or sent > 1.0001 * other:
        return "more"
    return "less" if len(ours) < len(theirs) or sent < 0.9999 * other else "equal"


def main() -> None:
    from rich.console import Console
    from rich.table import Table

    libraries = ["pullback"] + ["jax"] * (importlib.util.find_spec("jax") is not None)
    found = {name: measured(name) for name in libraries}
    table = Table("program", "split", "", *[f"{n}: collectives, KiB" for n in libraries], "ours")
    for i, (program, split, way) in enumerate(cases()):
        rows = [found[name][i] for name in libraries]
        cells = [f"{shown(e)}\n{sum(b for _, b in e) / 1024:.1f}" for e in rows]
        table.add_row(program, split, way, *cells, verdict(*rows) if len(rows) > 1 else "")
    Console(width=118).print(table)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        library = {"pullback": Pullback, "jax": Jax}[sys.argv[1]]()
        print(json.dumps([library.exchanges(*case) for case in cases()]))
    else:
        main()
