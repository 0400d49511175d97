"""Weights in 4 bits: the NormalFloat format of QLoRA (Dettmers et al., 2023).

A weight matrix is cut into blocks of equal size. Each is divided by its largest magnitude, and each
quotient is replaced by the nearest of 16 values, which divide the normal distribution into parts of
about equal probability. Two values share a byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from pullback import tree
from pullback.errors import ArgumentError, DTypeError
from pullback.functions import abs as magnitude
from pullback.functions import expand_dims, pad, reshape, searchsorted, stack, take, where, zeros
from pullback.functions import max as largest
from pullback.graph.argument_checks import checked_integer_argument
from pullback.graph.boundary import boundary_methods
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor
from pullback.nn import functional
from pullback.nn.linear import Linear
from pullback.nn.module import Module
from pullback.typing import ArrayLike

_TAIL = 0.9677083  # the outermost quantile, halfway between those of 15 and of 16 equal parts


@cache
def nf4_values() -> np.ndarray[Any, Any]:
    """Return the 16 values of the format in ascending order: -1, seven below 0, 0, and so on.

    >>> from pullback.nn.nf4 import nf4_values
    >>> nf4_values().round(3).tolist()[:3]
    [-1.0, -0.696, -0.525]
    """
    normal = NormalDist()
    above = [normal.inv_cdf(q) for q in np.linspace(_TAIL, 0.5, 9)[:-1]]
    below = [-normal.inv_cdf(q) for q in np.linspace(_TAIL, 0.5, 8)[:-1]]
    values = np.sort(np.array([*below, 0.0, *above]))
    return values / values.max()


@boundary_methods
@dataclass(frozen=True)
class NF4Tensor:
    """A tensor in 4 bits for each element, with a scale for each block.

    >>> x = pb.random.normal(pb.random.key(0), (64, 64))
    >>> packed = pb.nn.NF4Tensor.quantize(x)
    >>> packed.codes.size, packed.scales.size
    (2048, 64)
    >>> float(abs(packed.dequantize() - x).mean()) < 0.08
    True
    """

    codes: Tensor  # u8, two elements in each
    scales: Tensor  # one for each block
    shape: tuple[int, ...] = field(metadata={"static": True})
    block: int = field(default=64, metadata={"static": True})

    @classmethod
    def quantize(cls, x: ArrayLike, block: int = 64) -> NF4Tensor:
        """Return a tensor of floats in 4 bits; the last block is filled with zeros.

        >>> pb.nn.NF4Tensor.quantize([1.0, 0.0, -2.0], block=4).dequantize().tolist()
        [0.8814..., 0.0, -2.0]
        """
        given, size = asarray(x), checked_integer_argument("NF4Tensor", block, "block")
        if not given.dtype.is_float:
            raise DTypeError(f"NF4Tensor: needs floats, got {given._node.type}")
        if size < 2 or size % 2:
            raise ArgumentError(f"NF4Tensor: block must be even and positive, got {size}")
        wide = given.astype("float32") if given.dtype.bits < 32 else given
        rows = reshape(pad(wide.ravel(), (0, -given.size % size)), (-1, size))
        scales = largest(magnitude(rows), axis=1, initial=0.0)
        unit = rows / expand_dims(where(scales == 0, 1.0, scales), 1)
        halfway = (nf4_values()[1:] + nf4_values()[:-1]) / 2
        codes = reshape(searchsorted(asarray(halfway, unit.dtype), unit), (-1, 2))
        packed = (codes[:, 0] * 16 + codes[:, 1]).astype("uint8")
        return cls(packed, scales.astype(given.dtype), given.shape, size)

    def dequantize(self, dtype: Any = None) -> Tensor:
        """Return the floats that the codes stand for.

        >>> pb.nn.NF4Tensor.quantize([1.0, 0.0], block=2).dequantize("float64").dtype
        f64
        """
        wanted = self.scales.dtype if dtype is None else dtype
        codes = stack([self.codes >> 4, self.codes & 15], axis=1)
        units = take(asarray(nf4_values(), wanted), codes.astype("int32"))
        whole = reshape(units, (-1, self.block)) * expand_dims(self.scales.astype(wanted), 1)
        count = int(np.prod(self.shape, dtype=np.int64))
        return reshape(whole.ravel()[:count], self.shape)


tree.register(NF4Tensor)


class NF4Linear(Module):
    """A linear layer whose weight is in 4 bits and is not trained.

    >>> layer = pb.nn.NF4Linear(pb.nn.Linear(64, 32))
    >>> layer(pb.ones((5, 64))).shape
    (5, 32)
    """

    codes: Tensor
    scales: Tensor
    bias: Tensor | None

    def __init__(self, linear: Linear, block: int = 64) -> None:
        self.in_features, self.out_features = linear.in_features, linear.out_features
        packed = NF4Tensor.quantize(linear.weight, block)
        self.register_buffer("codes", packed.codes)
        self.register_buffer("scales", packed.scales)
        self.block, self.bias = block, None
        if linear.bias is not None:
            self.bias = zeros(linear.bias.shape, dtype=linear.bias.dtype) + linear.bias
            self.bias.requires_grad = False

    @property
    def weight(self) -> Tensor:
        """The weight that the codes stand for."""
        shape = (self.out_features, self.in_features)
        return NF4Tensor(self.codes, self.scales, shape, self.block).dequantize()

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight.astype(x.dtype), self.bias)
