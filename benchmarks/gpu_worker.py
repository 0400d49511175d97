"""A process that measures cases of `benchmarks.gpu` and answers each with a line of JSON."""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_rows import ROWS, GpuRow
from benchmarks.training import CHECKED_STEPS
from benchmarks.workload import as_array, leaves

SAMPLES = 5
SAMPLE_SECONDS = 0.1
LARGEST_SAMPLE = 1000  # calls
CHECKED_ELEMENTS = 2**16  # of each result


class Device:
    """The device that a library uses: how to put arrays on it, wait for it, and ask about it."""

    def place(self) -> AbstractContextManager:
        """Within it, arrays are made on the device."""
        return nullcontext()

    def wait(self, value: Any) -> None: ...
    def peak(self) -> int | None: ...
    def name(self) -> str: ...


class PullbackDevice(Device):
    def __init__(self, training: bool) -> None:
        import pullback as pb
        from pullback.engines.engine_registry import registered_engine

        self.wait, self._device = pb.wait, registered_engine("xla").client.device

    def peak(self) -> int | None:
        return (self._device.memory_stats() or {}).get("peak_bytes_in_use")

    def name(self) -> str:
        return self._device.device_kind


class JaxDevice(PullbackDevice):
    def __init__(self, training: bool) -> None:
        import jax

        if not training:
            jax.config.update("jax_default_matmul_precision", "highest")
        self.wait, self._device = jax.block_until_ready, jax.devices()[0]


class TorchDevice(Device):
    def __init__(self, training: bool) -> None:
        import torch

        self._cuda = torch.cuda if torch.cuda.is_available() else None
        self._device = torch.device("cuda" if self._cuda else "cpu")
        torch.backends.cudnn.benchmark = True
        if not training:
            torch.backends.cudnn.allow_tf32 = False

    def place(self) -> AbstractContextManager:
        return self._device

    def wait(self, value: Any) -> None:
        if self._cuda:
            self._cuda.synchronize()

    def peak(self) -> int | None:
        return self._cuda.max_memory_allocated() if self._cuda else None

    def name(self) -> str:
        return self._cuda.get_device_name() if self._cuda else "cpu"


DEVICES = {"jax": JaxDevice, "torch": TorchDevice, "torch.compile": TorchDevice}


def measured(row: GpuRow, label: str, options: argparse.Namespace) -> dict[str, Any]:
    """Figures of one case, after its results were written to a file."""
    arrays = row.workload.inputs(options.tiny)
    start = time.perf_counter()
    device = DEVICES.get(label, PullbackDevice)(row.training)
    with device.place():
        case = row.case(label, arrays)
    del arrays
    if row.training:
        results: Any = [case.step()]
        first = time.perf_counter() - start
        results += [case.step() for _ in range(CHECKED_STEPS - 1)]
    else:
        results = case.results()
        device.wait(results)
        first = time.perf_counter() - start
    write(options.results / f"{row.workload.name}.{label}.npz", row, results)
    results = None
    steps = options.steps if row.training else None
    step = seconds_of_step(case.launch or case.step, device.wait, steps)
    peak = device.peak() if row.training else None
    return {"step": step, "first": first, "peak": peak, "device": device.name()}


def seconds_of_step(
    launch: Callable[[], Any], wait: Callable[[Any], None], steps: int | None
) -> float:
    """The median of samples; each launches steps one after the other and waits for the last."""

    def sample(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            value = launch()
        wait(value)
        return (time.perf_counter() - start) / count

    sample(3)
    count = steps or min(max(round(SAMPLE_SECONDS / sample(3)), 1), LARGEST_SAMPLE)
    return statistics.median(sample(count) for _ in range(SAMPLES))


def write(path: Path, row: GpuRow, results: Any) -> None:
    """Write what the libraries must agree on: of large arrays, some elements."""
    if row.workload.name == "eigh":
        results = results[0]  # signs of eigenvectors are free
    np.savez(path, **{name or "value": sampled(as_array(x)) for name, x in leaves(results)})


def sampled(x: np.ndarray) -> np.ndarray:
    found = x.reshape(-1)[:: max(1, x.size // CHECKED_ELEMENTS)]
    return np.stack([found.real, found.imag]) if np.iscomplexobj(found) else found


def forget() -> None:
    """Free what a row has left."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", metavar="ROW:LABEL",
                        help="the label is a library or a variant of pullback")  # fmt: skip
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the libraries must not mix with the answers
    for name, label in (case.split(":") for case in options.cases):
        try:
            found = measured(ROWS[name], label, options)
        except Exception as error:
            traceback.print_exc()
            reason = (str(error).strip().splitlines() or [""])[0]
            found = {"error": f"{type(error).__name__}: {reason}"}
        print(json.dumps(found), file=answers, flush=True)
        forget()


if __name__ == "__main__":
    main()
