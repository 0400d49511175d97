"""The walk over everything that a compiled function refers to.

From a function the walk goes to its code, defaults, closure cells and globals, and from there to
all that those lead to: functions, methods, partials, containers, objects and modules, of which the
attributes count that any of the code reads. Plain values are compared by type and bits, tensors by
type, functions by what they do, everything else by identity. Python's own library, NumPy and
pullback are not examined: only which of their functions is used is compared.

Places that the function itself changes while it is traced are left out, because a trace runs once.
"""

from __future__ import annotations

import builtins
import functools
import sys
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from itertools import accumulate, islice
from operator import attrgetter, methodcaller
from typing import Any

from pullback.compiled.guards import values
from pullback.compiled.guards.checks import (
    ABSENT,
    GuardChecks,
    Ref,
    content,
    entries,
    own_attributes,
)
from pullback.compiled.guards.names import absolute, code_key, names_of, texts
from pullback.compiled.guards.namespaces import InstanceNamespace, Namespace, TensorNamespace
from pullback.compiled.guards.values import is_plain, plain_key
from pullback.graph.where import SourceLine
from pullback.lazy.tensor import Tensor

# A container with more entries is compared by identity and length: its contents are frozen.
MOST_ENTRIES = 1000
# Attribute lookups allowed before installed packages are trusted as a whole.
MOST_LOOKUPS = 100_000

Place = tuple[int, Any]  # where a value is stored: the id of its owner, and its name there
Line = SourceLine | None

# Code of functions that lead to whole packages: those are trusted at the next walk.
_large: set[Any] = set()


class TooMuch(Exception):
    """There are so many attributes to look up that they must be whole packages."""


