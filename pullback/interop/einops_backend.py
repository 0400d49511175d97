"""Tensors in einops, whose functions find a library by the classes that derive from its backend.

Importing this module is enough; `import pullback` does so if einops is loaded already.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from pullback import functions
from pullback.lazy.tensor import Tensor


class EinopsTensorBackend:
    """What einops asks of a library."""

    framework_name = "pullback"

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        return functions.asarray(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return functions.arange(start, stop)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return functions.permute_dims(x, tuple(axes))

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:
        return getattr(functions, operation)(x, axis=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return functions.stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return functions.expand_dims(x, new_position)

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:
        return functions.tile(x, tuple(repeats))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return functions.concat(list(tensors), axis=axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.dtype.is_inexact

    def einsum(self, pattern: str, *xs: Tensor) -> Tensor:
        return functions.einsum(pattern, *xs)


# einops looks for subclasses, so this one must stay alive
_BASE = importlib.import_module("einops._backends").AbstractBackend
BACKEND = type("PullbackBackend", (EinopsTensorBackend, _BASE), {})
