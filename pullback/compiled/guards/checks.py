"""Checks: the cheapest tests of whether everything that a function refers to is still the same.

A check fetches an object from one place. While every place holds the identical object, nothing has
changed. Otherwise the objects may still be equal: then a new walk compares them (see `walk`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from operator import is_, itemgetter
from typing import Any

ABSENT: Any = object()  # stands for a value that is not there
_DEFAULT_LOOKUP = object.__getattribute__


class GuardChecks:
    """All checks of one function, which run at every call."""

    __slots__ = ("_cells", "_functions", "_names", "_others", "_sizes", "bases")

    def __init__(self) -> None:
        self._functions: list[tuple] = []  # function, its code and its defaults
        self._cells: list[tuple] = []  # closure cell and contents
        self._names: list[tuple] = []  # lookup function, name and value
        self.bases: list[tuple[type, tuple]] = []  # class and its `__mro__`
        self._sizes: list[tuple] = []  # container and number of entries
        self._others: list[tuple] = []  # function, argument and expected tuple

    def same(self) -> bool:
        """Whether every place holds what it held when its check was added."""
        try:
            for f, code, defaults, named in self._functions:
                if (
                    f.__code__ is not code
                    or f.__defaults__ is not defaults
                    or f.__kwdefaults__ is not named
                ):
                    return False
            for cell, value in self._cells:
                if cell.cell_contents is not value:
                    return False
            for cls, bases in self.bases:
                if cls.__mro__ is not bases:
                    return False
            for items, count in self._sizes:
                if len(items) != count:
                    return False
            for get, name, value in self._names:
                if get(name, ABSENT) is not value:
                    return False
            for fetch, place, expected in self._others:
                now = fetch(place)
                if len(now) != len(expected) or not all(map(is_, now, expected)):
                    return False
        except (AttributeError, LookupError, ValueError):
            return False  # a name is gone, a cell is empty, an object is dead
        return True

    def function(self, f: Any) -> None:
        self._functions.append((f, f.__code__, f.__defaults__, f.__kwdefaults__))
        self.size(f.__dict__)

    def cell(self, cell: Any) -> None:
        value = content(cell)
        if value is ABSENT:
            self.fetched(lambda c: (content(c),), cell)
        else:
            self._cells.append((cell, value))

    def names(self, mapping: Any, names: Iterable[str]) -> None:
        """Check names in a mapping; one that is absent must stay absent."""
        get = mapping.get
        self._names += [(get, name, get(name, ABSENT)) for name in names]

    def size(self, items: Any) -> None:
        """Check the number of entries: names may be added."""
        self._sizes.append((items, len(items)))

    def instance(
        self, x: Any, names: tuple[str, ...], slots: tuple[str, ...], absent: Any, whole: bool
    ) -> None:
        """Check the class and attributes of an object, held weakly; if `whole`, no new ones."""
        place: Any = _weak(x)
        own = own_attributes(x)
        if own is None:
            self.fetched(lambda ref: (type(ref()),), place)
        else:
            get = getter(itemgetter, names)
            self.fetched(_instance, (place, get, frozenset(absent), len(own) if whole else -1))
        if slots:
            self.fetched(_slots, (place, slots))

    def fetched(self, fetch: Callable[[Any], tuple], place: Any) -> None:
        """Check that `fetch(place)` returns a tuple of the same objects."""
        self._others.append((fetch, place, tuple(fetch(place))))


def content(cell: Any) -> Any:
    """The value of a closure variable."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def entries(items: Any) -> tuple:
    """The contents of a container."""
    return (*items, *items.values()) if isinstance(items, dict) else tuple(items)


def getter(make: Callable, names: tuple[str, ...]) -> Callable[[Any], tuple]:
    """An `itemgetter` or `attrgetter` that returns a tuple for any number of names."""
    return make(*names, *names[: len(names) == 1]) if names else lambda x: ()


def own_attributes(x: Any) -> Any:
    """The `__dict__` of an object, whatever its class makes of `x.__dict__`; or None."""
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return x.__dict__ if isinstance(x, threading.local) else None


def _instance(place: Any) -> tuple:
    ref, get, absent, count = place
    x = ref()
    own = x.__dict__ if type(x).__getattribute__ is _DEFAULT_LOOKUP else own_attributes(x)
    complete = count < 0 or len(own) == count
    return (type(x), complete and own.keys().isdisjoint(absent), *get(own))


def _slots(place: Any) -> tuple:
    ref, names = place
    x = ref()
    return tuple([getattr(x, name, ABSENT) for name in names])


def _weak(x: Any) -> Callable[[], Any]:
    """A function that returns the object, or None once it is gone."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


class Ref:
    """An object compared by identity, and not kept alive where that is possible."""

    __slots__ = ("_get", "_hash")

    def __init__(self, x: Any) -> None:
        self._get, self._hash = _weak(x), id(x)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        mine = self._get()
        return isinstance(other, Ref) and mine is not None and mine is other._get()

    def __call__(self) -> Any:
        return self._get()