class GuardWalk:
    """One look at everything, in an order that depends on the program alone."""

    def __init__(self, own: Mapping[Place, Any], brief: bool = False) -> None:
        self.brief = brief  # whether installed packages are trusted
        self.own = own  # places that the function itself changes
        self.places: dict[Place, tuple[Any, Any]] = {}  # what is stored where: owner and value
        self.key: list[Any] = []
        self.notes: list[tuple[str, Line, str]] = []  # for each part of the key
        self.tensors: list[Tensor] = []
        self.tensor_paths: list[str] = []
        self.names: dict[str, Line] = {}  # attributes that some code reads
        self.texts: dict[str, None] = {}  # strings among the values, which may be such names
        self.computes = self.reflects = False  # whether some code reads by those, or everything
        self.grows: dict[int, tuple[dict, set]] = {}  # namespaces, and the names in them
        self.namespaces: list[Namespace | InstanceNamespace | TensorNamespace] = []
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
            if not self._queue:
                return

    def ask(self, names: Mapping[str, Line]) -> None:
        """Let attributes of these names count, wherever they are."""
        for name, line in names.items():
            self.names.setdefault(name, line)

    def unread(self, namespace: Any) -> Iterator[tuple[str, Line]]:
        """Return the names that are new since a namespace called this."""
        start, namespace.at = namespace.at, len(self.names)
        return islice(self.names.items(), start, None)

    def trusts(self, x: Any) -> bool:
        """Whether a function, class or module is not examined."""
        return values.is_trusted(x) or (self.brief and values.is_installed(x))

    def visit(self, path: str, where: Line, value: Any) -> None:
        self._queue.append((path, where, value))

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
        if is_plain(value):
            self.note(path, where, plain_key(value), repr(value))
            self.texts.update(dict.fromkeys(texts(value)))
            return
        known = self._seen.get(id(value))
        if known is not None:
            self.note(path, where, ("as", known), "what was seen before")
            return
        self._seen[id(value)] = len(self.key)
        self._kept.append(value)
        for kind, look in _KINDS:
            if isinstance(value, kind):
                look(self, path, where, value)
                return

    def _tensor(self, path: str, where: Line, value: Tensor) -> None:
        self.note(path, where, ("tensor", value._node.type), str(value._node.type))
        self.tensors.append(value)
        self.tensor_paths.append(path)

    def _function(self, path: str, where: Line, f: types.FunctionType) -> None:
        shown = f"{f.__qualname__} ({SourceLine(f.__code__, 0)})"
        trusted = self.trusts(f)
        if trusted and not f.__closure__:
            self.note(path, where, Ref(f), shown)
            return
        self.note(path, where, ("function", code_key(f.__code__)), shown)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if self.place(cell, None, content(cell)):
                self.checks.cell(cell)
                self.visit(name, where, content(cell))
        if trusted:  # only its closure counts
            return
        self.checks.function(f)
        self.grows[id(f.__dict__)] = f.__dict__, set(f.__dict__)
        given = f.__code__.co_varnames[: f.__code__.co_argcount]
        for name, value in zip(given[::-1], (f.__defaults__ or ())[::-1]):
            self.visit(f"default {name} of {f.__name__}", where, value)
        if f.__kwdefaults__:
            self.visit(f"keyword defaults of {f.__name__}", where, f.__kwdefaults__)
        if f.__dict__:
            self.namespaces.append(Namespace(f"{path}.", f.__dict__))
        self._names(f)

    def _names(self, f: types.FunctionType) -> None:
        found = names_of(f.__code__)
        self.ask(found.attributes)
        if not values.is_installed(f):
            self.computes = self.computes or found.computes
            self.reflects = self.reflects or found.reflects
        space = self._globals("", f.__globals__)
        if "globals" in found.globals:
            space.asked.update({**found.attributes, **space.asked})
        for name, line in found.globals.items():
            if name not in f.__globals__ and hasattr(builtins, name):
                self._globals("builtins.", vars(builtins)).asked.setdefault(name, line)
            space.asked.setdefault(name, line)
        for name, line in found.imports.items():
            for whole in accumulate(absolute(name, f).split("."), "{}.{}".format):
                self._globals("", sys.modules).asked.setdefault(whole, line)

    def _globals(self, prefix: str, mapping: dict) -> Namespace:
        """The namespace that the functions of a module share."""
        found = self._modules.get(id(mapping))
        if found is None:
            found = self._modules[id(mapping)] = Namespace(prefix, mapping, strict=True)
            self.namespaces.append(found)
        return found

    def _builtin(self, path: str, where: Line, value: Any) -> None:
        """A container; or a number or string of a class that was derived from Python's."""
        if isinstance(value, values.PLAIN):
            self.note(path, where, plain_key(value), repr(value))
        else:
            self._entries(path, where, value)
        if not self.trusts(type(value)):
            self._attributes(path, value)

    def _entries(self, path: str, where: Line, items: Any) -> None:
        kind, fixed = type(items), isinstance(items, (tuple, frozenset))
        if isinstance(items, defaultdict):
            self.visit(f"{path}.default_factory", where, items.default_factory)
        if not fixed and not self.place(items, None, entries(items)):
            self.note(path, where, ("own", kind), kind.__name__)
            return
        self.note(path, where, ("entries", kind, len(items)), f"{kind.__name__} of {len(items)}")
        if len(items) > MOST_ENTRIES:
            self.checks.size(items)
            return
        if not fixed:
            self.checks.fetched(entries, items)
        if isinstance(items, (dict, set, frozenset)):
            tokens = [plain_key(x) if is_plain(x) else Ref(x) for x in items]
            if isinstance(items, dict):
                for key, token in zip(items, tokens):
                    self.note(path, where, token, repr(key))
            else:
                self.note(path, where, frozenset(tokens), repr(items))
            for i, key in enumerate(items):
                if is_plain(key):
                    self.texts.update(dict.fromkeys(texts(key)))
                else:
                    self.visit(f"list({path})[{i}]", where, key)
        if not isinstance(items, (set, frozenset)):
            pairs = items.items() if isinstance(items, dict) else enumerate(items)
            for key, value in pairs:
                self.visit(f"{path}[{key!r}]", where, value)

    def _context(self, path: str, where: Line, variable: ContextVar) -> None:
        self.note(path, where, Ref(variable), variable.name)
        value = variable.get(ABSENT)
        if self.place(variable, None, value):
            self.checks.fetched(lambda v: (v.get(ABSENT),), variable)
            self.visit(f"{path}.get()", where, value)

    def _other(self, path: str, where: Line, x: Any) -> None:
        parts = values.parts_of(x)
        if parts is not None:
            self.note(path, where, ("of", type(x)), type(x).__name__)
            for name, part in parts:
                self.visit(f"{path}{name}", where, part)
            return
        shown = x.__name__ if isinstance(x, (type, types.ModuleType)) else type(x).__name__
        self.note(path, where, Ref(x), shown)
        if isinstance(x, types.ModuleType):
            self._module(path, x)
        elif isinstance(x, type):
            self._class(path, x, named=True)
            self._class(f"type({path})", type(x), named=False)
        elif isinstance(x, (attrgetter, methodcaller)):
            named = [part for text in x.__reduce__()[1] for part in str(text).split(".")]
            self.ask(dict.fromkeys(named, where))
        elif not self.trusts(type(x)) or own_attributes(x) is not None:
            self._attributes(path, x)

    def _attributes(self, path: str, x: Any) -> None:
        self.namespaces.append(InstanceNamespace(f"{path}.", x))
        self._class(f"type({path})", type(x), named=False)

    def _module(self, path: str, module: types.ModuleType) -> None:
        space = Namespace(f"{path}.", vars(module), trusted=self.trusts(module))
        if not space.trusted:
            self.grows[id(space.mapping)] = space.mapping, set(space.mapping)
            if "__getattr__" in space.mapping:  # which runs for names that are absent
                space.asked["__getattr__"] = None
        self.namespaces.append(space)

    def _class(self, path: str, cls: type, named: bool) -> None:
        """The methods that code reads, and those that operators and calls reach."""
        if not self.trusts(cls) and (id(cls), "bases") not in self._seen:
            self._seen[id(cls), "bases"] = 0
            self.note(path, None, tuple(map(Ref, cls.__mro__)), f"{cls.__name__} and its bases")
            self.checks.bases.append((cls, cls.__mro__))
        for base in cls.__mro__:
            if self.trusts(base) or (id(base), named) in self._seen:
                continue
            self._seen[id(base), named] = 0
            self._kept.append(base)
            shown = f"{path}." if base is cls else f"{base.__name__}."
            space = Namespace(shown, base.__dict__, cls=base)
            run = [name for name in base.__dict__ if values.executes(base, name, named)]
            space.asked.update(dict.fromkeys(run))
            self.namespaces.append(space)


# How the walk looks at values that are not plain: the first kind that fits.
_KINDS: tuple[tuple[Any, Callable[[GuardWalk, str, Line, Any], None]], ...] = (
    (Tensor, GuardWalk._tensor),
    (types.FunctionType, GuardWalk._function),
    ((*values.PLAIN, list, tuple, deque, set, frozenset, dict), GuardWalk._builtin),
    (ContextVar, GuardWalk._context),
    (object, GuardWalk._other),
)


def walk(f: Any, arguments: list[tuple[str, Any]], own: Mapping[Place, Any]) -> GuardWalk:
    """Walk over everything that `f`, and static values among its arguments, lead to."""
    code = f
    while isinstance(code, functools.partial):
        code = code.func
    code = getattr(code, "__code__", type(code))
    while True:
        found = GuardWalk(own, brief=code in _large)
        found.visit(getattr(f, "__name__", None) or type(f).__name__, None, f)
        for path, value in arguments:
            found.visit(path, None, value)
        found.namespaces.append(TensorNamespace())
        try:
            found.finish()
            return found
        except TooMuch:
            _large.add(code)


class Snapshot:
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
        self.same = walk.checks.same
