"""Kinds of values that are not plain, and how the walk looks at each: one table.

A look notes what identifies the value, visits what the value leads to, and adds checks of what may
be replaced in it.
"""

from __future__ import annotations

import abc
import builtins
import functools
import gc
import math
import sys
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from contextvars import ContextVar
from itertools import accumulate
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.compiled.guards import values
from pullback.compiled.guards.checks import ABSENT, Ref, content, entries, own_attributes, weak
from pullback.compiled.guards.names import absolute, code_key, names_of, texts
from pullback.compiled.guards.namespaces import Namespace, attributes
from pullback.compiled.guards.values import contents, is_plain
from pullback.graph.interned import exact_key
from pullback.graph.where import SourceLine
from pullback.lazy.tensor import Tensor

if TYPE_CHECKING:
    from pullback.compiled.guards.walk import GuardWalk, Line

# A container with more entries is compared by identity and length: its contents are frozen.
MOST_ENTRIES = 1000

_CONTENT = attrgetter("cell_contents")  # of a closure variable that has a value
_OF_FUNCTIONS = [attrgetter(name) for name in ("__code__", "__defaults__", "__kwdefaults__")]

Parts = list[tuple[str, Any]]  # parts of a value, each with what is appended to its path


def _tensor(walk: GuardWalk, path: str, where: Line, value: Tensor) -> None:
    walk.note(path, where, ("tensor", value._node.type), str(value._node.type))
    walk.tensors.append(value)
    walk.tensor_paths.append(path)


def _function(walk: GuardWalk, path: str, where: Line, f: types.FunctionType) -> None:
    shown = f"{f.__qualname__} ({SourceLine(f.__code__, 0)})"
    trusted = walk.trusts(f)
    if trusted and not f.__closure__:
        walk.note(path, where, Ref(f), shown)
        return
    walk.note(path, where, ("function", code_key(f.__code__)), shown)
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        walk.read(content if content(cell) is ABSENT else _CONTENT, cell, name, where)
    if trusted:  # only its closure counts
        return
    for fetch in _OF_FUNCTIONS:
        walk.checks.same(fetch, f)
    given = f.__code__.co_varnames[: f.__code__.co_argcount]
    for name, value in zip(given[::-1], (f.__defaults__ or ())[::-1]):
        walk.visit(f"default {name} of {f.__name__}", where, value)
    if f.__kwdefaults__:
        walk.visit(f"keyword defaults of {f.__name__}", where, f.__kwdefaults__)
    walk.growing(Namespace(f"{path}.", f.__dict__))
    _names(walk, f)


def _names(walk: GuardWalk, f: types.FunctionType) -> None:
    found = names_of(f.__code__)
    walk.ask(found.attributes)
    if not values.is_installed(f):
        walk.computes = walk.computes or found.computes
        walk.reflects = walk.reflects or found.reflects
    space = walk.globals("", f.__globals__)
    if "globals" in found.globals:
        space.asked.update({**found.attributes, **space.asked})
    for name, line in found.globals.items():
        if name not in f.__globals__ and hasattr(builtins, name):
            walk.globals("builtins.", vars(builtins)).asked.setdefault(name, line)
        space.asked.setdefault(name, line)
    for name, line in found.imports.items():
        for whole in accumulate(absolute(name, f).split("."), "{}.{}".format):
            walk.globals("", sys.modules).asked.setdefault(whole, line)


def _builtin(walk: GuardWalk, path: str, where: Line, value: Any) -> None:
    """A container; or a number or string of a class that was derived from Python's."""
    if isinstance(value, values.PLAIN):
        walk.note(path, where, exact_key(value), repr(value))
    else:
        _entries(walk, path, where, value)
    if not walk.trusts(type(value)):
        _attributes(walk, path, value)


def _entries(walk: GuardWalk, path: str, where: Line, items: Any) -> None:
    kind, fixed = type(items), isinstance(items, (tuple, frozenset))
    if isinstance(items, defaultdict):
        factory = attrgetter("default_factory")
        walk.read(factory, items, f"{path}.default_factory", where, "default_factory")
    if not fixed and not walk.place(items, None, entries(items)):
        walk.note(path, where, ("own", kind), kind.__name__)
        return
    walk.note(path, where, ("entries", kind, len(items)), f"{kind.__name__} of {len(items)}")
    if len(items) > MOST_ENTRIES:
        walk.checks.equal(len, items)
        return
    if not fixed:
        walk.checks.each(entries, items)
    keys: Any = items if isinstance(items, dict) else ()
    if isinstance(items, (set, frozenset)):  # in no order
        keys, plain = [x for x in items if not is_plain(x)], filter(is_plain, items)
        walk.note(path, where, frozenset([*map(exact_key, plain), *map(Ref, keys)]), repr(items))
        walk.texts.update(dict.fromkeys(texts(frozenset(items))))
    for i, key in enumerate(keys):
        walk.visit(f"list({path})[{i}]", where, key)
    if not isinstance(items, (set, frozenset)):
        for key, x in items.items() if isinstance(items, dict) else enumerate(items):
            walk.visit(f"{path}[{key!r}]", where, x)


def _context(walk: GuardWalk, path: str, where: Line, variable: ContextVar) -> None:
    walk.note(path, where, Ref(variable), variable.name)
    walk.read(lambda v: v.get(ABSENT), variable, f"{path}.get()", where)


