"""Bits packed into bytes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pullback.errors import ArgumentError, DTypeError
from pullback.functions import reductions
from pullback.functions.arguments import Tensor, as_tensor, axis_argument, axis_slice_argument
from pullback.functions.composed import composed
from pullback.functions.data_types import astype
from pullback.functions.padding import pad
from pullback.functions.shape import flatten, moveaxis, reshaped_to
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import uint8
from pullback.typing import ArrayLike

Order = Literal["big", "little"]


@composed
def packbits(x: ArrayLike, axis: int | None = None, bitorder: Order = "big") -> Tensor:
    """Pack bools, or whether integers are nonzero, into bytes: eight along an axis become one,
    zeros fill the last. Without an axis the tensor is flattened.

    >>> pb.packbits([1, 0, 0, 0, 0, 0, 0, 1, 1]).tolist()
    [129, 128]
    """
    x, axis = _packed_bits_along("packbits", x, axis)
    if x.dtype.is_inexact:
        raise DTypeError(f"needs bools or integers, got {x._node.type}", op="packbits")
    bits = moveaxis(astype(x != 0, uint8), axis, -1)
    n = bits.shape[-1]
    bits = pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, -n % 8)])
    bits = reshaped_to(bits, (*bits.shape[:-1], bits.shape[-1] // 8, 8))
    return moveaxis(
        reductions.sum(bits * _packed_bit_values(bitorder), axis=-1, dtype=uint8), -1, axis
    )


@composed
def unpackbits(
    x: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: Order = "big"
) -> Tensor:
    """Unpack the bits of bytes along an axis as zeros and ones; without an axis the tensor is
    flattened. `count` bits are returned, or without the last ones if it is negative.

    >>> pb.unpackbits(pb.tensor([5], dtype="uint8")).tolist()
    [0, 0, 0, 0, 0, 1, 0, 1]
    """
    x, axis = _packed_bits_along("unpackbits", x, axis)
    if x.dtype is not uint8:
        raise DTypeError(f"needs uint8, got {x._node.type}", op="unpackbits")
    bits = astype((moveaxis(x, axis, -1)[..., None] & _packed_bit_values(bitorder)) != 0, uint8)
    made = moveaxis(reshaped_to(bits, (*bits.shape[:-2], bits.shape[-2] * 8)), -1, axis)
    if count is None:
        return made
    n = made.shape[axis]
    if count > n:
        widths = [(0, 0)] * made.ndim
        widths[axis] = (0, count - n)
        return pad(made, widths)
    return made[axis_slice_argument(axis, slice(count))]


def _packed_bits_along(op: str, x: ArrayLike, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(x)
    return (flatten(x), 0) if axis is None else (x, axis_argument(op, axis, x.ndim))


def _packed_bit_values(bitorder: str) -> Tensor:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f'bitorder must be "big" or "little", got {shown_argument(bitorder)}')
    values = 2 ** np.arange(8)
    return as_tensor((values[::-1] if bitorder == "big" else values).astype(np.uint8))


__all__ = ["packbits", "unpackbits"]
