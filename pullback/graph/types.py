"""What is known about a value before it is computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from pullback.graph.dtypes import DType
from pullback.graph.interned import Interned


class Type(metaclass=Interned):
    """Shape and element type of a value, with its sharding and the named axes it varies over.

    The axes are in alphabetical order. Types are interned: two equal types are the same object.
    """

    equal_is_same = True

    def __init__(
        self, shape: Iterable[int], dtype: DType, sharding: Any = None, varying: tuple = ()
    ) -> None:
        self.shape: tuple[int, ...] = tuple(map(int, shape))
        self.dtype = dtype
        self.sharding = sharding
        self.varying = varying
        self.inexact = dtype.is_inexact  # whether it can carry a derivative

    def parameters(self) -> tuple:
        return (self.shape, self.dtype, self.sharding, self.varying)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """What a value of this type takes in memory."""
        return self.size * self.dtype.numpy.itemsize

    def with_shape(self, shape: Iterable[int]) -> Type:
        return Type(tuple(shape), self.dtype, None, self.varying)

    def with_dtype(self, dtype: DType) -> Type:
        return Type(self.shape, dtype, self.sharding, self.varying)

    @property
    def plain(self) -> Type:
        """Shape and element type alone, as type rules see it."""
        return self if self.sharding is None and not self.varying else self._stripped

    @cached_property
    def _stripped(self) -> Type:
        return Type(self.shape, self.dtype)

    def sharded(self, sharding: Any) -> Type:
        made = Type(self.shape, self.dtype, sharding, self.varying)
        made._stripped = self.plain  # it is known here, and asked for next
        return made

    def over(self, axes: tuple[str, ...]) -> Type:
        """The type of a value that varies along the named axes."""
        return Type(self.shape, self.dtype, self.sharding, axes)

    def __reduce__(self) -> tuple:
        return Type, self.parameters()

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def show(types: Any) -> str:
    """Types as a reader sees them in a message: `f32[4,3], f32[3]`."""
    return ", ".join(map(repr, types)) if isinstance(types, (tuple, list)) else repr(types)
