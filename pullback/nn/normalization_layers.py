"""Normalisation layers without state: over the last dimensions, or groups of channels."""

from __future__ import annotations

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.arguments import shape_argument
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.function_layers import function_layer
from pullback.nn.functional.arguments import Layout
from pullback.nn.initial import initial_parameter
from pullback.nn.layer_arguments import layer_layout_argument, positive_layer_argument
from pullback.nn.module import Module
from pullback.typing import ArrayLike, DTypeLike, Shape


@boundary_methods
class LayerNorm(Module):
    """Normalises over the last dimensions, whose sizes are `normalized_shape`; scales and shifts.

    >>> pb.nn.LayerNorm(2, eps=0.0)(pb.tensor([1.0, 3.0])).tolist()
    [-1.0, 1.0]
    """

    weight: Tensor | None
    bias: Tensor | None

    @with_argument_checks
    def __init__(
        self, normalized_shape: Shape, eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, *, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.normalized_shape = shape_argument("LayerNorm", normalized_shape)
        self.eps = eps
        shape = self.normalized_shape
        self.weight = initial_parameter(pf.ones, shape, dtype) if elementwise_affine else None
        shifts = elementwise_affine and bias
        self.bias = initial_parameter(pf.zeros, shape, dtype) if shifts else None

    def forward(self, x: ArrayLike) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


@boundary_methods
class RMSNorm(Module):
    """Divides by the root of the mean square over the last dimensions, and scales.

    `eps` is added to the mean square; by default it is the distance from 1 to the next float.

    >>> pb.nn.RMSNorm(2)(pb.tensor([1.0, 7.0])).tolist()
    [0.2000..., 1.3999...]
    """

    weight: Tensor | None

    @with_argument_checks
    def __init__(
        self, normalized_shape: Shape, eps: float | None = None, elementwise_affine: bool = True,
        *, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.normalized_shape = shape_argument("RMSNorm", normalized_shape)
        self.eps = eps
        shape = self.normalized_shape
        self.weight = initial_parameter(pf.ones, shape, dtype) if elementwise_affine else None

    def forward(self, x: ArrayLike) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


@boundary_methods
class GroupNorm(Module):
    """Normalises groups of neighbouring channels of each example; scales and shifts each channel.

    `layout="NHWC"` takes [N, ..., C], `layout="NCHW"` takes [N, C, ...].

    >>> pb.nn.GroupNorm(2, 4, eps=0.0)(pb.tensor([[1.0, 3.0, 8.0, 4.0]])).tolist()
    [[-1.0, 1.0, 1.0, -1.0]]
    """

    weight: Tensor | None
    bias: Tensor | None

    @with_argument_checks
    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, *,
        layout: Layout = "NHWC", dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.num_groups = positive_layer_argument("GroupNorm", num_groups, "num_groups")
        self.num_channels = positive_layer_argument("GroupNorm", num_channels, "num_channels")
        if num_channels % num_groups:
            message = f"num_groups must divide num_channels, got {num_groups} and {num_channels}"
            raise ArgumentError(message, op="GroupNorm")
        self.eps, self.layout = eps, layer_layout_argument("GroupNorm", layout)
        self.weight = initial_parameter(pf.ones, (num_channels,), dtype) if affine else None
        self.bias = initial_parameter(pf.zeros, (num_channels,), dtype) if affine else None

    def forward(self, x: ArrayLike) -> Tensor:
        return F.group_norm(
            x, self.num_groups, self.weight, self.bias, self.eps, layout=self.layout
        )


LocalResponseNorm = function_layer(
    "LocalResponseNorm", F.local_response_norm,
    "pb.nn.LocalResponseNorm(1, 1.0, 1.0)(pb.tensor([[2.0, 0.0]])).tolist()", "[[0.4..., 0.0]]",
)  # fmt: skip

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