def _module(walk: GuardWalk, path: str, where: Line, module: types.ModuleType) -> None:
    walk.note(path, where, Ref(module), module.__name__)
    space = Namespace(f"{path}.", vars(module), trusted=walk.trusts(module))
    if space.trusted:
        walk.namespaces.append(space)
        return
    walk.growing(space)
    if "__getattr__" in space.mapping:  # which runs for names that are absent
        space.asked["__getattr__"] = None


def _named_class(walk: GuardWalk, path: str, where: Line, cls: type) -> None:
    walk.note(path, where, Ref(cls), cls.__name__)
    _class(walk, path, cls, named=True)
    _class(walk, f"type({path})", type(cls), named=False)
    if isinstance(cls, abc.ABCMeta):  # any class may be registered with it
        count = abc.get_cache_token()  # how often that was done, for whatever class
        walk.note(path, where, count, f"{cls.__name__} after {count} registrations")
        walk.checks.equal(lambda _: abc.get_cache_token(), None)


def _class(walk: GuardWalk, path: str, cls: type, named: bool) -> None:
    """The methods that code reads, and those that operators and calls reach."""
    if not walk.trusts(cls) and walk.first(cls, "bases"):
        walk.note(path, None, tuple(map(Ref, cls.__mro__)), f"{cls.__name__} and its bases")
        walk.checks.same(attrgetter("__mro__"), cls)
    for base in cls.__mro__:
        if not walk.trusts(base) and walk.first(base, named):
            space = Namespace(f"{path if base is cls else base.__name__}.", vars(base), base)
            run = [name for name in vars(base) if values.executes(base, name, named)]
            space.asked.update(dict.fromkeys(run))
            walk.namespaces.append(space)


def _getter(walk: GuardWalk, path: str, where: Line, x: Any) -> None:
    walk.note(path, where, Ref(x), type(x).__name__)
    named = [part for text in x.__reduce__()[1] for part in str(text).split(".")]
    walk.ask(dict.fromkeys(named, where))


def _object(walk: GuardWalk, path: str, where: Line, x: Any) -> None:
    walk.note(path, where, Ref(x), type(x).__name__)
    most = math.inf if id(x) in walk.static else MOST_ENTRIES
    data = contents(x, most)
    if data is not None and walk.place(x, None, data):
        walk.note(path, where, data, f"{type(x).__name__} {data[:2]}")
        walk.checks.equal(lambda get: contents(get(), most), weak(x))
        if isinstance(x, np.ndarray) and x.dtype.hasobject:
            walk.visit(f"tuple({path}.flat)", where, tuple(x.flat))
    if not walk.trusts(type(x)) or own_attributes(x) is not None:
        _attributes(walk, path, x)


def _attributes(walk: GuardWalk, path: str, x: Any) -> None:
    walk.namespaces.append(attributes(f"{path}.", x))
    _class(walk, f"type({path})", type(x), named=False)


def _made_of(parts: Callable[[Any], Parts | None], fixed: bool = True) -> Look:
    """Return how to look at what is made of other values: these are `fixed`, or are checked."""

    def current(x: Any) -> tuple:
        return tuple([part for _, part in parts(x) or ()])

    def look(walk: GuardWalk, path: str, where: Line, x: Any) -> None:
        found = parts(x)
        if found is None:
            _object(walk, path, where, x)
            return
        walk.note(path, where, ("of", type(x)), type(x).__name__)
        for name, part in found:
            walk.visit(f"{path}{name}", where, part)
        if not fixed:
            walk.checks.each(current, x)
        if not values.is_called(type(x)) and own_attributes(x) is not None:
            walk.namespaces.append(attributes(f"{path}.", x))

    return look


def _bound(x: Any) -> Parts | None:
    """Return the parts of a builtin method: None for a function of a module."""
    free = x.__self__ is None or isinstance(x.__self__, types.ModuleType)
    return None if free else [(".__name__", x.__name__), (".self", x.__self__)]


def _own_parts(x: Any) -> Parts | None:
    """Return the parts of what pullback makes of functions."""
    return x.guarded_parts() if hasattr(type(x), "guarded_parts") else None


Look = Callable[["GuardWalk", str, "Line", Any], None]

# The first kind that fits decides.
KINDS: tuple[tuple[Any, Look], ...] = (
    (Tensor, _tensor),
    (types.FunctionType, _function),
    ((*values.PLAIN, list, tuple, deque, set, frozenset, dict), _builtin),
    (ContextVar, _context),
    (types.ModuleType, _module),
    (type, _named_class),
    ((attrgetter, methodcaller), _getter),
    (types.MethodType, _made_of(lambda x: [("", x.__func__), (".self", x.__self__)])),
    ((functools.partial, functools.partialmethod), _made_of(
        lambda x: [(".func", x.func), (".args", x.args), (".keywords", x.keywords)], fixed=False)),
    ((staticmethod, classmethod), _made_of(lambda x: [("", x.__func__)])),
    (property, _made_of(lambda x: [("", x.fget)])),
    (functools.cached_property, _made_of(lambda x: [("", x.func)])),
    (type(functools.lru_cache(len)), _made_of(lambda x: [("", x.__wrapped__)])),
    (functools.singledispatchmethod, _made_of(
        lambda x: [("", x.func), (".dispatcher", x.dispatcher)])),
    ((types.BuiltinMethodType, types.MethodWrapperType), _made_of(_bound)),
    (types.MappingProxyType, _made_of(lambda x: [("", part) for part in gc.get_referents(x)])),
    (weakref.ref, _made_of(lambda x: [("()", x())])),
    (weakref.ProxyTypes, _made_of(lambda x: [("", x.__init__.__self__)])),
    (object, _made_of(_own_parts, fixed=False)),
)  # fmt: skip
