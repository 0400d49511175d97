"""Probes: the cheapest questions that tell whether what a function names is still the same.

A probe fetches an object from one place. While it is the very same object everywhere, nothing has
changed. When it is not, it may still be equal: then everything is looked at again (see `guards`).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from operator import attrgetter, is_, itemgetter
from typing import Any

EMPTY: Any = object()  # in place of a value that is not there
_PLAINLY = object.__getattribute__  # how attributes are looked up, unless a class says otherwise


class Probes:
    """All probes of one function: they are asked at every call."""

    __slots__ = ("_bases", "_cells", "_functions", "_names", "_others", "_sizes")

    def __init__(self) -> None:
        self._functions: list[tuple] = []  # function, its code and its defaults
        self._cells: list[tuple] = []  # cell and contents
        self._names: list[tuple] = []  # how to look a name up, the name, the value
        self._bases: list[tuple] = []  # class, and the classes that it inherits from
        self._sizes: list[tuple] = []  # container and number of entries
        self._others: list[tuple] = []  # how to fetch, from where, and what is expected

    def same(self) -> bool:
        """Whether every place holds what it held when the probe was made."""
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
            for cls, bases in self._bases:
                if cls.__mro__ is not bases:
                    return False
            for items, count in self._sizes:
                if len(items) != count:
                    return False
            for get, name, value in self._names:
                if get(name, EMPTY) is not value:
                    return False
            for fetch, place, expected in self._others:
                now = fetch(place)
                if len(now) != len(expected) or not all(map(is_, now, expected)):
                    return False
        except (AttributeError, LookupError, ValueError):
            return False  # a name is gone, a cell is empty, an object is dead
        return True

    # -- places ---------------------------------------------------------------------------------

    def function(self, f: Any) -> None:
        self._functions.append((f, f.__code__, f.__defaults__, f.__kwdefaults__))
        self.size(f.__dict__)

    def cell(self, cell: Any) -> None:
        value = content(cell)
        if value is EMPTY:
            self._add(lambda c: (content(c),), cell)
        else:
            self._cells.append((cell, value))

    def mapping(self, mapping: Any, names: Iterable[str]) -> None:
        """Names in a namespace; one that is not there must not come."""
        get = mapping.get
        self._names += [(get, name, get(name, EMPTY)) for name in names]

    def size(self, items: Any) -> None:
        """How many entries there are: a name that is not there may come."""
        self._sizes.append((items, len(items)))

    def instance(
        self, x: Any, there: Iterable[str], slots: Iterable[str], absent: Any, whole: bool
    ) -> None:
        """The class of an object, and attributes that are its own (with `whole`, all that there
        are); it is not kept alive."""
        place: Any = _weak(x)
        names = tuple(there)
        if (own := own_attributes(x)) is not None:
            fetch = _getter(itemgetter, names) if names else _nothing
            count = len(own) if whole else -1
            self._add(_instance, (place, fetch, frozenset(absent), count))
        else:
            self._add(lambda ref: (type(ref()),), place)
        read = tuple(slots)
        if read:
            self._add(_slots, (place, read))

    def bases(self, cls: type) -> None:
        self._bases.append((cls, cls.__mro__))

    def context(self, variable: Any) -> None:
        """What a context variable stands for here."""
        self._add(lambda v: (v.get(EMPTY),), variable)

    def attributes(self, x: Any, names: Iterable[str]) -> None:
        """Attributes that are the same object each time they are asked for, as of a class."""
        asked = tuple(names)
        if asked:
            self._add(_getter(attrgetter, asked), x)

    def entries(self, items: Any) -> None:
        """What is in a list, a set, a dict."""
        self._add(entries, items)

    def _add(self, fetch: Callable, place: Any) -> None:
        self._others.append((fetch, place, tuple(fetch(place))))


# -- fetching -------------------------------------------------------------------------------------


def content(cell: Any) -> Any:
    """The value of a closure variable."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def entries(items: Any) -> tuple:
    """What is in a container."""
    return (*items, *items.values()) if isinstance(items, dict) else tuple(items)


def _getter(make: Callable, names: tuple[str, ...]) -> Callable:
    return make(*names) if len(names) > 1 else make(*names, *names)  # so that it gives a tuple


def own_attributes(x: Any) -> Any:
    """The attributes that an object has itself, whatever its class makes of `x.name`; or None."""
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return x.__dict__ if isinstance(x, threading.local) else None


def _instance(place: Any) -> tuple:
    ref, fetch, absent, count = place
    x = ref()
    own = x.__dict__ if type(x).__getattribute__ is _PLAINLY else own_attributes(x)
    as_many = count < 0 or len(own) == count
    return (type(x), as_many and own.keys().isdisjoint(absent), *fetch(own))


def _slots(place: Any) -> tuple:
    ref, names = place
    x = ref()
    return tuple([getattr(x, name, EMPTY) for name in names])


def _nothing(own: Any) -> tuple:
    return ()


def _weak(x: Any) -> Callable[[], Any]:
    """A function that gives the object, or None once it is gone."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


class Ref:
    """An object, compared by identity, and not kept alive where that is possible."""

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
