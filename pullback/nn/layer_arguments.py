"""Arguments that layers share: layouts and numbers for spatial dimensions."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from pullback.errors import ArgumentError, PullbackError, ShapeError
from pullback.graph.argument_checks import checked_integer_argument, shown_argument
from pullback.graph.boundary import boundary_methods
from pullback.lazy.tensor import Tensor
from pullback.nn.functional.arguments import Layout
from pullback.nn.functional.image_layouts import image_layout_numbers, is_layout_channels_first
from pullback.typing import Shape

C = TypeVar("C", bound=type)


def named_layer_arguments(cls: C) -> C:
    """Give a class the `__init__` of its base class under its own name, which errors show."""
    inherited: Any = cls.__init__  # type: ignore[misc]

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        inherited(self, *args, **kwargs)

    made: Any = init
    made.__signature__ = inspect.signature(inherited)
    made.__name__, made.__qualname__ = "__init__", f"{cls.__name__}.__init__"
    cls.__init__ = made  # type: ignore[misc]
    return boundary_methods(cls)


def layer_layout_argument(layer: str, layout: Layout) -> Layout:
    """Return the layout of images, which must be a known one."""
    try:
        is_layout_channels_first(layout)
    except PullbackError as error:
        error.op = layer
        raise
    return layout


def layer_number_arguments(
    layer: str, value: Shape, rank: int, what: str, least: int = 0
) -> tuple[int, ...]:
    """Return one int for each spatial dimension, from an int for all of them or a sequence."""
    try:
        return image_layout_numbers(value, rank, what, least)
    except PullbackError as error:
        error.op = layer
        raise


def positive_layer_argument(layer: str, value: int, what: str) -> int:
    """Return an int, which must be at least 1."""
    found = checked_integer_argument(layer, value, what)
    if found < 1:
        raise ArgumentError(f"{what} must be at least 1, got {shown_argument(value)}", op=layer)
    return found


def check_layer_channels(layer: str, x: Tensor, rank: int, layout: Layout, channels: int) -> None:
    """Refuse images with other channels than those of a layer, or with channels elsewhere."""
    axis, other = -1, x.ndim - rank - 1
    if is_layout_channels_first(layout):
        axis, other = other, axis
    if x.ndim <= rank or x.shape[axis] == channels:  # other ranks are refused later
        return
    names = "[N, C, ...]" if axis >= 0 else "[N, ..., C]"
    message = f'needs {channels} channels, {names} (layout="{layout}"), got {x._node.type}'
    better = "NHWC" if axis >= 0 else "NCHW"
    hint = f'Write {layer}(..., layout="{better}") for this order.'
    raise ShapeError(message, op=layer, hint=hint if x.shape[other] == channels else None)


def check_layer_rank(layer: str, x: Tensor, ranks: tuple[int, ...], wanted: str) -> None:
    """Refuse a tensor of another rank than those that a layer takes."""
    if x.ndim not in ranks:
        raise ShapeError(f"needs {wanted}, got {x._node.type}", op=layer)
