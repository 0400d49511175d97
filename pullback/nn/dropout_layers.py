"""Dropout layers.

In training they draw random numbers: with the `key` of the call, else with a key of the innermost
block `with pb.nn.rng(key)`, else with one of the stream that `pb.nn.seed` starts.
"""

from __future__ import annotations

from typing import Any

from pullback import functions as pf
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.function_layers import FunctionLayer, function_layer
from pullback.nn.functional.arguments import Layout, functional_float_argument
from pullback.typing import ArrayLike

_KEYS = (
    "The key is that of the call, `layer(x, key=key)`, else the next one of `pb.nn.rng` or of the\n"
    "    default stream. In evaluation the layer returns x."
)

Dropout = function_layer(
    "Dropout", F.dropout, "pb.nn.Dropout(0.75)(pb.ones(4), key=pb.random.key(2)).tolist()",
    "[0.0, 0.0, 4.0, 0.0]", about=_KEYS, inplace=True,
)  # fmt: skip
AlphaDropout = function_layer(
    "AlphaDropout", F.alpha_dropout, "pb.nn.AlphaDropout().eval()(pb.ones(2)).tolist()",
    "[1.0, 1.0]", about=_KEYS, inplace=True,
)  # fmt: skip
FeatureAlphaDropout = function_layer(
    "FeatureAlphaDropout", F.feature_alpha_dropout,
    "pb.nn.FeatureAlphaDropout().eval()(pb.ones((1, 2))).tolist()", "[[1.0, 1.0]]", about=_KEYS,
    inplace=True,
)  # fmt: skip


def _channel_dropout_layer(rank: int) -> type[FunctionLayer]:
    """Return the class of layers that drop channels of images with `rank` spatial dimensions."""

    def dropped(
        x: ArrayLike, p: float = 0.5, training: bool = True, *, key: ArrayLike | None = None,
        layout: Layout = "NHWC",
    ) -> Tensor:  # fmt: skip
        a = functional_float_argument(x)
        if a.ndim != rank + 1:
            return F.feature_dropout(a, p, training, key=key, layout=layout)
        whole: Any = F.feature_dropout(pf.expand_dims(a, 0), p, training, key=key, layout=layout)
        return pf.squeeze(whole, 0)

    dropped.__name__, dropped.__doc__ = "feature_dropout", F.feature_dropout.__doc__
    shape = str((1, *(2,) * rank, 3))
    return function_layer(
        f"Dropout{rank}d", dropped, f"pb.nn.Dropout{rank}d()(pb.ones({shape})).shape", shape,
        about=_KEYS, inplace=True,
    )  # fmt: skip


Dropout1d, Dropout2d, Dropout3d = map(_channel_dropout_layer, (1, 2, 3))

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip
