"""Layers that pad the spatial dimensions of images.

Images are [N, spatial..., C] with `layout="NHWC"`, the default, and [N, C, spatial...] with
`layout="NCHW"`; the dimension N may be missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback import functions as pf
from pullback.errors import ArgumentError
from pullback.functions.arguments import checked_integer_argument, one_or_many_arguments
from pullback.functions.composed import composed
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.nn.function_layers import FunctionLayer, function_layer
from pullback.nn.functional.arguments import Layout
from pullback.nn.functional.image_layouts import is_layout_channels_first
from pullback.nn.layer_arguments import check_layer_rank
from pullback.typing import ArrayLike, Shape

_ABOUT = (
    "`padding` is a number for all sides, or numbers before and after for each spatial dimension,\n"
    "    the last dimension first: (left, right, top, bottom) for images."
)


def _padding_layer_function(name: str, rank: int, mode: Any) -> Callable[..., Tensor]:
    """Return the function that pads images with `rank` spatial dimensions."""

    def pad(x: ArrayLike, padding: Shape, value: float = 0.0, *, layout: Layout = "NHWC") -> Tensor:
        a = as_tensor(x)
        first = is_layout_channels_first(layout)
        check_layer_rank(
            name, a, (rank + 1, rank + 2), f'images of {rank} dimensions, layout="{layout}"'
        )
        numbers = [
            checked_integer_argument(name, n, "padding") for n in one_or_many_arguments(padding)
        ]
        numbers = numbers * 2 * rank if len(numbers) == 1 else numbers
        if len(numbers) != 2 * rank:
            message = (
                f"padding must be a number, or {2 * rank} of them, got {shown_argument(padding)}"
            )
            raise ArgumentError(message, op=name)
        last = a.ndim - 1 if first else a.ndim - 2
        pairs = {last - i: (numbers[2 * i], numbers[2 * i + 1]) for i in range(rank)}
        if mode == "constant":
            return pf.pad(a, pairs, constant_values=value)
        return pf.pad(a, pairs, mode)

    pad.__name__ = name
    pad.__doc__ = f"Pad {_WORDS[mode]} around images with {rank} spatial dimensions."
    return composed(pad)


_WORDS = {
    "constant": "a constant", "reflect": "mirrored elements", "edge": "the outermost elements",
    "wrap": "the elements from the other side",
}  # fmt: skip


def _padding_layers(
    kind: str, mode: str, without: tuple[str, ...] = ("value",)
) -> list[type[FunctionLayer]]:
    """Return the classes of one kind of padding for 1, 2 and 3 spatial dimensions."""
    made = []
    for rank in (1, 2, 3):
        name = f"{kind}{rank}d"
        value = "" if without else ", 0.5"
        call = f"pb.nn.{name}(1{value})(pb.ones({(1, *(3,) * rank, 2)})).shape"
        result = str((1, *(5,) * rank, 2))
        function = _padding_layer_function(name, rank, mode)
        made.append(function_layer(name, function, call, result, about=_ABOUT, without=without))
    return made


ZeroPad1d, ZeroPad2d, ZeroPad3d = _padding_layers("ZeroPad", "constant")
ConstantPad1d, ConstantPad2d, ConstantPad3d = _padding_layers("ConstantPad", "constant", ())
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _padding_layers("ReflectionPad", "reflect")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _padding_layers("ReplicationPad", "edge")
CircularPad1d, CircularPad2d, CircularPad3d = _padding_layers("CircularPad", "wrap")

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip
