"""Types: what is known about a value before it is computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pullback.errors import ArgumentError
from pullback.graph.argument_checks import shown_argument
from pullback.graph.dtypes import DType
from pullback.graph.dtypes import dtype as dtype_of
from pullback.graph.interned import Interned

if TYPE_CHECKING:
    from pullback.sharding.spec import Sharding


class Type(metaclass=Interned):
    """The shape and dtype of a value, its sharding, and the named axes along which it varies.

    The axes are sorted. Types are interned: equal types are the same object.
    """

    equal_is_same = True

    def __init__(
        self, shape: Iterable[int], dtype: DType, sharding: Sharding | None = None,
        varying: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        try:  # the verifier of modules reports negative sizes
            self.shape: tuple[int, ...] = tuple(map(operator.index, shape))
        except TypeError:
            what = f"shape must consist of integers, got {shown_argument(shape)}"
            raise ArgumentError(what, op="Type") from None
        self.dtype = dtype = dtype_of(dtype)
        self.sharding: Any = sharding  # `Sharding | None`, but code for a mesh knows that it is set
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
        """The size of a value of this type in memory."""
        return self.size * self.dtype.numpy.itemsize

    def with_shape(self, shape: Iterable[int]) -> Type:
        return Type(tuple(shape), self.dtype, None, self.varying)

    def with_dtype(self, dtype: DType) -> Type:
        return Type(self.shape, dtype, self.sharding, self.varying)

    @property
    def plain(self) -> Type:
        """The shape and dtype alone, which type rules see."""
        return self if self.sharding is None and not self.varying else self._stripped

    @cached_property
    def _stripped(self) -> Type:
        return Type(self.shape, self.dtype)

    def sharded(self, sharding: Sharding | None) -> Type:
        made = Type(self.shape, self.dtype, sharding, self.varying)
        made._stripped = self.plain  # it is needed next
        return made

    def over(self, axes: tuple[str, ...]) -> Type:
        """Return the type of a value that varies along the named axes."""
        return Type(self.shape, self.dtype, self.sharding, axes)

    def __reduce__(self) -> tuple:
        return Type, self.parameters()

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def show_types_apart(a: Any, b: Any) -> tuple[str, str]:
    """Return two types, or other values, as messages show them if they differ.

    Layouts and named axes are shown if shapes and dtypes agree.
    """
    if not (isinstance(a, Type) and isinstance(b, Type) and repr(a) == repr(b)):
        return str(a), str(b)
    return _type_shown_in_full(a), _type_shown_in_full(b)


def _type_shown_in_full(type: Type) -> str:
    layout = type.sharding
    where = "" if layout is None else f" with {layout.spec} on {layout.mesh}"
    return f"{type}{where}" + (f" along {', '.join(type.varying)}" if type.varying else "")


def show_types(types: Type | Sequence[Type]) -> str:
    """Return types as messages show them: `f32[4,3], f32[3]`."""
    return ", ".join(map(repr, types)) if isinstance(types, (tuple, list)) else repr(types)
