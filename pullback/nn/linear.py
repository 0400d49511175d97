"""Affine and bilinear layers, and tables of vectors."""

from __future__ import annotations

from typing import Any

from pullback.errors import ArgumentError, ShapeError
from pullback.graph.argument_checks import checked_integer_argument, with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.initial import initial_parameter
from pullback.nn.keys import layer_keys
from pullback.nn.layer_arguments import positive_layer_argument
from pullback.nn.module import Module
from pullback.random.continuous import normal, uniform
from pullback.typing import ArrayLike, DTypeLike


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
        self.in_features = checked_integer_argument("Linear", in_features, "in_features")
        self.out_features = checked_integer_argument("Linear", out_features, "out_features")
        bound = in_features**-0.5 if in_features else 0.0
        keys = layer_keys(key, 2)
        shape = (out_features, in_features)
        self.weight = initial_parameter(uniform, keys[0], shape, dtype, -bound, bound)
        self.bias = None
        if bias:
            self.bias = initial_parameter(uniform, keys[1], shape[:1], dtype, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        try:
            y = x @ self.weight.T
        except ShapeError:
            got = f"got {x._node.type} for a weight {self.weight._node.type}"
            raise ShapeError(f"needs [..., {self.weight.shape[-1]}], {got}", op="Linear") from None
        return y if self.bias is None else y + self.bias


@boundary_methods
class Bilinear(Module):
    """`x1 @ weight[k] @ x2 + bias[k]` for each k, along the last axis.

    The weight is (out_features, in1_features, in2_features). It and the bias are drawn uniformly
    between -1/sqrt(in1_features) and 1/sqrt(in1_features).

    >>> pb.nn.Bilinear(2, 3, 4)(pb.ones((5, 2)), pb.ones((5, 3))).shape
    (5, 4)
    """

    weight: Tensor
    bias: Tensor | None

    @with_argument_checks
    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, *,
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.in1_features = positive_layer_argument("Bilinear", in1_features, "in1_features")
        self.in2_features, self.out_features = in2_features, out_features
        bound = in1_features**-0.5
        keys = layer_keys(key, 2)
        shape = (out_features, in1_features, in2_features)
        self.weight = initial_parameter(uniform, keys[0], shape, dtype, -bound, bound)
        self.bias = None
        if bias:
            self.bias = initial_parameter(uniform, keys[1], shape[:1], dtype, -bound, bound)

    def forward(self, x1: ArrayLike, x2: ArrayLike) -> Tensor:
        return F.bilinear(x1, x2, self.weight, self.bias)


@boundary_methods
class Embedding(Module):
    """A table of `num_embeddings` vectors, read at integer indices.

    The vectors are drawn from the standard normal distribution. That of `padding_idx`, which may
    be counted from the end, begins as zeros and gets no gradient.

    >>> table = pb.nn.Embedding(10, 3, padding_idx=0)
    >>> table(pb.tensor([[1, 2], [0, 9]])).shape, table.weight[0].tolist()
    ((2, 2, 3), [0.0, 0.0, 0.0])
    """

    weight: Tensor

    @with_argument_checks
    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, *,
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        table = initial_parameter(
            normal, *layer_keys(key, 1), (num_embeddings, embedding_dim), dtype
        )
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                message = f"padding_idx must be an index of {num_embeddings} rows"
                raise ArgumentError(f"{message}, got {padding_idx}", op="Embedding")
            self.padding_idx = padding_idx % num_embeddings
            table = initial_parameter(table.at[self.padding_idx].set, 0)
        self.weight = table

    def forward(self, x: ArrayLike) -> Tensor:
        return F.embedding(x, self.weight, self.padding_idx)


__all__ = ["Bilinear", "Embedding", "Identity", "Linear"]
