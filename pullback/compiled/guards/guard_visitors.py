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

from pullback.compiled.guards import value_traits
from pullback.compiled.guards.code_names import (
    absolute_module_name,
    code_key,
    code_name_texts,
    names_of,
)
from pullback.compiled.guards.guard_checks import (
    ABSENT,
    GuardCheckRef,
    guard_checked_cell,
    guard_checked_dict,
    guard_checked_entries,
    guard_checked_weakly,
)
from pullback.compiled.guards.namespaces import Namespace, namespace_of_object
from pullback.compiled.guards.value_traits import guarded_value_contents, is_plain_guarded_value
from pullback.graph.interned import Interned, exact_key
from pullback.graph.source_lines import SourceLine
from pullback.lazy.tensor import Tensor

if TYPE_CHECKING:
    from pullback.compiled.guards.guard_walk import GuardWalk, Line

# A container with more entries is compared by identity and length: its contents are frozen.
MOST_ENTRIES = 1000

_CONTENT = attrgetter("cell_contents")  # of a closure variable that has a value
_OF_FUNCTIONS = [attrgetter(name) for name in ("__code__", "__defaults__", "__kwdefaults__")]

Parts = list[tuple[str, Any]]  # parts of a value, each with what is appended to its path


def _visit_guarded_tensor(walk: GuardWalk, path: str, where: Line, value: Tensor) -> None:
    walk.note(path, where, ("tensor", value._node.type), str(value._node.type))
    walk.tensors.append(value)
    walk.tensor_paths.append(path)


def _visit_guarded_function(walk: GuardWalk, path: str, where: Line, f: types.FunctionType) -> None:
    shown = f"{f.__qualname__} ({SourceLine(f.__code__, 0)})"
    trusted = walk.trusts(f)
    if trusted and not f.__closure__:
        walk.note(path, where, GuardCheckRef(f), shown)
        return
    walk.note(path, where, ("function", code_key(f.__code__)), shown)
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
        walk.read(
            guard_checked_cell if guard_checked_cell(cell) is ABSENT else _CONTENT,
            cell,
            name,
            where,
        )
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
    _visit_guarded_names(walk, f)


def _visit_guarded_names(walk: GuardWalk, f: types.FunctionType) -> None:
    found = names_of(f.__code__)
    walk.ask(found.attributes)
    if not value_traits.is_installed_value(f):
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
        for whole in accumulate(absolute_module_name(name, f).split("."), "{}.{}".format):
            walk.globals("", sys.modules).asked.setdefault(whole, line)


def _visit_guarded_builtin(walk: GuardWalk, path: str, where: Line, value: Any) -> None:
    """A container; or a number or string of a class that was derived from Python's."""
    if isinstance(value, value_traits.PLAIN):
        walk.note(path, where, exact_key(value), repr(value))
    else:
        _visit_guarded_entries(walk, path, where, value)
    if not walk.trusts(type(value)):
        _visit_guarded_attributes(walk, path, value)


def _visit_guarded_entries(walk: GuardWalk, path: str, where: Line, items: Any) -> None:
    kind, fixed = type(items), isinstance(items, (tuple, frozenset))
    if isinstance(items, defaultdict):
        factory = attrgetter("default_factory")
        walk.read(factory, items, f"{path}.default_factory", where, "default_factory")
    if not fixed and not walk.place(items, None, guard_checked_entries(items)):
        walk.note(path, where, ("own", kind), kind.__name__)
        return
    walk.note(path, where, ("entries", kind, len(items)), f"{kind.__name__} of {len(items)}")
    if len(items) > MOST_ENTRIES:
        walk.checks.equal(len, items)
        return
    if not fixed:
        walk.checks.each(guard_checked_entries, items)
    keys: Any = items if isinstance(items, dict) else ()
    if isinstance(items, (set, frozenset)):  # in no order
        keys, plain = (
            [x for x in items if not is_plain_guarded_value(x)],
            filter(is_plain_guarded_value, items),
        )
        walk.note(
            path, where, frozenset([*map(exact_key, plain), *map(GuardCheckRef, keys)]), repr(items)
        )
        walk.texts.update(dict.fromkeys(code_name_texts(frozenset(items))))
    for i, key in enumerate(keys):
        walk.visit(f"list({path})[{i}]", where, key)
    if not isinstance(items, (set, frozenset)):
        for key, x in items.items() if isinstance(items, dict) else enumerate(items):
            walk.visit(f"{path}[{key!r}]", where, x)


def _visit_guarded_context(walk: GuardWalk, path: str, where: Line, variable: ContextVar) -> None:
    walk.note(path, where, GuardCheckRef(variable), variable.name)
    walk.read(lambda v: v.get(ABSENT), variable, f"{path}.get()", where)


def _visit_guarded_module(
    walk: GuardWalk, path: str, where: Line, module: types.ModuleType
) -> None:
    walk.note(path, where, GuardCheckRef(module), module.__name__)
    space = Namespace(f"{path}.", vars(module), trusted=walk.trusts(module))
    if space.trusted:
        walk.namespaces.append(space)
        return
    walk.growing(space)
    if "__getattr__" in space.mapping:  # which runs for names that are absent
        space.asked["__getattr__"] = None


def _visit_guarded_named_class(walk: GuardWalk, path: str, where: Line, cls: type) -> None:
    walk.note(path, where, GuardCheckRef(cls), cls.__name__)
    _visit_guarded_class(walk, path, cls, named=True)
    _visit_guarded_class(walk, f"type({path})", type(cls), named=False)
    if isinstance(cls, abc.ABCMeta):  # any class may be registered with it
        count = abc.get_cache_token()  # how often that was done, for whatever class
        walk.note(path, where, count, f"{cls.__name__} after {count} registrations")
        walk.checks.equal(lambda _: abc.get_cache_token(), None)


