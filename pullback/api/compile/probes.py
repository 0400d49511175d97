"""Probes: the cheapest questions that tell whether what a function names is still the same.

A probe fetches objects from one place. While it fetches the very same objects, nothing that it
watches has changed. When it does not, they may still be equal: then everything is looked at again
(see `guards`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from operator import attrgetter, is_, itemgetter
from typing import Any, NamedTuple


class Probe(NamedTuple):
    """`fetch(place)` gives the objects to compare, one by one, by identity."""

    fetch: Callable[[Any], Iterable[Any]]
    place: Any
    expected: tuple


def same(probes: Iterable[Probe]) -> bool:
    """Whether every probe fetches what it fetched before."""
    try:
        for fetch, place, expected in probes:
            now = fetch(place)
            if len(now) != len(expected) or not all(map(is_, now, expected)):  # type: ignore
                return False
    except (AttributeError, LookupError, ValueError, ReferenceError):
        return False
    return True


def of_function(f: Any) -> list[Probe]:
    """Its code and defaults."""
    return [_now(_FUNCTION, f)]


def of_cells(cells: list[Any]) -> list[Probe]:
    """Closure variables."""
    if not cells:
        return []
    empty = any(content(c) is EMPTY for c in cells)
    return [_now(_contents if empty else _cells, cells)]


def of_mapping(mapping: Any, present: Iterable[str], absent: Iterable[str]) -> list[Probe]:
    """Names in a namespace: those that are there, and those that must not be."""
    probes = []
    names = tuple(present)
    if names:
        probes.append(_now(_getter(names), mapping))
    gone = frozenset(absent)
    if gone:
        probes.append(Probe(_absent, (mapping, gone), (True,)))
    return probes


def of_instance(x: Any, present: Iterable[str], slots: Iterable[str], absent: Any) -> list[Probe]:
    """The class of an object, and attributes that are its own; it is not kept alive."""
    place: Any = _weak(x)
    names, probes = tuple(present), []
    fetch = _getter(names) if names else _nothing
    if hasattr(x, "__dict__"):
        probes.append(_now(_instance, (place, fetch, frozenset(absent))))
    else:
        probes.append(_now(_class, place))
    read = tuple(slots)
    if read:
        probes.append(_now(_slots, (place, read)))
    return probes


def of_attributes(x: Any, names: Iterable[str]) -> list[Probe]:
    """Attributes that are the same object each time they are asked for, as of a class."""
    asked = tuple(names)
    return [_now(attrgetter(*asked, *asked[:1]), x)] if asked else []


def of_entries(items: Any) -> Probe:
    """A list, a set, a dict: what is in it."""
    return _now(_items if isinstance(items, dict) else tuple, items)


def entries(items: Any) -> tuple:
    """What is in a container, to see whether it changes."""
    return _items(items) if isinstance(items, dict) else tuple(items)


# -- fetching -------------------------------------------------------------------------------------

EMPTY = object()  # in place of the value of a closure variable that has none yet
_FUNCTION = attrgetter("__code__", "__defaults__", "__kwdefaults__")


def _now(fetch: Callable, place: Any) -> Probe:
    return Probe(fetch, place, tuple(fetch(place)))


def _getter(names: tuple[str, ...]) -> Callable:
    return itemgetter(*names) if len(names) > 1 else itemgetter(*names, *names)  # a tuple, too


def _cells(cells: list) -> list[Any]:
    return [cell.cell_contents for cell in cells]


def _contents(cells: list) -> list[Any]:
    return [content(cell) for cell in cells]


def content(cell: Any) -> Any:
    """The value of a closure variable."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _absent(place: Any) -> tuple[bool]:
    mapping, names = place
    return (mapping.keys().isdisjoint(names),)


def _instance(place: Any) -> tuple:
    ref, fetch, absent = place
    x = ref()
    own = x.__dict__
    return (x.__class__, own.keys().isdisjoint(absent), *fetch(own))


def _class(ref: Any) -> tuple:
    return (ref().__class__,)


def _slots(place: Any) -> tuple:
    ref, names = place
    x = ref()
    return tuple([getattr(x, name, EMPTY) for name in names])


def _items(d: dict) -> tuple:
    return (*d, *d.values())


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
