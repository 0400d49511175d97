"""Convolutions and transposed convolutions.

Images are [N, spatial..., C] with layout="NHWC" and [N, C, spatial...] with layout="NCHW". Filters
are [spatial..., C / groups, F] with filter_layout="HWIO" and [F, C / groups, spatial...] with
filter_layout="OIHW", whatever the layout of the images. The names hold for every number of
spatial dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import (
    checked_integer_argument,
    converted_argument,
    float_arguments,
)
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.nn.functional.arguments import Layout, functional_choice_argument
from pullback.nn.functional.image_layouts import (
    image_layout_numbers,
    images_channels_last,
    images_in_layout,
)
from pullback.ops.conv.convolution import Convolution, ConvolutionBackwardInput
from pullback.ops.conv.windows import dilated_window, resolve_window_padding
from pullback.typing import ArrayLike, Shape

FilterLayout = Literal["HWIO", "OIHW"]
ConvPadding = Shape | str | Sequence[Sequence[int]]


@composed
def conv1d(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1,
    padding: ConvPadding = 0, dilation: Shape = 1, groups: int = 1, *, layout: Layout = "NHWC",
    filter_layout: FilterLayout = "HWIO",
) -> Tensor:  # fmt: skip
    """Convolve sequences [N, L, C] with filters [l, C / groups, F]; see `conv2d`.

    >>> F = pb.nn.functional
    >>> F.conv1d(pb.ones((1, 5, 2)), pb.ones((3, 2, 4)), padding=1).shape
    (1, 5, 4)
    """
    return _functional_convolution(
        1, x, weight, bias, stride, padding, dilation, groups, layout, filter_layout
    )


@composed
def conv2d(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1,
    padding: ConvPadding = 0, dilation: Shape = 1, groups: int = 1, *, layout: Layout = "NHWC",
    filter_layout: FilterLayout = "HWIO",
) -> Tensor:  # fmt: skip
    """Convolve images [N, H, W, C], or one image [H, W, C], with filters [h, w, C / groups, F].

    `padding` is a number, one for each spatial dimension, a pair (before, after) for each, "valid",
    or "same": as many windows as the size divided by the stride, rounded up. `bias` is [F].
    `layout="NCHW"` takes and returns images [N, C, H, W]; `filter_layout="OIHW"` takes filters
    [F, C / groups, h, w].

    >>> F = pb.nn.functional
    >>> F.conv2d(pb.ones((1, 8, 8, 3)), pb.ones((3, 3, 3, 4)), stride=2, padding="same").shape
    (1, 4, 4, 4)
    >>> F.conv2d(pb.ones((1, 3, 8, 8)), pb.ones((3, 3, 3, 4)), layout="NCHW").shape
    (1, 4, 6, 6)
    """
    return _functional_convolution(
        2, x, weight, bias, stride, padding, dilation, groups, layout, filter_layout
    )


@composed
def conv3d(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1,
    padding: ConvPadding = 0, dilation: Shape = 1, groups: int = 1, *, layout: Layout = "NHWC",
    filter_layout: FilterLayout = "HWIO",
) -> Tensor:  # fmt: skip
    """Convolve volumes [N, D, H, W, C] with filters [d, h, w, C / groups, F]; see `conv2d`.

    >>> F = pb.nn.functional
    >>> F.conv3d(pb.ones((1, 4, 4, 4, 2)), pb.ones((2, 2, 2, 2, 3))).shape
    (1, 3, 3, 3, 3)
    """
    return _functional_convolution(
        3, x, weight, bias, stride, padding, dilation, groups, layout, filter_layout
    )


@composed
def conv_transpose1d(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1,
    padding: Shape = 0, output_padding: Shape = 0, groups: int = 1, dilation: Shape = 1, *,
    layout: Layout = "NHWC", filter_layout: FilterLayout = "HWIO",
) -> Tensor:  # fmt: skip
    """Apply the transpose of `conv1d`; see `conv_transpose2d`.

    >>> F = pb.nn.functional
    >>> F.conv_transpose1d(pb.ones((1, 4, 2)), pb.ones((2, 3, 2)), stride=2).shape
    (1, 8, 3)
    """
    return _transposed_convolved(
        1, x, weight, bias, stride, padding, output_padding, groups, dilation, layout, filter_layout
    )


@composed
def conv_transpose2d(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1,
    padding: Shape = 0, output_padding: Shape = 0, groups: int = 1, dilation: Shape = 1, *,
    layout: Layout = "NHWC", filter_layout: FilterLayout = "HWIO",
) -> Tensor:  # fmt: skip
    """Apply the transpose of `conv2d`, the linear map that its gradient applies.

    The filters are those of that convolution, whose input is the result here: with images
    [N, H, W, C] they are [h, w, F / groups, C] ("HWIO") or [C, F / groups, h, w] ("OIHW"), where F
    is the number of channels of the result. `output_padding` adds to the size of the result at the
    end of each dimension, where the sizes that `stride` maps to one are several.

    >>> F = pb.nn.functional
    >>> F.conv_transpose2d(pb.ones((1, 4, 4, 2)), pb.ones((3, 3, 5, 2)), stride=2).shape
    (1, 9, 9, 5)
    """
    return _transposed_convolved(
        2, x, weight, bias, stride, padding, output_padding, groups, dilation, layout, filter_layout
    )


@composed
def conv_transpose3d(
    x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Shape = 1,
    padding: Shape = 0, output_padding: Shape = 0, groups: int = 1, dilation: Shape = 1, *,
    layout: Layout = "NHWC", filter_layout: FilterLayout = "HWIO",
) -> Tensor:  # fmt: skip
    """Apply the transpose of `conv3d`; see `conv_transpose2d`.

    >>> F = pb.nn.functional
    >>> F.conv_transpose3d(pb.ones((1, 2, 2, 2, 1)), pb.ones((2, 2, 2, 1, 1))).shape
    (1, 3, 3, 3, 1)
    """
    return _transposed_convolved(
        3, x, weight, bias, stride, padding, output_padding, groups, dilation, layout, filter_layout
    )


def _functional_convolution(
    rank: int, x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, stride: Shape,
    padding: ConvPadding, dilation: Shape, groups: int, layout: str, filter_layout: str,
) -> Tensor:  # fmt: skip
    images, single = images_channels_last(x, rank, layout)
    images, filters = _convolution_filters(images, weight, rank, filter_layout)
    steps = image_layout_numbers(stride, rank, "stride", least=1)
    apart = image_layout_numbers(dilation, rank, "dilation", least=1)
    count = _functional_convolution_groups(groups)
    if filters.shape[-2] * count != images.shape[-1] or filters.shape[-1] % count:
        raise _convolution_channels_error(images, filters, count, "C / groups, F")
    border = _spatial_convolution_padding(
        padding, images.shape[1:-1], filters.shape[:-2], steps, apart
    )
    op = Convolution(steps, border, (1,) * rank, apart, count)
    y = record(op, (node_of(images), node_of(filters)))
    return images_in_layout(_convolved_with_bias(y, bias), layout, single)


def _transposed_convolved(
    rank: int, x: ArrayLike, weight: ArrayLike, bias: ArrayLike | None, stride: Shape,
    padding: Shape, output_padding: Shape, groups: int, dilation: Shape, layout: str,
    filter_layout: str,
) -> Tensor:  # fmt: skip
    images, single = images_channels_last(x, rank, layout)
    images, filters = _convolution_filters(images, weight, rank, filter_layout)
    steps = image_layout_numbers(stride, rank, "stride", least=1)
    apart = image_layout_numbers(dilation, rank, "dilation", least=1)
    border = image_layout_numbers(padding, rank, "padding")
    extra = image_layout_numbers(output_padding, rank, "output_padding")
    if any(e >= max(s, d) for e, s, d in zip(extra, steps, apart)):
        must = "less than the stride or the dilation"
        raise ArgumentError(f"output_padding must be {must}, got {list(extra)}")
    count = _functional_convolution_groups(groups)
    if filters.shape[-1] != images.shape[-1] or filters.shape[-1] % count:
        raise _convolution_channels_error(images, filters, count, "F / groups, C")
    sides = zip(images.shape[1:-1], filters.shape[:-2], steps, apart, border, extra)
    sizes = tuple((n - 1) * s - 2 * p + dilated_window(k, d) + e for n, k, s, d, p, e in sides)
    if any(n < 1 for n in sizes):
        raise ShapeError(f"the result would have the spatial sizes {list(sizes)}")
    pairs = tuple((p, p) for p in border)
    op = ConvolutionBackwardInput(steps, pairs, (1,) * rank, apart, count, sizes)
    y = record(op, (node_of(images), node_of(filters)))
    return images_in_layout(_convolved_with_bias(y, bias), layout, single)


def _convolution_filters(
    images: Tensor, weight: ArrayLike, rank: int, layout: str
) -> tuple[Tensor, Tensor]:
    """Images and filters of the same dtype, the filters as [spatial..., I, O]."""
    functional_choice_argument(layout, ("HWIO", "OIHW"), "filter_layout")
    images, filters = map(wrap, float_arguments(images, weight))
    if filters.ndim != rank + 2:
        raise ShapeError(f"weight must have rank {rank + 2}, got {filters._node.type}")
    return images, pf.moveaxis(filters, (1, 0), (-2, -1)) if layout == "OIHW" else filters


def _functional_convolution_groups(groups: int) -> int:
    found = checked_integer_argument("", groups, "groups")
    if found < 1:
        raise ArgumentError(f"groups must be at least 1, got {found}")
    return found


def _convolution_channels_error(
    images: Tensor, filters: Tensor, groups: int, wanted: str
) -> ShapeError:
    given = f"{images.shape[-1]} channels, filters {list(filters.shape)} and groups={groups}"
    hint = 'Filters [F, C, h, w], as PyTorch has them, need filter_layout="OIHW".'
    message = f"filters must be [spatial..., {wanted}] for the channels, got {given}"
    return ShapeError(message, hint=hint)


def _spatial_convolution_padding(
    padding: ConvPadding, sizes: Sequence[int], window: Sequence[int], strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    """A pair (before, after) for each spatial dimension."""
    pairs: Any = padding
    if isinstance(padding, str):
        if padding.lower() not in ("same", "valid"):
            raise ArgumentError(f'padding must be "same", "valid" or numbers, got {padding!r}')
    elif not isinstance(padding, (tuple, list)) or not any(
        isinstance(p, (tuple, list)) for p in padding
    ):
        numbers: Any = padding
        pairs = [(p, p) for p in image_layout_numbers(numbers, len(sizes), "padding")]
    elif len(padding) != len(sizes):
        must = f"a pair for each of {len(sizes)} spatial dimensions"
        raise ArgumentError(f"padding must be {must}, got {shown_argument(padding)}")
    return converted_argument(
        "conv", resolve_window_padding, pairs, sizes, window, strides, dilation
    )


def _convolved_with_bias(y: Tensor, bias: ArrayLike | None) -> Tensor:
    if bias is None:
        return y
    b = as_tensor(bias)
    if b.shape != y.shape[-1:]:
        raise ShapeError(f"bias must be [{y.shape[-1]}], got {b._node.type}")
    return y + b


__all__ = ["conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]
