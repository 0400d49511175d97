"""Names of other libraries that tensors do not have: reading one raises an error that says what to
write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import NoReturn

from pullback.errors import UnknownName
from pullback.graph.boundary import leave, unknown_name
from pullback.suggestions.tensor_names import FOUND_ELSEWHERE, TENSOR_NAMES


class ForeignName:
    """An attribute that does not exist: `hasattr` is False."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        try:
            raise unknown_name("Tensor", self.name)
        except UnknownName as error:
            leave(error)
            raise


class ExistingNames(type):
    """Metaclass of Tensor: `dir` and `help` leave out the names that do not exist."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if hasattr(cls, name)]


class ForeignNames(metaclass=ExistingNames):
    """The last base class of Tensor, so that names that it has come first."""

    __slots__ = ()

    if sys.version_info >= (3, 12):  # in 3.11, it slows down every attribute of a tensor

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name("Tensor", name)

    def __dir__(self) -> list[str]:
        return dir(type(self))


def add_foreign_names(names: Iterable[str]) -> None:
    """Let tensors answer names, and those of the tables."""
    for name in dict.fromkeys((*TENSOR_NAMES, *FOUND_ELSEWHERE, *names)):
        setattr(ForeignNames, name, ForeignName(name))
