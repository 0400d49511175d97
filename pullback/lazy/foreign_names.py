"""Names of other libraries that tensors do not have: reading one raises an error that says what to
write. `Tensor.__getattr__` would answer all names, but slows down every attribute of a tensor.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from pullback.graph.boundary import unknown_name
from pullback.suggestions.tensor_names import FOUND_ELSEWHERE, TENSOR_NAMES


class ForeignName:
    """An attribute that does not exist: `hasattr` is False."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise unknown_name("Tensor", self.name)


class ForeignNames:
    """The last base class of Tensor, so that names that it has come first."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return tensor_attributes(type(self))


def add_foreign_names(names: Iterable[str]) -> None:
    """Let tensors answer names, and those of the tables."""
    for name in dict.fromkeys((*TENSOR_NAMES, *FOUND_ELSEWHERE, *names)):
        setattr(ForeignNames, name, ForeignName(name))


def tensor_attributes(cls: Any) -> list[str]:
    """The attributes that a subclass of `ForeignNames` has."""
    return [name for name in dir(cls) if hasattr(cls, name)]
