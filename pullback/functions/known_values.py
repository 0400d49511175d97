"""Arguments on the host: values that are known when a function is called, and sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.lazy.tensor import Tensor
from pullback.lazy.traced_number import TracedNumber


def known_values(x: Any) -> np.ndarray | None:
    """Return the values of numbers, lists and NumPy arrays; `None` for tensors, for lists that hold
    one, and for anything else."""
    if isinstance(x, (list, tuple)) and any(map(_holds_unknown_value, x)):
        return None
    if not isinstance(x, (bool, int, float, complex, np.generic, np.ndarray, list, tuple)):
        return None
    try:
        found = np.asarray(x)
    except ValueError:  # lists of different lengths
        return None
    return found if found.dtype.kind in "biufc" else None


def _holds_unknown_value(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(map(_holds_unknown_value, x))
    return isinstance(x, (Tensor, TracedNumber))
