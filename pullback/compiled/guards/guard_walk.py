"""The walk over everything that a compiled function refers to.

From a function the walk goes to its code, defaults, closure cells and globals, and from there to
all that those lead to: functions, methods, partials, containers, objects and modules, of which the
attributes count that any of the code reads. Plain values are compared by type and bits, tensors by
type, functions by what they do, everything else by identity. Python's own library, NumPy and
pullback are not examined: only which of their functions is used is compared.

Places that the function itself changes while it is traced are left out, because a trace runs once.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any

from pullback.compiled.guards.code_names import code_name_texts
from pullback.compiled.guards.guard_checks import GuardChecks
from pullback.compiled.guards.guard_visitors import KINDS
from pullback.compiled.guards.namespaces import Namespace
from pullback.compiled.guards.value_traits import (
    is_installed_value,
    is_plain_guarded_value,
    is_trusted_value,
)
from pullback.graph.interned import exact_key
from pullback.graph.source_lines import SourceLine
from pullback.lazy.tensor import Tensor

# Attribute lookups allowed before installed packages are trusted as a whole.
MOST_LOOKUPS = 100_000

Place = tuple[int, Any]  # where a value is stored: the id of its owner, and its name there
Line = SourceLine | None
_HANDLE_NAMES = frozenset(("requires_grad", "grad", "is_leaf"))

# Code of functions that lead to whole packages: those are trusted at the next walk.
_large: set[Any] = set()


class TooMuch(Exception):
    """There are so many attributes to look up that they must be whole packages."""


class GuardWalk:
    """One look at everything, in an order that depends on the program alone."""

    def __init__(self, own: Mapping[Place, Any], static: frozenset[int], brief: bool) -> None:
        self.brief = brief  # whether installed packages are trusted
        self.own = own  # places that the function itself changes
        self.static = static  # ids of arguments, whose contents count whatever their size
        self.places: dict[Place, tuple[Any, Any]] = {}  # what is stored where: owner and value
        self.key: list[Any] = []
        self.notes: list[tuple[str, Line, str]] = []  # for each part of the key
        self.tensors: list[Tensor] = []
        self.tensor_paths: list[str] = []
        self._handles_read = 0  # how many of them were examined further
        self.names: dict[str, Line] = {}  # attributes that some code reads
        self.texts: dict[str, None] = {}  # strings among the values, which may be such names
        self.computes = self.reflects = False  # whether some code reads by those, or everything
        self.grows: dict[int, tuple[Mapping, set]] = {}  # namespaces, and the names in them
        self.namespaces: list[Namespace] = []
        self._modules: dict[int, Namespace] = {}  # globals of modules, by id
        self._seen: dict[Any, int] = {}
        self._kept: list[Any] = []  # keeps alive what is identified by its id
        self._queue: deque[tuple[str, Line, Any]] = deque()
        self.checks = GuardChecks()

    def finish(self) -> None:
        """Look at everything; code that is found late may read attributes of what came early."""
        while True:
            while self._queue:
                self._look(*self._queue.popleft())
            if self.computes:
                self.ask(self.texts)
            if not self.brief and len(self.namespaces) * len(self.names) > MOST_LOOKUPS:
                raise TooMuch
            for namespace in self.namespaces:
                namespace.read(self)
            if not self._queue and not self._handles():
                return

    def ask(self, names: Mapping[str, Line]) -> None:
        """Let attributes of these names count, wherever they are."""
        for name, line in names.items():
            self.names.setdefault(name, line)

    def unread(self, namespace: Namespace) -> Iterator[tuple[str, Line]]:
        """Return the names that are new since a namespace called this."""
        start, namespace.at = namespace.at, len(self.names)
        return islice(self.names.items(), start, None)

    def trusts(self, x: Any) -> bool:
        """Whether a function, class or module is not examined."""
        return is_trusted_value(x) or (self.brief and is_installed_value(x))

    def first(self, cls: type, aspect: Any) -> bool:
        """Whether an aspect of a class is looked at for the first time."""
        seen = (id(cls), aspect) in self._seen
        self._seen[id(cls), aspect] = 0
        self._kept.append(cls)
        return not seen

    def visit(self, path: str, where: Line, value: Any) -> None:
        self._queue.append((path, where, value))

    def read(self, fetch: Callable, owner: Any, path: str, where: Line, name: Any = None) -> None:
        """Visit what `fetch` returns and check it, unless the function itself changes it."""
        value = fetch(owner)
        if self.place(owner, name, value):
            self.checks.same(fetch, owner)
            self.visit(path, where, value)

    def note(self, path: str, where: Line, token: Any, shown: str) -> None:
        self.key.append(token)
        self.notes.append((path, where, shown))

    def place(self, owner: Any, name: Any, value: Any) -> bool:
        """Record what is stored at a place; false if the function itself changes it."""
        place = (id(owner), name)
        if place in self.own:
            return False
        self.places[place] = (owner, value)
        return True

    def _look(self, path: str, where: Line, value: Any) -> None:
        if is_plain_guarded_value(value):
            self.note(path, where, exact_key(value), repr(value))
            self.texts.update(dict.fromkeys(code_name_texts(value)))
            return
        known = self._seen.get(id(value))
        if known is not None:
            self.note(path, where, ("as", known), "what was seen before")
            return
        self._seen[id(value)] = len(self.key)
        self._kept.append(value)
        look = next(look for kind, look in KINDS if isinstance(value, kind))
        look(self, path, where, value)

    def _handles(self) -> bool:
        """Look at what tensors have besides a type, where code reads it; false if that is done."""
        start, self._handles_read = self._handles_read, len(self.tensors)
        if self.names.keys().isdisjoint(_HANDLE_NAMES):
            return False
        for t, path in zip(self.tensors[start:], self.tensor_paths[start:]):
            self.note(path, None, _walked_handle_state(t), f"requires_grad={t.requires_grad}")
            self.checks.equal(_walked_handle_state, t)
            self.read(attrgetter("_grad"), t, f"{path}.grad", None, "grad")
        return len(self.tensors) > start

    def globals(self, prefix: str, mapping: dict) -> Namespace:
        """The namespace that the functions of a module share."""
        found = self._modules.get(id(mapping))
        if found is None:
            found = self._modules[id(mapping)] = Namespace(prefix, mapping, strict=True)
            self.namespaces.append(found)
        return found

    def growing(self, space: Namespace) -> None:
        """Add a namespace to which the function itself may add names while it is traced."""
        self.grows[id(space.mapping)] = space.mapping, set(space.mapping)
        if space.mapping:
            self.namespaces.append(space)
        else:
            self.checks.equal(len, space.mapping)


def _walked_handle_state(t: Tensor) -> tuple[bool, bool]:
    return t.requires_grad, t.is_leaf


def walk_guards(f: Any, arguments: list[tuple[str, Any]], own: Mapping[Place, Any]) -> GuardWalk:
    """Walk over everything that `f`, and static values among its arguments, lead to."""
    code = f
    while isinstance(code, functools.partial):
        code = code.func
    code = getattr(code, "__code__", type(code))
    while True:
        found = GuardWalk(own, frozenset(id(x) for _, x in arguments), code in _large)
        for path, value in [(getattr(f, "__name__", None) or type(f).__name__, f), *arguments]:
            found.visit(path, None, value)
        found.namespaces.append(_guard_walk_tensor_methods())
        try:
            found.finish()
            return found
        except TooMuch:
            _large.add(code)


def _guard_walk_tensor_methods() -> Namespace:
    space = Namespace("Tensor.", vars(Tensor), trusted=True)
    space.get = functools.partial(getattr, Tensor)  # also those of its base classes
    return space


class GuardSnapshot:
    """Everything that a function refers to, at one moment.

    `key` can be compared and hashed. `tensors` are the handles that were found, in order: those of
    two snapshots with equal keys correspond.
    """

    def __init__(self, walk: GuardWalk) -> None:
        self.key = tuple(walk.key)
        self.notes = walk.notes  # for each part of the key: path, line, and how it is shown
        self.tensors, self.paths = walk.tensors, walk.tensor_paths
        for namespace in walk.namespaces:
            namespace.add_checks(walk.checks)
        # Whether nothing has changed: certain if true; if false, a new walk must compare.
        self.checks = walk.checks
        self.same = walk.checks.hold
