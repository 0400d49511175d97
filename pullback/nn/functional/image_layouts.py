"""Layouts of images, and numbers for their spatial dimensions."""

from __future__ import annotations

from typing import Any

from pullback import functions as pf
from pullback.errors import ArgumentError, ShapeError
from pullback.functions.arguments import checked_integer_argument
from pullback.graph.argument_checks import shown_argument
from pullback.lazy.operators import as_tensor
from pullback.lazy.tensor import Tensor
from pullback.typing import ArrayLike, Shape

_LAST = ("NHWC", "NWC", "NLC", "NDHWC", "NC")
_FIRST = ("NCHW", "NCW", "NCL", "NCDHW")


def is_layout_channels_first(layout: str) -> bool:
    """Whether channels are dimension 1 ("NCHW" and the like) instead of the last ("NHWC")."""
    if layout in _FIRST:
        return True
    if layout in _LAST:
        return False
    message = f'layout must be "NHWC" (channels last) or "NCHW" (channels first), got {layout!r}'
    raise ArgumentError(message)


def channel_axis_of_layout(x: Tensor, layout: str) -> int:
    """The dimension of channels, from the front."""
    first = is_layout_channels_first(layout)
    if x.ndim < 2:
        raise ShapeError(f"needs [N, ...] with channels, got {x._node.type}")
    return 1 if first else x.ndim - 1


def images_channels_last(x: ArrayLike, rank: int, layout: str) -> tuple[Tensor, bool]:
    """Images [N, spatial..., C], and whether the given ones lacked the dimension N."""
    first = is_layout_channels_first(layout)
    made = as_tensor(x)
    single = made.ndim == rank + 1
    if not single and made.ndim != rank + 2:
        places = "DHW"[3 - rank :]
        wanted = f"[N, C, {', '.join(places)}]" if first else f"[N, {', '.join(places)}, C]"
        hint = f'The layout is "{layout}"; say layout="NCHW" or "NHWC" for another one.'
        raise ShapeError(f"needs images {wanted}, got {made._node.type}", hint=hint)
    if single:
        made = pf.expand_dims(made, 0)
    return (pf.moveaxis(made, 1, -1) if first else made), single


def images_in_layout(x: Tensor, layout: str, single: bool) -> Tensor:
    """Undo `images_channels_last`."""
    if is_layout_channels_first(layout):
        x = pf.moveaxis(x, -1, 1)
    return pf.squeeze(x, 0) if single else x


def image_layout_numbers(value: Shape, rank: int, what: str, least: int = 0) -> tuple[int, ...]:
    """One int for each spatial dimension, from an int for all of them or a sequence."""
    items: Any = value if isinstance(value, (tuple, list)) else (value,) * rank
    found = tuple(checked_integer_argument("", n, what) for n in items)
    if len(found) == 1:
        found *= rank
    if len(found) != rank or any(n < least for n in found):
        must = f"a number of at least {least}, or {rank} of them"
        raise ArgumentError(f"{what} must be {must}, got {shown_argument(value)}")
    return found