def _visit_guarded_class(walk: GuardWalk, path: str, cls: type, named: bool) -> None:
    """The methods that code reads, and those that operators and calls reach."""
    if not walk.trusts(cls) and walk.first(cls, "bases"):
        walk.note(
            path, None, tuple(map(GuardCheckRef, cls.__mro__)), f"{cls.__name__} and its bases"
        )
        walk.checks.same(attrgetter("__mro__"), cls)
    for base in cls.__mro__:
        if not walk.trusts(base) and walk.first(base, named):
            space = Namespace(f"{path if base is cls else base.__name__}.", vars(base), base)
            run = [
                name
                for name in vars(base)
                if value_traits.guarded_value_executes(base, name, named)
            ]
            space.asked.update(dict.fromkeys(run))
            walk.namespaces.append(space)


def _visit_guarded_getter(walk: GuardWalk, path: str, where: Line, x: Any) -> None:
    walk.note(path, where, GuardCheckRef(x), type(x).__name__)
    named = [part for text in x.__reduce__()[1] for part in str(text).split(".")]
    walk.ask(dict.fromkeys(named, where))


def _visit_guarded_object(walk: GuardWalk, path: str, where: Line, x: Any) -> None:
    walk.note(path, where, GuardCheckRef(x), type(x).__name__)
    if isinstance(type(x), Interned):  # its attributes are parameters and caches
        _visit_guarded_class(walk, f"type({path})", type(x), named=False)
        return
    most = math.inf if id(x) in walk.static else MOST_ENTRIES
    data = guarded_value_contents(x, most)
    if data is not None and walk.place(x, None, data):
        walk.note(path, where, data, f"{type(x).__name__} {data[:2]}")
        walk.checks.equal(lambda get: guarded_value_contents(get(), most), guard_checked_weakly(x))
        if isinstance(x, np.ndarray) and x.dtype.hasobject:
            walk.visit(f"tuple({path}.flat)", where, tuple(x.flat))
    if not walk.trusts(type(x)) or guard_checked_dict(x) is not None:
        _visit_guarded_attributes(walk, path, x)


def _visit_guarded_attributes(walk: GuardWalk, path: str, x: Any) -> None:
    walk.namespaces.append(namespace_of_object(f"{path}.", x))
    _visit_guarded_class(walk, f"type({path})", type(x), named=False)


def _visitor_of_guarded_parts(parts: Callable[[Any], Parts | None], fixed: bool = True) -> Look:
    """Return how to look at what is made of other values: these are `fixed`, or are checked."""

    def current(x: Any) -> tuple:
        return tuple([part for _, part in parts(x) or ()])

    def look(walk: GuardWalk, path: str, where: Line, x: Any) -> None:
        found = parts(x)
        if found is None:
            _visit_guarded_object(walk, path, where, x)
            return
        walk.note(path, where, ("of", type(x)), type(x).__name__)
        for name, part in found:
            walk.visit(f"{path}{name}", where, part)
        if not fixed:
            walk.checks.each(current, x)
        if not value_traits.is_called_guarded_value(type(x)) and guard_checked_dict(x) is not None:
            walk.namespaces.append(namespace_of_object(f"{path}.", x))

    return look


def _visited_bound_parts(x: Any) -> Parts | None:
    """Return the parts of a builtin method: None for a function of a module."""
    free = x.__self__ is None or isinstance(x.__self__, types.ModuleType)
    return None if free else [(".__name__", x.__name__), (".self", x.__self__)]


def _visited_own_parts(x: Any) -> Parts | None:
    """Return the parts of what pullback makes of functions."""
    return x.guarded_parts() if hasattr(type(x), "guarded_parts") else None


Look = Callable[["GuardWalk", str, "Line", Any], None]

# The first kind that fits decides.
KINDS: tuple[tuple[Any, Look], ...] = (
    (Tensor, _visit_guarded_tensor),
    (types.FunctionType, _visit_guarded_function),
    ((*value_traits.PLAIN, list, tuple, deque, set, frozenset, dict), _visit_guarded_builtin),
    (ContextVar, _visit_guarded_context),
    (types.ModuleType, _visit_guarded_module),
    (type, _visit_guarded_named_class),
    ((attrgetter, methodcaller), _visit_guarded_getter),
    (types.MethodType, _visitor_of_guarded_parts(
        lambda x: [("", x.__func__), (".self", x.__self__)])),
    ((functools.partial, functools.partialmethod), _visitor_of_guarded_parts(
        lambda x: [(".func", x.func), (".args", x.args), (".keywords", x.keywords)], fixed=False)),
    ((staticmethod, classmethod), _visitor_of_guarded_parts(lambda x: [("", x.__func__)])),
    (property, _visitor_of_guarded_parts(lambda x: [("", x.fget)])),
    (functools.cached_property, _visitor_of_guarded_parts(lambda x: [("", x.func)])),
    (type(functools.lru_cache(len)), _visitor_of_guarded_parts(lambda x: [("", x.__wrapped__)])),
    (functools.singledispatchmethod, _visitor_of_guarded_parts(
        lambda x: [("", x.func), (".dispatcher", x.dispatcher)])),
    ((types.BuiltinMethodType, types.MethodWrapperType),
     _visitor_of_guarded_parts(_visited_bound_parts)),
    (types.MappingProxyType, _visitor_of_guarded_parts(
        lambda x: [("", part) for part in gc.get_referents(x)])),
    (weakref.ref, _visitor_of_guarded_parts(lambda x: [("()", x())])),
    (weakref.ProxyTypes, _visitor_of_guarded_parts(lambda x: [("", x.__init__.__self__)])),
    (object, _visitor_of_guarded_parts(_visited_own_parts, fixed=False)),
)  # fmt: skip
