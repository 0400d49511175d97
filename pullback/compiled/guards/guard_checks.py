"""Checks: the cheapest tests of whether everything that a function refers to is still the same.

A check fetches an object from one place. While every place holds the identical object, nothing has
changed. Otherwise the objects may still be equal: then `walk_guards` compares them in a new walk.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from operator import is_, itemgetter
from typing import Any

ABSENT: Any = object()  # stands for a value that is not there
_DEFAULT_LOOKUP = object.__getattribute__


class GuardChecks:
    """All checks of one function, which run at every call."""

    __slots__ = ("_each", "_equal", "_names", "_same")

    def __init__(self) -> None:
        self._names: list[tuple] = []  # lookup function, name and value
        # function, argument and result: which is the same, equal, or a tuple of the same objects
        self._same: list[tuple] = []
        self._equal: list[tuple] = []
        self._each: list[tuple] = []

    def hold(self) -> bool:
        """Whether every place holds what it held when its check was added."""
        try:
            for get, name, value in self._names:
                if get(name, ABSENT) is not value:
                    return False
            for fetch, x, value in self._same:
                if fetch(x) is not value:
                    return False
            for fetch, x, value in self._equal:
                if fetch(x) != value:
                    return False
            for fetch, x, expected in self._each:
                if not _guard_check_all_same(fetch, x, expected):
                    return False
        except (AttributeError, LookupError, ValueError):
            return False  # a name is gone, a cell is empty, an object is dead
        return True

    def __len__(self) -> int:
        return len(self._names) + len(self._same) + len(self._equal) + len(self._each)

    def single(self) -> Iterator[tuple[Callable, tuple, str, Any]]:
        """Return for each check a function, its arguments, an operator and the other operand."""
        yield from [(get, (name, ABSENT), "is", value) for get, name, value in self._names]
        yield from [(fetch, (x,), "is", value) for fetch, x, value in self._same]
        yield from [(fetch, (x,), "==", value) for fetch, x, value in self._equal]
        yield from [(_guard_check_all_same, check, "is", True) for check in self._each]

    def names(self, get: Callable[[str, Any], Any], names: Iterable[str]) -> None:
        """Check names in a mapping; one that is absent must stay absent."""
        self._names += [(get, name, get(name, ABSENT)) for name in names]

    def same(self, fetch: Callable[[Any], Any], x: Any) -> None:
        """Check that `fetch(x)` returns the same object."""
        self._same.append((fetch, x, fetch(x)))

    def equal(self, fetch: Callable[[Any], Any], x: Any) -> None:
        """Check that `fetch(x)` returns an equal value."""
        self._equal.append((fetch, x, fetch(x)))

    def each(self, fetch: Callable[[Any], tuple], x: Any) -> None:
        """Check that `fetch(x)` returns a tuple of the same objects."""
        self._each.append((fetch, x, fetch(x)))

    def attributes(self, x: Any, read: Iterable[str], slots: Iterable[str], whole: bool) -> None:
        """Check the class and attributes of an object, held weakly; if `whole`, no new ones."""
        own, slots = guard_checked_dict(x), tuple([name for name in slots if name in read])
        if own is None:
            self.same(lambda get: type(get()), guard_checked_weakly(x))
        else:
            names = [name for name in read if name in own]
            absent = frozenset(read).difference(names, slots)
            get = itemgetter(*names, *names[: len(names) == 1]) if names else lambda own: ()
            self.each(
                _guard_checked_attributes,
                (guard_checked_weakly(x), get, absent, len(own) if whole else -1),
            )
        if slots:
            self.each(_guard_checked_slots, (guard_checked_weakly(x), slots))


def _guard_check_all_same(fetch: Callable[[Any], tuple], x: Any, expected: tuple) -> bool:
    now = fetch(x)
    return len(now) == len(expected) and all(map(is_, now, expected))


def guard_checked_cell(cell: Any) -> Any:
    """The value of a closure variable."""
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def guard_checked_entries(items: Any) -> tuple:
    """The contents of a container."""
    return (*items, *items.values()) if isinstance(items, dict) else tuple(items)


def guard_checked_dict(x: Any) -> Any:
    """The `__dict__` of an object, whatever its class makes of `x.__dict__`; or None."""
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return x.__dict__ if isinstance(x, threading.local) else None


def _guard_checked_attributes(place: Any) -> tuple:
    ref, get, absent, count = place
    x = ref()
    own = x.__dict__ if type(x).__getattribute__ is _DEFAULT_LOOKUP else guard_checked_dict(x)
    complete = count < 0 or len(own) == count
    return (type(x), complete and own.keys().isdisjoint(absent), *get(own))


def _guard_checked_slots(place: Any) -> tuple:
    ref, names = place
    x = ref()
    return tuple([getattr(x, name, ABSENT) for name in names])


def guard_checked_weakly(x: Any) -> Callable[[], Any]:
    """A function that returns the object, or None once it is gone."""
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


class GuardCheckRef:
    """An object compared by identity, and not kept alive where that is possible."""

    __slots__ = ("_get", "_hash")

    def __init__(self, x: Any) -> None:
        self._get, self._hash = guard_checked_weakly(x), id(x)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        mine = self._get()
        return isinstance(other, GuardCheckRef) and mine is not None and mine is other._get()

    def __call__(self) -> Any:
        return self._get()
