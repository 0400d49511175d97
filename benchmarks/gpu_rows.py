"""The rows that `benchmarks.gpu` measures; the smaller ones are workloads of the CPU, enlarged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks import gpu_gpt, gpu_resnet, linalg
from benchmarks.calls import jax_call, pullback_call, torch_call
from benchmarks.workload import Case, Workload, as_array
from benchmarks.workloads import WORKLOADS, dispatch, functional, lstm

ELEMENTS = 2**28
MATRICES = (10_000, 8, 8)


@dataclass(frozen=True)
class Variant:
    """Another way to run a row with pullback; it is compared with the row's peers."""

    title: str
    case: Callable[[Any], Case]
    figure: str = "step"  # or "first": the seconds of the first call


@dataclass(frozen=True)
class GpuRow:
    """A workload for a GPU.

    A training row has a process of its own, computes in bf16, and has lines for its first call and
    its peak memory. The other rows share a process, and compute in f32 without TF32.
    """

    workload: Workload
    training: bool = False
    variants: Mapping[str, Variant] = field(default_factory=dict)
    bytes_moved: int = 0  # by a call that reads and writes everything once

    def labels(self, libraries: list[str]) -> list[str]:
        """The cases of chosen libraries: pullback, its variants, JAX, and the best of PyTorch."""
        found = []
        for library in libraries:
            if library == "torch":
                found.append("torch.compile" if self.workload.torch_compile else "torch")
            else:
                found += [library, *(self.variants if library == "pullback" else ())]
        return found

    def case(self, label: str, arrays: Any) -> Case:
        if label in self.variants:
            return self.variants[label].case(arrays)
        return self.workload.case(label, arrays)


# -- training --------------------------------------------------------------------------------------


def gpt(size: str, title: str) -> GpuRow:
    def read_each_step(arrays: Any) -> Case:
        return replace(gpu_gpt.with_pullback(arrays, compiled=False), launch=None)

    undecorated = partial(gpu_gpt.with_pullback, compiled=False)
    cases = {
        "pullback": gpu_gpt.with_pullback, "jax": gpu_gpt.with_jax, "torch": gpu_gpt.with_torch
    }  # fmt: skip
    return GpuRow(
        Workload(
            "gpt2" if size == "small" else f"gpt2_{size}", title,
            partial(gpu_gpt.inputs, size=size), cases, tolerance=2e-3,
        ),
        training=True,
        variants={
            "second": Variant("first call of a second process", gpu_gpt.with_pullback, "first"),
            "undecorated": Variant("undecorated", undecorated),
            "read": Variant("undecorated, loss read each step", read_each_step),
        },
    )  # fmt: skip


TRAINING = [
    gpt("small", "GPT-2 small, batch 16 x 1024"),
    gpt("medium", "GPT-2 medium, batch 8 x 1024"),
    GpuRow(
        Workload(
            "resnet", "ResNet-50, batch 256 x 224 x 224", gpu_resnet.inputs,
            {"pullback": gpu_resnet.with_pullback, "jax": gpu_resnet.with_jax,
             "torch": gpu_resnet.with_torch},
            tolerance=3e-2,
        ),
        training=True,
    ),
]  # fmt: skip


# -- calls -----------------------------------------------------------------------------------------


def repeated(*shape: int) -> np.ndarray:
    """An array of random numbers, quickly: they repeat after some millions."""
    return np.resize(np.random.default_rng(0).standard_normal(2**22, np.float32), shape)


def enlarged(name: str, title: str, large: Callable[[], Any], **changes: Any) -> Workload:
    """A workload of the CPU with large inputs; tiny ones stay as they are."""
    base = WORKLOADS[name]

    def inputs(quick: bool) -> Any:
        return base.inputs(True) if quick else large()

    return replace(base, title=title, inputs=inputs, note="", **changes)


