"""Convolutions and their transposes.

Images are [N, spatial..., C] with `layout="NHWC"`, the default, and [N, C, spatial...] with
`layout="NCHW"`, for any number of spatial dimensions. The filters are stored in the order that
goes with it: [spatial..., C / groups, F] with "NHWC", [F, C / groups, spatial...] with "NCHW". The
latter is PyTorch's, so that its state dicts can be loaded as they are; `pb.nn.from_torch` converts
them for the other layout.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.arguments import converted_argument
from pullback.graph.argument_checks import checked_flag_argument, shown_argument
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.functional.arguments import Layout
from pullback.nn.functional.convolution import ConvPadding, FilterLayout
from pullback.nn.functional.image_layouts import is_layout_channels_first
from pullback.nn.initial import initial_parameter
from pullback.nn.keys import layer_keys
from pullback.nn.layer_arguments import (
    check_layer_channels,
    layer_layout_argument,
    layer_number_arguments,
    named_layer_arguments,
    positive_layer_argument,
)
from pullback.nn.module import Module
from pullback.ops.conv.windows import dilated_window, resolve_window_padding
from pullback.random.continuous import uniform
from pullback.typing import ArrayLike, DTypeLike, Shape

PaddingMode = Literal["zeros", "reflect", "replicate", "circular"]

# What `pb.pad` calls them
_PAD_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


class FilterLayer(Module):
    """What convolutions and their transposes share: filters, bias and layout."""

    rank: ClassVar[int]
    weight: Tensor
    bias: Tensor | None

    def _set_channels(self, inputs: int, outputs: int, groups: int, layout: Layout) -> None:
        name = type(self).__name__
        self.in_channels = positive_layer_argument(name, inputs, "in_channels")
        self.out_channels = positive_layer_argument(name, outputs, "out_channels")
        self.groups = positive_layer_argument(name, groups, "groups")
        self.layout = layer_layout_argument(name, layout)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            got = f"{inputs} and {outputs} for groups={groups}"
            message = f"groups must divide in_channels and out_channels, got {got}"
            raise ArgumentError(message, op=name)

    def _set_filters(
        self, inner: int, outer: int, bias: bool, key: ArrayLike | None, dtype: DTypeLike | None
    ) -> None:
        """Draw filters with `inner` channels for each of `outer`, and the bias."""
        sides = self.kernel_size
        shape = (
            (outer, inner, *sides)
            if is_layout_channels_first(self.layout)
            else (*sides, inner, outer)
        )
        fan = inner * math.prod(sides)
        bound = fan**-0.5 if fan else 0.0
        keys = layer_keys(key, 2)
        self.weight = initial_parameter(uniform, keys[0], shape, dtype, -bound, bound)
        self.bias = None
        if checked_flag_argument(type(self).__name__, bias, "bias"):
            size = (self.out_channels,)
            self.bias = initial_parameter(uniform, keys[1], size, dtype, -bound, bound)

    kernel_size: tuple[int, ...]

    def _filter_layout(self) -> FilterLayout:
        return "OIHW" if is_layout_channels_first(self.layout) else "HWIO"

    def from_torch(self, name: str, value: Tensor) -> Tensor:
        """Return a parameter of PyTorch's layer in the order that it has here.

        >>> pb.nn.Conv2d(3, 4, 5).from_torch("weight", pb.ones((4, 3, 5, 5))).shape
        (5, 5, 3, 4)
        """
        if name != "weight" or is_layout_channels_first(self.layout) or value.ndim != self.rank + 2:
            return value
        return pf.moveaxis(value, (1, 0), (-2, -1))


class ConvolutionLayer(FilterLayer):
    """The base class of `Conv1d`, `Conv2d` and `Conv3d`."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Shape, stride: Shape = 1,
        padding: ConvPadding = 0, dilation: Shape = 1, groups: int = 1, bias: bool = True,
        padding_mode: PaddingMode = "zeros", *, layout: Layout = "NHWC",
        key: ArrayLike | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self._set_channels(in_channels, out_channels, groups, layout)
        self.kernel_size = layer_number_arguments(name, kernel_size, self.rank, "kernel_size", 1)
        self.stride = layer_number_arguments(name, stride, self.rank, "stride", 1)
        self.dilation = layer_number_arguments(name, dilation, self.rank, "dilation", 1)
        self.padding = self._checked_padding(padding)
        if padding_mode != "zeros" and padding_mode not in _PAD_MODES:
            names = ", ".join([f'"{m}"' for m in ("zeros", *_PAD_MODES)])
            message = f"padding_mode must be one of {names}, got {shown_argument(padding_mode)}"
            raise ArgumentError(message, op=name)
        self.padding_mode = padding_mode
        self._set_filters(self.in_channels // self.groups, self.out_channels, bias, key, dtype)

    def _checked_padding(self, padding: ConvPadding) -> str | tuple[tuple[int, int], ...]:
        """Return "same" or "valid", or a pair for each spatial dimension."""
        name = type(self).__name__
        if isinstance(padding, str):
            if padding.lower() not in ("same", "valid"):
                message = f'padding must be "same", "valid" or numbers, got {padding!r}'
                raise ArgumentError(message, op=name)
            return padding.lower()
        given: Any = padding
        if isinstance(given, (list, tuple)) and any(isinstance(p, (list, tuple)) for p in given):
            if len(given) != self.rank:
                must = f"a pair for each of {self.rank} spatial dimensions"
                raise ArgumentError(f"padding must be {must}, got {shown_argument(given)}", op=name)
            pairs = [layer_number_arguments(name, pair, 2, "padding") for pair in given]
            return tuple([(low, high) for low, high in pairs])
        return tuple([(p, p) for p in layer_number_arguments(name, given, self.rank, "padding")])

    def forward(self, x: ArrayLike) -> Tensor:
        padding: Any = self.padding
        images = as_tensor(x)
        check_layer_channels(type(self).__name__, images, self.rank, self.layout, self.in_channels)
        if self.padding_mode != "zeros":
            images, padding = self._padded(images), 0
        convolve: Any = (F.conv1d, F.conv2d, F.conv3d)[self.rank - 1]
        return convolve(
            images, self.weight, self.bias, self.stride, padding, self.dilation, self.groups,
            layout=self.layout, filter_layout=self._filter_layout(),
        )  # fmt: skip

    def _padded(self, x: Tensor) -> Tensor:
        """Return images with the elements that `padding_mode` adds."""
        first = x.ndim - self.rank - (not is_layout_channels_first(self.layout))
        axes = range(first, first + self.rank)
        sizes = [x.shape[i] for i in axes]
        pairs = converted_argument(
            type(self).__name__, resolve_window_padding, self.padding, sizes, self.kernel_size,
            self.stride, self.dilation,
        )  # fmt: skip
        mode: Any = _PAD_MODES[self.padding_mode]
        return pf.pad(x, dict(zip(axes, pairs)), mode)


@named_layer_arguments
class Conv1d(ConvolutionLayer):
    """Convolution of sequences [N, L, C], or [N, C, L] with `layout="NCHW"`; see `Conv2d`.

    >>> pb.nn.Conv1d(3, 8, 5, stride=2)(pb.ones((1, 11, 3))).shape
    (1, 4, 8)
    """

    rank: ClassVar[int] = 1


@named_layer_arguments
class Conv2d(ConvolutionLayer):
    """Convolution of images: `layout="NHWC"` takes [N, H, W, C], `layout="NCHW"` [N, C, H, W].

    `padding` is a number, one for each spatial dimension, a pair (before, after) for each, "valid",
    or "same": as many windows as the size divided by the stride, rounded up. `padding_mode` says
    what is added there: "zeros", "reflect", "replicate" or "circular". `weight` is
    [h, w, in_channels / groups, out_channels] with "NHWC" and
    [out_channels, in_channels / groups, h, w], as PyTorch has it, with "NCHW". It and the bias are
    drawn uniformly from -1/sqrt(n) to 1/sqrt(n), where n is the number of elements of a filter.

    >>> pb.nn.Conv2d(3, 8, 3, padding=1)(pb.ones((1, 6, 6, 3))).shape
    (1, 6, 6, 8)
    >>> pb.nn.Conv2d(3, 8, 3, padding="same", layout="NCHW")(pb.ones((1, 3, 6, 6))).shape
    (1, 8, 6, 6)
    """

    rank: ClassVar[int] = 2


@named_layer_arguments
class Conv3d(ConvolutionLayer):
    """Convolution of volumes [N, D, H, W, C], or [N, C, D, H, W] with `layout="NCHW"`; see
    `Conv2d`.

    >>> pb.nn.Conv3d(1, 2, 3)(pb.ones((1, 4, 5, 6, 1))).shape
    (1, 2, 3, 4, 2)
    """

    rank: ClassVar[int] = 3


class TransposedConvolutionLayer(FilterLayer):
    """The base class of `ConvTranspose1d`, `ConvTranspose2d` and `ConvTranspose3d`."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Shape, stride: Shape = 1,
        padding: Shape = 0, output_padding: Shape = 0, groups: int = 1, bias: bool = True,
        dilation: Shape = 1, *, layout: Layout = "NHWC", key: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        name, rank = type(self).__name__, self.rank
        self._set_channels(in_channels, out_channels, groups, layout)
        self.kernel_size = layer_number_arguments(name, kernel_size, rank, "kernel_size", 1)
        self.stride = layer_number_arguments(name, stride, rank, "stride", 1)
        self.padding = layer_number_arguments(name, padding, rank, "padding")
        self.output_padding = layer_number_arguments(name, output_padding, rank, "output_padding")
        self.dilation = layer_number_arguments(name, dilation, rank, "dilation", 1)
        self._set_filters(self.out_channels // self.groups, self.in_channels, bias, key, dtype)

    def forward(self, x: ArrayLike, output_size: Shape | None = None) -> Tensor:
        """Return the transposed convolution, with spatial sizes `output_size` if they are given."""
        images = as_tensor(x)
        check_layer_channels(type(self).__name__, images, self.rank, self.layout, self.in_channels)
        extra = self.output_padding
        if output_size is not None:
            extra = self._output_padding_for(images, output_size)
        convolve: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.rank - 1]
        return convolve(
            images, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
            self.dilation, layout=self.layout, filter_layout=self._filter_layout(),
        )  # fmt: skip

    def _output_padding_for(self, x: Tensor, wanted: Shape) -> tuple[int, ...]:
        """Return the output padding with which the result has the wanted spatial sizes."""
        name, rank = type(self).__name__, self.rank
        sizes = layer_number_arguments(name, wanted, rank, "output_size")
        first = x.ndim - rank - (not is_layout_channels_first(self.layout))
        given = x.shape[first : first + rank]
        sides = zip(given, self.stride, self.padding, self.kernel_size, self.dilation)
        least = [(n - 1) * s - 2 * p + dilated_window(k, d) for n, s, p, k, d in sides]
        extra = tuple([size - n for size, n in zip(sizes, least)])
        if any(not 0 <= e < s for e, s in zip(extra, self.stride)):
            most = [n + s - 1 for n, s in zip(least, self.stride)]
            message = f"output_size must be from {least} to {most}, got {list(sizes)}"
            raise ArgumentError(message, op=name)
        return extra


@named_layer_arguments
class ConvTranspose1d(TransposedConvolutionLayer):
    """Transposed convolution of sequences [N, L, C], or [N, C, L] with `layout="NCHW"`; see
    `ConvTranspose2d`.

    >>> pb.nn.ConvTranspose1d(3, 2, 4, stride=2, padding=1)(pb.ones((1, 5, 3))).shape
    (1, 10, 2)
    """

    rank: ClassVar[int] = 1


@named_layer_arguments
class ConvTranspose2d(TransposedConvolutionLayer):
    """Transposed convolution of images: `layout="NHWC"` takes [N, H, W, C], "NCHW" [N, C, H, W].

    It is the linear map that the gradient of a convolution from `out_channels` to `in_channels`
    applies. `output_padding` adds to the size of the result at the end of each dimension; a call
    `layer(x, output_size)` chooses it. `weight` is [h, w, out_channels / groups, in_channels] with
    "NHWC" and [in_channels, out_channels / groups, h, w], as PyTorch has it, with "NCHW".

    >>> layer = pb.nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    >>> layer(pb.ones((1, 5, 5, 3))).shape, layer(pb.ones((1, 5, 5, 3)), 10).shape
    ((1, 9, 9, 2), (1, 10, 10, 2))
    """

    rank: ClassVar[int] = 2


@named_layer_arguments
class ConvTranspose3d(TransposedConvolutionLayer):
    """Transposed convolution of volumes [N, D, H, W, C], or [N, C, D, H, W] with `layout="NCHW"`;
    see `ConvTranspose2d`.

    >>> pb.nn.ConvTranspose3d(1, 2, 2, stride=2)(pb.ones((1, 2, 3, 4, 1))).shape
    (1, 4, 6, 8, 2)
    """

    rank: ClassVar[int] = 3


__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip
