"""Importing a library, beyond what importing NumPy takes, and its first result."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measures import seconds_to_make
from benchmarks.workload import Case, Workload

FIRST = {"pullback": "tensor", "jax.numpy": "array", "torch": "tensor"}


def inputs(quick: bool) -> Any:
    return [1.0, 2.0]


def imported(module: str, values: Any, compile: Any = None) -> Case:
    importlib.import_module(module)
    return Case(lambda: None, lambda: np.array(values))


def first_result(module: str, values: Any, compile: Any = None) -> Case:
    array = getattr(importlib.import_module(module), FIRST[module])
    result = (array(values) + 1).tolist()
    return Case(lambda: None, lambda: np.array(result))


def cases(f: Any) -> dict[str, Any]:
    modules = {"pullback": "pullback", "jax": "jax.numpy", "torch": "torch"}
    return {library: partial(f, module) for library, module in modules.items()}


WORKLOADS = [
    Workload(
        "import", "import, after NumPy", inputs, cases(imported), unit="s",
        measure=seconds_to_make, torch_compile=False,
    ),
    Workload(
        "first_result", "import and a first sum, nothing on the disk", inputs,
        cases(first_result), unit="s", measure=seconds_to_make, torch_compile=False,
        environment={"PULLBACK_CACHE": "0"},
    ),
]  # fmt: skip
