"""The first values of parameters: each layer draws them with keys of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.graph.ambient import thread
from pullback.lazy.pending import compute_pending
from pullback.lazy.tensor import Tensor
from pullback.nn.default_keys import default_key
from pullback.random.keys import split
from pullback.typing import ArrayLike


def layer_keys(key: ArrayLike | None, count: int) -> list[Tensor]:
    """Return keys for the parameters of a layer, from its own key or the default stream."""
    return list(split(default_key() if key is None else key, count))


def drawn_parameter(draw: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """Return `draw(*args, **kwargs)`, computed at once.

    Layers of the same shape then share a small program, where the parameters of a whole model
    would be one large program that is compiled for a single use.
    """
    made = draw(*args, **kwargs)
    if made._node.value is None and not thread.tracing_from:
        compute_pending([made._node])
    return made
