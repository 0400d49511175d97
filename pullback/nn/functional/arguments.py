"""Arguments that the functions share: layouts, sizes, reductions of losses, class indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pullback import functions as pf
from pullback.errors import ArgumentError, DTypeError, IndexOutOfRange, ShapeError
from pullback.functions.arguments import float_arguments, float_node, integer, literal
from pullback.graph.arguments import shown
from pullback.graph.dtypes import DType, float32, int64
from pullback.lazy.index_plan import known_index
from pullback.lazy.operators import as_tensor, node_of
from pullback.lazy.record import record
from pullback.lazy.tensor import Tensor, wrap
from pullback.ops.index.checked_index import CheckedIndex
from pullback.typing import ArrayLike, Shape

Layout = Literal["NHWC", "NCHW", "NWC", "NCW", "NDHWC", "NCDHW"]
Reduction = Literal["none", "mean", "sum"]

_LAST = ("NHWC", "NWC", "NLC", "NDHWC", "NC")
_FIRST = ("NCHW", "NCW", "NCL", "NCDHW")


def is_channels_first(layout: str) -> bool:
    """Whether channels are dimension 1 ("NCHW" and the like) instead of the last ("NHWC")."""
    if layout in _FIRST:
        return True
    if layout in _LAST:
        return False
    message = f'layout must be "NHWC" (channels last) or "NCHW" (channels first), got {layout!r}'
    raise ArgumentError(message)


def channel_axis(x: Tensor, layout: str) -> int:
    """The dimension of channels, from the front."""
    first = is_channels_first(layout)
    if x.ndim < 2:
        raise ShapeError(f"needs [N, ...] with channels, got {x._node.type}")
    return 1 if first else x.ndim - 1


def float_tensor(x: ArrayLike) -> Tensor:
    """A tensor of floats; integers become the default float dtype."""
    return wrap(float_node(x))


def widened(x: Tensor) -> Tensor:
    """16-bit floats as f32, in which statistics and sums are computed."""
    return x.astype(float32) if x.dtype.bits == 16 else x


def narrowed(x: Tensor, dtype: DType) -> Tensor:
    """A result in the dtype of the function's argument."""
    return x if x.dtype is dtype else x.astype(dtype)


def images_channels_last(x: ArrayLike, rank: int, layout: str) -> tuple[Tensor, bool]:
    """Images [N, spatial..., C], and whether the given ones lacked the dimension N."""
    first = is_channels_first(layout)
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
    if is_channels_first(layout):
        x = pf.moveaxis(x, -1, 1)
    return pf.squeeze(x, 0) if single else x


def spatial_numbers(value: Shape, rank: int, what: str, least: int = 0) -> tuple[int, ...]:
    """One int for each spatial dimension, from an int for all of them or a sequence."""
    items: Any = value if isinstance(value, (tuple, list)) else (value,) * rank
    found = tuple(integer("", n, what) for n in items)
    if len(found) == 1:
        found *= rank
    if len(found) != rank or any(n < least for n in found):
        must = f"a number of at least {least}, or {rank} of them"
        raise ArgumentError(f"{what} must be {must}, got {shown(value)}")
    return found


def one_of(value: object, choices: Sequence[str], what: str) -> Any:
    """A word that must be one of several."""
    if value not in choices:
        words = ", ".join(f'"{c}"' for c in choices)
        raise ArgumentError(f"{what} must be one of {words}, got {shown(value)}")
    return value


def reduced(x: Tensor, reduction: str) -> Tensor:
    """The mean or sum of a loss, or all of its elements."""
    one_of(reduction, ("none", "mean", "sum"), "reduction")
    if reduction == "none":
        return x
    return pf.mean(x) if reduction == "mean" else pf.sum(x)


def class_indices(
    given: ArrayLike, count: int, what: str = "a class index", ignored: int | None = None
) -> tuple[Tensor, Tensor | None]:
    """Indices (i64) from 0 to `count` - 1, and a mask of those that equal `ignored`, which are
    replaced by 0. Known indices are checked at once, others when the program runs."""
    x = as_tensor(given)
    if not x.dtype.is_integer:
        if x.size:
            raise DTypeError(f"{what} must be an integer, got {x._node.type}")
        x = x.astype(int64)
    values = known_index(given)
    if values is not None:
        wrong = (values < 0) | (values >= count)
        wrong = values[wrong if ignored is None else wrong & (values != ignored)]
        if wrong.size:
            message = f"{what} must be at least 0 and less than {count}, got {wrong.flat[0]}"
            raise IndexOutOfRange(message, index=int(wrong.flat[0]), extent=count)
    x = x if x.dtype is int64 else x.astype(int64)
    skipped = None
    if ignored is not None:
        skipped = x == ignored
        x = pf.where(skipped, literal(0, int64), x)
    return record(CheckedIndex(count), (node_of(x),)), skipped


def same_shapes(x: ArrayLike, *others: ArrayLike) -> list[Tensor]:
    """Floats of one shape and dtype. Shapes are not broadcast: a loss of [N, 1] with [N] would
    silently be one of [N, N]."""
    made = [wrap(n) for n in float_arguments(x, *others)]
    if any(t.shape != made[0].shape for t in made):
        given = ", ".join(str(t._node.type) for t in made)
        hint = "Give them the same shape with reshape or pb.broadcast_to."
        raise ShapeError(f"the arguments must have the same shape, got {given}", hint=hint)
    return made


def real_like(v: ArrayLike, x: Tensor, what: str) -> Tensor:
    """Real numbers in the dtype of x."""
    found = float_tensor(v)
    if found.dtype.is_complex and not x.dtype.is_complex:
        raise DTypeError(f"{what} must be real, got {found._node.type}")
    return found.astype(x.dtype)


def weighted(loss: Tensor, weight: ArrayLike | None) -> Tensor:
    """A loss times a weight that broadcasts with it."""
    if weight is None:
        return loss
    made = loss * real_like(weight, loss, "weight")
    if made.shape != loss.shape:
        raise ShapeError(f"weight must broadcast to {list(loss.shape)}, got {list(made.shape)}")
    return made
