"""How a tensor looks at the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pullback.graph.ambient import thread
from pullback.lazy.tensor import Tensor


def show(tensor: Tensor) -> str:
    """The value, the dtype, and how it lies on a mesh; a placeholder has no value."""
    lies = "" if tensor.sharding is None else f", {tensor.sharding.spec}"
    if thread.tracing_from:
        return f"Tensor({tensor._node.type}{lies})"
    body = np.array2string(tensor.numpy(), separator=", ", prefix="Tensor(")
    grad = ", requires_grad=True" if tensor.requires_grad else ""
    return f"Tensor({body}, {tensor.dtype}{lies}{grad})"
