"""The first values of parameters: each layer draws them with keys of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.functions.creation import created_from_array
from pullback.graph.ambient import thread
from pullback.lazy.pending import compute_pending
from pullback.lazy.settings import config
from pullback.lazy.tensor import Tensor

_MOST_BY_NUMPY = 2**17  # elements, which take about as long as the compilation of a program


def initial_parameter(draw: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Return `draw(*args, **kwargs)`, computed at once.

    NumPy computes small parameters, so that a model with many shapes does not compile a program
    for each of them; both engines draw the same numbers.
    """
    if thread.tracing_from:
        return draw(*args, **kwargs)
    compute_pending([x._node for x in args if isinstance(x, Tensor) and x._node.value is None])
    with config(engine="reference"):
        made = draw(*args, **kwargs)
        if made.size <= _MOST_BY_NUMPY:
            return created_from_array(np.asarray(made))
    compute_pending([made._node])
    return made
