"""What a workload is: arrays, and for each library a function that makes a `Case` of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.measures import Measure, seconds_per_call

LIBRARIES = {
    "pullback": "pullback",
    "jax": "JAX",
    "torch": "PyTorch",
    "torch.compile": "torch.compile",
}


@dataclass(frozen=True)
class Case:
    """A workload as one library runs it.

    `step` does one unit of work and returns when it is done. `results` returns a tree of what the
    libraries must agree on. It is called once, before or instead of `step`. `launch` does the same
    work as `step` but does not wait for it, where `step` waits; that of a training step may take
    another batch.
    """

    step: Callable[[], Any]
    results: Callable[[], Any]
    launch: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Workload:
    """A row of the table.

    `cases` has a function for each library. That of "torch" takes a second argument, a function
    that compiles: for the library "torch.compile" it is that, for "torch" it does nothing.
    """

    name: str
    title: str
    inputs: Callable[[bool], Any]  # whether sizes are small, for a quick run
    cases: Mapping[str, Callable[..., Case]]
    unit: str = "ms"
    tolerance: float = 1e-4  # of the norm of each result
    torch_compile: bool = True  # whether torch.compile is worth measuring
    measure: Measure = seconds_per_call
    environment: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def libraries(self) -> tuple[str, ...]:
        compiled = self.torch_compile and "torch" in self.cases
        return (*self.cases, "torch.compile") if compiled else tuple(self.cases)

    def case(self, library: str, arrays: Any) -> Case:
        if library == "torch":
            return self.cases["torch"](arrays, lambda f: f)
        if library == "torch.compile":
            import torch

            return self.cases.get(library, self.cases.get("torch"))(arrays, torch.compile)
        return self.cases[library](arrays)


def mapped(f: Callable[[Any], Any], tree: Any) -> Any:
    """Apply `f` to the leaves of dicts, lists and tuples."""
    if isinstance(tree, Mapping):
        return {key: mapped(f, value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [mapped(f, value) for value in tree]
    return f(tree)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a tree with their paths."""
    if isinstance(tree, (Mapping, list, tuple)):
        items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
        for key, value in items:
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, tree


def as_array(x: Any) -> np.ndarray:
    """The value of a library's array on the host."""
    of_torch = type(x).__module__.partition(".")[0] == "torch"
    return np.asarray(x.detach().cpu() if of_torch else x)


def normal(rng: np.random.Generator, *shape: int, scale: float | None = None) -> np.ndarray:
    """Values of a normal distribution in f32; by default, of a layer's usual size."""
    scale = float(np.prod(shape[:-1])) ** -0.5 if scale is None else scale
    return rng.normal(0, scale, shape).astype(np.float32)