def called(
    name: str, title: str, inputs: Callable[[bool], tuple], f: Callable[..., Any],
    torch_f: Callable[..., Any] | None = None, torch_compile: bool = False,
) -> Workload:  # fmt: skip
    """A call of `f(m, *inputs)`, where `m` is the namespace of a library."""

    def with_pullback(arrays: Any) -> Case:
        import pullback as pb

        return pullback_call(lambda *xs: f(pb, *xs), *arrays)

    def with_jax(arrays: Any) -> Case:
        import jax.numpy as jnp

        return jax_call(lambda *xs: f(jnp, *xs), *arrays)

    def with_torch(arrays: Any, compile: Any) -> Case:
        import torch

        g = torch_f or f
        return torch_call(compile(lambda *xs: g(torch, *xs)), *arrays)

    cases = {"pullback": with_pullback, "jax": with_jax, "torch": with_torch}
    return Workload(name, title, inputs, cases, torch_compile=torch_compile)


def matrices(letters: str, quick: bool) -> tuple[np.ndarray, ...]:
    """Matrices far from singular ones, so that libraries agree: some of 10,000 would be close."""
    found = linalg.operands((5, *MATRICES[1:]) if quick else MATRICES, "float32")
    shift = MATRICES[-1] * np.eye(MATRICES[-1], dtype=np.float32)
    return tuple(found[letter] + shift if letter in "as" else found[letter] for letter in letters)


def signals(quick: bool) -> tuple[np.ndarray]:
    count, length = (2, 64) if quick else (64, 2**20)
    return (repeated(count, 2 * length).view(np.complex64),)


def read(case: Case) -> Case:
    """A case whose result is read on the host."""
    return Case(lambda: as_array(case.step()), case.results)


def read_cases() -> dict[str, Callable[..., Case]]:
    return {
        "pullback": lambda arrays: read(dispatch.op_pullback(arrays)),
        "jax": lambda arrays: read(dispatch.op_jax(arrays)),
        "torch": lambda arrays, compile: read(dispatch.op_torch(arrays, compile)),
    }


PASS = 8 * ELEMENTS  # bytes that are moved when each f32 is read and written
CALLS = [
    GpuRow(
        called("copy", "x + 1, 2^28 f32", lambda quick: (repeated(100 if quick else ELEMENTS),),
               lambda m, x: x + 1, torch_compile=True),
        bytes_moved=PASS,
    ),
    GpuRow(
        enlarged("elementwise", "gradient of sum tanh(sin x exp -x^2), 2^28 f32",
                 lambda: repeated(ELEMENTS)),
        bytes_moved=PASS,
    ),
    GpuRow(
        enlarged("softmax", "softmax, 16384 x 16384 f32", lambda: repeated(2**14, 2**14)),
        bytes_moved=PASS,
    ),
    GpuRow(
        enlarged("lstm", "LSTM by scan, 128 steps, batch 64, width 512, forward and backward",
                 lambda: lstm.arrays_of(128, 64, 512))
    ),
    GpuRow(
        enlarged("per_example", "gradients of 1024 examples, MLP 256-256-10",
                 lambda: functional.arrays_of((256, 256, 10), 1024))
    ),
    GpuRow(
        called("cholesky", "Cholesky factors of 10,000 8 x 8", partial(matrices, "s"),
               lambda m, s: m.linalg.cholesky(s), lambda m, s: m.linalg.cholesky_ex(s)[0])
    ),
    GpuRow(
        called("solve", "solve, 10,000 8 x 8", partial(matrices, "ab"),
               lambda m, a, b: m.linalg.solve(a, b), lambda m, a, b: m.linalg.solve_ex(a, b)[0])
    ),
    GpuRow(
        called("eigh", "eigh, 10,000 8 x 8", partial(matrices, "s"),
               lambda m, s: tuple(m.linalg.eigh(s)))
    ),
    GpuRow(
        called("fft", "FFT, 64 x 2^20 complex64", signals, lambda m, x: m.fft.fft(x))
    ),
    GpuRow(replace(WORKLOADS["compiled_call"], name="call", note="")),
    GpuRow(
        Workload("op_read", "one small op, read on the host", dispatch.two_arrays, read_cases(),
                 unit="us", torch_compile=False)
    ),
]  # fmt: skip

ROWS: dict[str, GpuRow] = {row.workload.name: row for row in [*TRAINING, *CALLS]}
