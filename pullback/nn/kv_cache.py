"""The keys and values of earlier positions, for generating one position after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pullback import tree
from pullback.errors import ArgumentError, ShapeError
from pullback.functions import arange, dynamic_update_slice, take, zeros
from pullback.graph.boundary import boundary_methods
from pullback.lazy.host_data import asarray
from pullback.lazy.tensor import Tensor


@boundary_methods
@dataclass(frozen=True)
class KVCache:
    """Keys and values [..., heads, size, depth], of which the first `length` are there.

    It is a tree of fixed shapes: a compiled step takes one and returns the next. Appending beyond
    its size is an error, at the latest when a result is read.

    >>> cache = pb.nn.KVCache.empty((1, 2, 8, 4))
    >>> cache = cache.append(pb.ones((1, 2, 3, 4)), pb.ones((1, 2, 3, 4)))
    >>> cache.length.item(), cache.size
    (3, 8)
    """

    keys: Tensor
    values: Tensor
    length: Tensor

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any = "float32") -> KVCache:
        """Return a cache without positions; `shape` is [..., heads, size, depth].

        >>> pb.nn.KVCache.empty((2, 8, 4)).length.item()
        0
        """
        if len(shape) < 3:
            raise ShapeError(f"KVCache: the shape must be [..., heads, size, depth], got {shape}")
        return cls(zeros(shape, dtype=dtype), zeros(shape, dtype=dtype), asarray(0, "int32"))

    @property
    def size(self) -> int:
        """How many positions there is space for."""
        return self.keys.shape[-2]

    def append(self, keys: Tensor, values: Tensor) -> KVCache:
        """Return the cache with the keys and values of the next positions.

        >>> cache = pb.nn.KVCache.empty((1, 4, 2))
        >>> cache.append(pb.ones((1, 1, 2)), pb.ones((1, 1, 2))).keys.sum().item()
        2.0
        """
        new = keys.shape[-2]
        if new > self.size:
            raise ArgumentError(f"KVCache: {new} positions do not fit into a cache of {self.size}")
        # `take` checks the end, and the position depends on it
        end = take(arange(self.size + 1, dtype="int32"), self.length + new)
        place: list[Any] = [0] * (keys.ndim - 2) + [end - new, 0]
        return KVCache(
            dynamic_update_slice(self.keys, keys, place),
            dynamic_update_slice(self.values, values, place),
            end,
        )


tree.register(KVCache)
