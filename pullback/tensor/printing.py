"""How a tensor looks at the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pullback.tensor.record import pending

if TYPE_CHECKING:
    from pullback.tensor.tensor import Tensor


def show(tensor: Tensor) -> str:
    """The value and the dtype; a placeholder has only a type."""
    if pending.placeholders:
        return f"Tensor({tensor._node.type})"
    body = np.array2string(tensor.numpy(), separator=", ", prefix="Tensor(")
    grad = ", requires_grad=True" if tensor.requires_grad else ""
    return f"Tensor({body}, {tensor.dtype}{grad})"
