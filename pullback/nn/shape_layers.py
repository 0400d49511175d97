"""Layers that change shapes: joining dimensions, resampling, rearranging pixels, padding."""

from __future__ import annotations

from pullback import functions as pf
from pullback.functions.arguments import axis_argument, one_or_many_arguments
from pullback.graph.argument_checks import checked_integer_argument, with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.function_layers import function_layer
from pullback.nn.module import Module
from pullback.typing import ArrayLike, Shape


@boundary_methods
class Flatten(Module):
    """Joins the dimensions from `start_dim` to `end_dim` into one.

    >>> pb.nn.Flatten()(pb.ones((2, 3, 4))).shape
    (2, 12)
    """

    @with_argument_checks
    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: ArrayLike) -> Tensor:
        return pf.flatten(x, self.start_dim, self.end_dim)


@boundary_methods
class Unflatten(Module):
    """Splits the dimension `dim` into several; one of their sizes may be -1.

    >>> pb.nn.Unflatten(1, (3, -1))(pb.ones((2, 12))).shape
    (2, 3, 4)
    """

    @with_argument_checks
    def __init__(self, dim: int, unflattened_size: Shape) -> None:
        self.dim = dim
        self.unflattened_size = tuple(
            [
                checked_integer_argument("Unflatten", n, "unflattened_size")
                for n in one_or_many_arguments(unflattened_size)
            ]
        )

    def forward(self, x: ArrayLike) -> Tensor:
        a = as_tensor(x)
        axis, shape = axis_argument("Unflatten", self.dim, a.ndim), a.shape
        return pf.reshape(a, (*shape[:axis], *self.unflattened_size, *shape[axis + 1 :]))


Upsample = function_layer(
    "Upsample", F.interpolate, "pb.nn.Upsample(scale_factor=2.0)(pb.ones((1, 3, 3, 2))).shape",
    "(1, 6, 6, 2)", without=("recompute_scale_factor",),
)  # fmt: skip
PixelShuffle = function_layer(
    "PixelShuffle", F.pixel_shuffle, "pb.nn.PixelShuffle(2)(pb.ones((1, 3, 3, 8))).shape",
    "(1, 6, 6, 2)",
)  # fmt: skip
PixelUnshuffle = function_layer(
    "PixelUnshuffle", F.pixel_unshuffle, "pb.nn.PixelUnshuffle(2)(pb.ones((1, 6, 6, 2))).shape",
    "(1, 3, 3, 8)",
)  # fmt: skip
ChannelShuffle = function_layer(
    "ChannelShuffle", F.channel_shuffle,
    "pb.nn.ChannelShuffle(2)([[1.0, 2.0, 3.0, 4.0]]).tolist()", "[[1.0, 3.0, 2.0, 4.0]]",
)  # fmt: skip
Unfold = function_layer(
    "Unfold", F.unfold, "pb.nn.Unfold(2)(pb.ones((1, 3, 3, 2))).shape", "(1, 4, 8)"
)
Fold = function_layer(
    "Fold", F.fold, "pb.nn.Fold((3, 3), 2)(pb.ones((1, 4, 8))).shape", "(1, 3, 3, 2)"
)

__all__ = [
    "ChannelShuffle", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold",
    "Upsample",
]  # fmt: skip
