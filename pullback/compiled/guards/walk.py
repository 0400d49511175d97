"""Guards: what a compiled function names, looked at, and compared with what it was.

From a function the walk goes to its code, defaults, closure cells and named globals, and from
there to everything those lead to: functions, methods, partials, containers, objects and modules,
of which the attributes count that any of the code names. Values are compared by type and bits,
tensors by type, functions by what they do, everything else by identity. Python's own library,
NumPy and pullback are taken as they are: only which of their functions is named is compared.

What the function itself changes while it is traced is left out: a trace runs once.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from itertools import accumulate, islice
from operator import attrgetter, methodcaller
from typing import Any

from pullback.compiled.guards.checks import EMPTY, Probes, Ref, content, entries, own_attributes
from pullback.compiled.guards.names import absolute, code_key, names_of, texts
from pullback.compiled.guards.namespaces import Instance, Namespace
from pullback.compiled.guards.values import (
    executes,
    has_bits,
    is_installed,
    is_plain,
    is_trusted,
    plain_key,
    unwrapped,
)
from pullback.graph.where import SourceLine
from pullback.lazy.tensor import Tensor

# A container with more entries is compared by identity and length: its contents are frozen.
MOST_ENTRIES = 1000

# So often an attribute may be looked for, before installed packages are taken as they are.
MOST_LOOKS = 100_000
_CONTAINERS = (list, tuple, deque, set, frozenset, dict)

# Where a value is kept: the identity of what holds it, and its name there.
Place = tuple[int, Any]


class TooMuch(Exception):
    """There is so much to look at that it must be whole packages of others."""


class Walk:
    """One look at everything, in an order that depends on the program alone."""

    def __init__(self, own: Mapping[Place, Any], brief: bool = False) -> None:
        self.brief = brief  # whether installed packages are taken as they are
        self.own = own  # places that the function changes itself
        self.places: dict[Place, tuple[Any, Any]] = {}  # what is where: the holder and the value
        self.key: list[Any] = []
        self.notes: list[tuple[str, SourceLine | None, str]] = []
        self.tensors: list[Tensor] = []
        self.tensor_paths: list[str] = []
        self.names: dict[str, SourceLine | None] = {}  # attributes that some code reads
        self.texts: dict[str, None] = {}  # strings that were met, which may be names
        self.computes = self.reflects = False  # whether some code reads by these, or all
        self.grows: dict[int, tuple[dict, set]] = {}  # namespaces, and the names that were there
        self.holders: list[Any] = []
        self._spaces: dict[int, Namespace] = {}  # namespaces of modules, by identity
        self._seen: dict[Any, int] = {}
        self._kept: list[Any] = []  # what was seen lives as long as its identity is in use
        self._queue: deque[tuple] = deque()
        self.probes = Probes()

    def finish(self) -> None:
        """Look at everything; code that is found late may name attributes of what came early."""
        while True:
            while self._queue:
                self._look(*self._queue.popleft())
            if self.computes:
                self.ask(self.texts)
            if not self.brief and len(self.holders) * len(self.names) > MOST_LOOKS:
                raise TooMuch
            for holder in self.holders:
                holder.read(self)
            if not self._queue:
                return

    def ask(self, names: Mapping[str, SourceLine | None]) -> None:
        """Attributes of these names are of interest, wherever they are."""
        for name, line in names.items():
            self.names.setdefault(name, line)

    def unread(self, holder: Any) -> Iterator[tuple[str, SourceLine | None]]:
        """The names that are new since a holder asked last."""
        start, holder.at = holder.at, len(self.names)
        return islice(self.names.items(), start, None)

    def trusts(self, x: Any) -> bool:
        """Whether a function, class or module is taken as it is."""
        return is_trusted(x) or (self.brief and is_installed(x))

    def visit(self, path: str, where: SourceLine | None, value: Any) -> None:
        self._queue.append((path, where, value))

    def note(self, path: str, where: SourceLine | None, token: Any, shown: str) -> None:
        self.key.append(token)
        self.notes.append((path, where, shown))

    def at(self, holder: Any, name: Any, value: Any) -> bool:
        """Note what is kept at a place; false if the function changes it itself."""
        place = (id(holder), name)
        if place in self.own:
            return False
        self.places[place] = (holder, value)
        return True

    def all_probes(self) -> Probes:
        for holder in self.holders:
            holder.watch(self.probes)
        return self.probes

    # -- kinds of values ------------------------------------------------------------------------

    def _look(self, path: str, where: SourceLine | None, value: Any) -> None:
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
        if isinstance(value, Tensor):
            self.note(path, where, ("tensor", value._node.type), str(value._node.type))
            self.tensors.append(value)
            self.tensor_paths.append(path)
        elif isinstance(value, types.FunctionType):
            self._function(path, where, value)
        elif isinstance(value, _CONTAINERS) or has_bits(value):
            if has_bits(value):
                self.note(path, where, plain_key(value), repr(value))
            else:
                self._container(path, where, value)
            if not self.trusts(type(value)):  # of a class that was derived from Python's
                self._attributes(path, value)
        elif isinstance(value, ContextVar):
            self.note(path, where, Ref(value), value.name)
            if self.at(value, None, held := value.get(EMPTY)):
                self.probes.context(value)
                self.visit(f"{path}.get()", where, held)
        elif (parts := unwrapped(value)) is not None:
            self.note(path, where, ("of", type(value)), type(value).__name__)
            for name, part in parts:
                self.visit(f"{path}{name}", where, part)
        else:
            self._object(path, where, value)

    def _function(self, path: str, where: SourceLine | None, f: types.FunctionType) -> None:
        shown = f"{f.__qualname__} ({SourceLine(f.__code__, 0)})"
        trusted = self.trusts(f)
        if trusted and not f.__closure__:
            self.note(path, where, Ref(f), shown)
            return
        self.note(path, where, ("function", code_key(f.__code__)), shown)
        cells = zip(f.__code__.co_freevars, f.__closure__ or ())
        for name, cell in cells:
            if self.at(cell, None, content(cell)):
                self.probes.cell(cell)
                self.visit(name, where, content(cell))
        if trusted:  # only what it was given is of interest
            return
        self.probes.function(f)
        self.grows[id(f.__dict__)] = f.__dict__, set(f.__dict__)
        given = f.__code__.co_varnames[: f.__code__.co_argcount]
        for name, value in zip(given[::-1], (f.__defaults__ or ())[::-1]):
            self.visit(f"default {name} of {f.__name__}", where, value)
        if f.__kwdefaults__:
            self.visit(f"keyword defaults of {f.__name__}", where, f.__kwdefaults__)
        if f.__dict__:
            self.holders.append(Namespace(f"{path}.", f.__dict__))
        self._names(f)

    def _names(self, f: types.FunctionType) -> None:
        found = names_of(f.__code__)
        self.ask(found.attributes)
        if not is_installed(f):
            self.computes = self.computes or found.computes
            self.reflects = self.reflects or found.reflects
        space = self._space("", f.__globals__)
        if "globals" in found.globals:
            space.asked.update({**found.attributes, **space.asked})
        for name, line in found.globals.items():
            if name not in f.__globals__ and hasattr(builtins, name):
                self._space("builtins.", vars(builtins)).asked.setdefault(name, line)
            space.asked.setdefault(name, line)
        for name, line in found.imports.items():
            for whole in accumulate(absolute(name, f).split("."), "{}.{}".format):
                self._space("", sys.modules).asked.setdefault(whole, line)

    def _space(self, prefix: str, mapping: dict) -> Namespace:
        """The namespace of a module: functions of one module share it."""
        made = self._spaces.get(id(mapping))
        if made is None:
            made = self._spaces[id(mapping)] = Namespace(prefix, mapping, strict=True)
            self.holders.append(made)
        return made

    def _container(self, path: str, where: SourceLine | None, items: Any) -> None:
        kind, fixed = type(items), isinstance(items, (tuple, frozenset))
        if isinstance(items, defaultdict):
            self.visit(f"{path}.default_factory", where, items.default_factory)
        if not fixed and not self.at(items, None, entries(items)):
            self.note(path, where, ("own", kind), kind.__name__)
            return
        self.note(path, where, ("entries", kind, len(items)), f"{kind.__name__} of {len(items)}")
        if len(items) > MOST_ENTRIES:
            self.probes.size(items)
            return
        if not fixed:
            self.probes.entries(items)
        if isinstance(items, (set, frozenset)):
            keys = frozenset([plain_key(x) if is_plain(x) else Ref(x) for x in items])
            self.note(path, where, keys, repr(items))
            self._keys(path, where, items)
        elif isinstance(items, dict):
            for key in items:
                self.note(path, where, plain_key(key) if is_plain(key) else Ref(key), repr(key))
            self._keys(path, where, items)
            for key, value in items.items():
                self.visit(f"{path}[{key!r}]", where, value)
        else:
            for i, item in enumerate(items):
                self.visit(f"{path}[{i}]", where, item)

    def _keys(self, path: str, where: SourceLine | None, keys: Any) -> None:
        """What is looked up by itself: objects among keys, and in sets."""
        for i, key in enumerate(keys):
            if is_plain(key):
                self.texts.update(dict.fromkeys(texts(key)))
            else:
                self.visit(f"list({path})[{i}]", where, key)

    def _object(self, path: str, where: SourceLine | None, x: Any) -> None:
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
        self.holders.append(Instance(f"{path}.", x))
        self._class(f"type({path})", type(x), named=False)

    def _module(self, path: str, module: types.ModuleType) -> None:
        holder = Namespace(f"{path}.", vars(module), trusted=self.trusts(module))
        if not holder.trusted:
            self.grows[id(holder.mapping)] = holder.mapping, set(holder.mapping)
            if "__getattr__" in holder.mapping:  # it is asked for what is not there
                holder.asked["__getattr__"] = None
        self.holders.append(holder)

    def _class(self, path: str, cls: type, named: bool) -> None:
        """The methods that code names, and those that operators and calls reach."""
        if not self.trusts(cls) and (id(cls), "bases") not in self._seen:
            self._seen[id(cls), "bases"] = 0
            self.note(path, None, tuple(map(Ref, cls.__mro__)), f"{cls.__name__} and its bases")
            self.probes.bases(cls)
        for base in cls.__mro__:
            if self.trusts(base) or (id(base), named) in self._seen:
                continue
            self._seen[id(base), named] = 0
            self._kept.append(base)
            shown = f"{path}." if base is cls else f"{base.__name__}."
            holder = Namespace(shown, base.__dict__, cls=base)
            run = [name for name in base.__dict__ if executes(base, name, named)]
            holder.asked.update(dict.fromkeys(run))
            self.holders.append(holder)
