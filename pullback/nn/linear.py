"""Affine layers."""

from __future__ import annotations

from typing import Any

from pullback.graph.arguments import integer
from pullback.lazy.tensor import Tensor
from pullback.nn.initial import drawn_parameter, layer_keys
from pullback.nn.module import Module
from pullback.random.continuous import uniform
from pullback.typing import ArrayLike


class Identity(Module):
    """Returns its argument.

    >>> pb.nn.Identity()(pb.ones(2)).tolist()
    [1.0, 1.0]
    """

    def forward(self, x: Any) -> Any:
        return x


class Linear(Module):
    """`x @ weight.T + bias`, with a weight of shape (out_features, in_features).

    Both are drawn uniformly between -1/sqrt(in_features) and 1/sqrt(in_features).

    >>> layer = pb.nn.Linear(2, 3)
    >>> layer(pb.ones((5, 2))).shape
    (5, 3)
    """

    weight: Tensor
    bias: Tensor | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, *,
        key: ArrayLike | None = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.in_features = integer("Linear", in_features, "in_features")
        self.out_features = integer("Linear", out_features, "out_features")
        bound = in_features**-0.5 if in_features else 0.0
        keys = layer_keys(key, 2)
        shape = (out_features, in_features)
        self.weight = drawn_parameter(uniform, keys[0], shape, dtype, -bound, bound)
        self.bias = None
        if bias:
            self.bias = drawn_parameter(uniform, keys[1], shape[:1], dtype, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias
