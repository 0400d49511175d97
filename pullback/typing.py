"""Types for annotations: what functions of tensors take and return.

>>> import pullback as pb
>>> def scale(x: pb.typing.ArrayLike, by: float = 2.0) -> pb.Tensor:
...     return pb.multiply(x, by)

`pullback.lazy`, which this module needs, imports it under `TYPE_CHECKING` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy as np

from pullback.graph.dtypes import DType
from pullback.lazy.tensor import Tensor


class ArraySequence(Protocol):
    """A list, tuple or other sequence of arrays or numbers. A str is none: its `__contains__`
    takes only strings."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> ArrayLike: ...
    def __iter__(self) -> Iterator[ArrayLike]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def count(self, value: Any, /) -> int: ...


class SupportsArray(Protocol):
    """An array of another library that NumPy can read."""

    def __array__(self) -> np.ndarray[Any, Any]: ...


class SupportsDLPack(Protocol):
    """An array of another library that exports its data through DLPack."""

    def __dlpack__(self) -> object: ...


Number: TypeAlias = int | float | complex | np.number[Any] | np.bool_
"""A scalar without a dtype of its own: it takes that of the tensors it is combined with."""

ArrayLike: TypeAlias = Tensor | Number | SupportsArray | SupportsDLPack | ArraySequence
"""Anything that `pb.asarray` turns into a tensor."""

Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""The size of each dimension; an int is the shape of a vector."""

Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis, several, or `None` for all of them; negative ones count from the end."""

DTypeLike: TypeAlias = DType | str | np.dtype[Any] | type[bool | int | float | complex | np.generic]
"""A dtype, its name, a NumPy dtype or a Python number type."""

IndexItem: TypeAlias = SupportsIndex | slice | EllipsisType | Tensor | SupportsArray | ArraySequence
Index: TypeAlias = IndexItem | tuple[IndexItem | None, ...] | None
"""What may stand in the brackets of `x[...]`."""

Tree: TypeAlias = Any
"""A tensor, or containers of tensors nested to any depth. Classes of the user's can be containers
too, so this is any type; it tells a reader what is meant."""

__all__ = [
    "ArrayLike", "ArraySequence", "Axis", "DTypeLike", "Index", "IndexItem", "Number",
    "Shape", "SupportsArray", "SupportsDLPack", "Tree",
]  # fmt: skip
