"""Names of other libraries that tensors do not have: reading one raises an error that says what to
write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NoReturn

from pullback.errors import UnknownName
from pullback.graph.boundary import leave_boundary, unknown_name_at_boundary
from pullback.suggestions.object_names import OBJECT_NAMES
from pullback.suggestions.tensor_names import FOUND_ELSEWHERE, TENSOR_NAMES


class ForeignName:
    """An attribute that does not exist: `hasattr` is False."""

    __slots__ = ("name", "owner")

    def __init__(self, name: str, owner: str = "Tensor") -> None:
        self.name, self.owner = name, owner

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        try:
            raise unknown_name_at_boundary(self.owner, self.name)
        except UnknownName as error:
            leave_boundary(error)
            raise


class InheritedForeignName(ForeignName):
    """An attribute that does not exist, in a class that others derive from."""

    __slots__ = ()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        for base in (owner or type(instance)).__mro__:
            found = vars(base).get(self.name, self)
            if not isinstance(found, ForeignName):  # another base class has it
                return found.__get__(instance, owner) if hasattr(found, "__get__") else found
        return super().__get__(instance, owner)


class ForeignNamesHider(type):
    """Metaclass of Tensor: `dir` and `help` leave out the names that do not exist."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if hasattr(cls, name)]


class ForeignNames(metaclass=ForeignNamesHider):
    """The last base class of Tensor, so that names that it has come first."""

    __slots__ = ()

    if sys.version_info >= (3, 12):  # in 3.11, it slows down every attribute of a tensor

        def __getattr__(self, name: str) -> NoReturn:
            raise unknown_name_at_boundary("Tensor", name)

    def __dir__(self) -> list[str]:
        return dir(type(self))


def add_foreign_members(cls: type, owner: str) -> None:
    """Let the objects of a class answer the names of its table."""
    for name in OBJECT_NAMES[owner]:
        setattr(cls, name, InheritedForeignName(name, owner))
    cls.__dir__ = _without_foreign_names  # type: ignore[method-assign, assignment]


def _without_foreign_names(x: object) -> list[str]:
    foreign = {
        name
        for base in type(x).__mro__
        for name, value in vars(base).items()
        if isinstance(value, InheritedForeignName)
    }
    return [n for n in object.__dir__(x) if n not in foreign or hasattr(x, n)]


def add_foreign_names(names: Iterable[str]) -> None:
    """Let tensors answer names, and those of the tables."""
    for name in dict.fromkeys((*TENSOR_NAMES, *FOUND_ELSEWHERE, *names)):
        setattr(ForeignNames, name, ForeignName(name))
