"""Kinds of values, as the guards see them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import inspect
import os
import sys
import types
import weakref
from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np

from pullback import tree
from pullback.graph.dtypes import DType
from pullback.graph.interned import exact
from pullback.graph.types import Type
from pullback.graph.where import is_internal_file

_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, DType, Type,
    np.generic, np.dtype, enum.Enum,
)  # fmt: skip
_SIMPLE = frozenset((type(None), bool, int, float, complex, str, bytes))
# Libraries whose code is taken as it is, besides Python's own.
_TRUSTED = frozenset(
    ("builtins", "pullback", "numpy", "scipy", "jaxlib", "ml_dtypes", "optree", "torch", "jax")
)
# Methods that say how an object looks or is kept, not what it computes.
_ASIDE = frozenset(
    ("__repr__", "__str__", "__format__", "__del__", "__reduce__", "__reduce_ex__", "__getstate__",
     "__setstate__", "__copy__", "__deepcopy__", "__sizeof__", "__dir__", "__init_subclass__",
     "__class_getitem__", "__set_name__", "__hash__")
)  # fmt: skip
_STANDARD = sys.stdlib_module_names - {"test"}
_INSTALLED = frozenset(("site-packages", "dist-packages"))
_LIBRARY = os.path.dirname(os.__file__) + os.sep  # where Python's own modules are
# Methods that `dataclass` writes, and that compute nothing. Comparisons read fields: those count.
_WRITTEN = frozenset(("__init__", "__setattr__", "__delattr__"))
_BUILTIN = (list, tuple, dict, set, frozenset, deque, str, bytes)  # seen from outside
_METHODS = (types.FunctionType, classmethod, staticmethod, property)
_BOUND = (types.BuiltinMethodType, types.MethodWrapperType)
_CACHED = type(functools.lru_cache(len))
_MAKING = frozenset(("__init__", "__new__", "__post_init__"))


def is_plain(value: Any) -> bool:
    """Whether a value never changes, is compared by type and bits, and is not of a class of the
    user's, which may say more."""
    if type(value) in _SIMPLE:
        return True
    if type(value) is tuple:
        return all(map(is_plain, value))
    if isinstance(value, slice):
        return all(map(is_plain, (value.start, value.stop, value.step)))
    return has_bits(value) and is_trusted(type(value))


def has_bits(value: Any) -> bool:
    """Whether a value is a number, a text, a type: also of a class that was derived from theirs."""
    return isinstance(value, _PLAIN)


def plain_key(value: Any) -> Any:
    """A plain value to compare and hash: 0.0 is not -0.0, 1 is not True, NaN equals itself."""
    if isinstance(value, slice):
        return (slice, exact((value.start, value.stop, value.step)))
    return exact(value)


def same_plain(x: Any, y: Any) -> bool:
    """Whether two values are plain and the same."""
    return type(x) is type(y) and is_plain(x) and plain_key(x) == plain_key(y)


def is_internal(f: types.FunctionType) -> bool:
    """Whether a function is pullback's own."""
    return is_internal_file(f.__code__.co_filename)


def is_installed(x: Any) -> bool:
    """Whether a function, class or module is of a package that was installed."""
    if isinstance(x, types.FunctionType):
        return _is_installed_file(x.__code__.co_filename)
    module = x if isinstance(x, types.ModuleType) else sys.modules.get(x.__module__)
    return _is_installed_file(getattr(module, "__file__", None) or "")


@functools.lru_cache(maxsize=4096)
def _is_installed_file(name: str) -> bool:
    return not _INSTALLED.isdisjoint(name.replace(os.sep, "/").split("/"))


def is_trusted(x: Any) -> bool:
    """Whether a function, class or module is Python's, NumPy's, pullback's and the like."""
    if isinstance(x, types.FunctionType):
        if is_internal(x):
            return True
        name = x.__globals__.get("__name__", "")  # `functools.wraps` changes its `__module__`
    else:
        name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
        name = "builtins" if name is None else name
    top = str(name).partition(".")[0]
    if top in _TRUSTED:
        return not _is_session(x)
    return top in _STANDARD and _is_standard(getattr(sys.modules.get(top), "__file__", None))


@functools.lru_cache(maxsize=1024)
def _is_standard(file: str | None) -> bool:
    """Whether a module is Python's own, and no file of the user's with such a name."""
    return file is None or os.path.abspath(file).startswith(_LIBRARY)


def _is_session(x: Any) -> bool:
    """Whether something was written at a prompt or in an example inside a library's module."""
    return isinstance(x, types.FunctionType) and x.__code__.co_filename.startswith("<")


def all_attributes(cls: type) -> bool:
    """Whether every attribute of an instance counts: a library reads it, unseen by us.

    So it is with what pullback calls, nodes of trees, and containers that keep what is in them in
    attributes, as `UserDict` does.
    """
    if tree.registered_name(cls) is not None or is_called(cls):
        return True
    kept = [b for b in cls.__mro__ if issubclass(b, Collection) and not inspect.isabstract(b)]
    return any(is_trusted(b) and not issubclass(b, _BUILTIN) for b in kept)


def is_called(cls: type) -> bool:
    """Whether pullback calls methods of a class: then all of them count."""
    return any(base.__module__.partition(".")[0] == "pullback" for base in cls.__mro__)


def executes(cls: type, name: str, named: bool) -> bool:
    """Whether operators, calls, pullback or (of a class that code names) construction run a
    method."""
    if is_called(cls) and isinstance(cls.__dict__[name], _METHODS):
        return True
    if not (name.startswith("__") and name.endswith("__")) or name in _ASIDE:
        return False
    f = cls.__dict__[name]
    if not isinstance(f, types.FunctionType):
        return False
    if f.__code__.co_filename == "<string>" and name in _WRITTEN and dataclasses.is_dataclass(cls):
        return False
    return named or name not in _MAKING


def unwrapped(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of something that Python makes of others; None for anything else."""
    if isinstance(value, types.MethodType):
        return [("", value.__func__), (".self", value.__self__)]
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, (staticmethod, classmethod)):
        return [("", value.__func__)]
    if isinstance(value, property):
        return [("", f) for f in (value.fget,) if f is not None]
    if isinstance(value, functools.cached_property):
        return [("", value.func)]
    if isinstance(value, _CACHED):
        return [("", value.__wrapped__)]
    if isinstance(value, functools.singledispatchmethod):
        return [("", value.func), (".dispatcher", value.dispatcher)]
    if isinstance(value, _BOUND):
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return None
        return [(".__name__", value.__name__), (".self", owner)]
    if isinstance(value, types.MappingProxyType):
        return [("", x) for x in gc.get_referents(value)]
    if isinstance(value, weakref.ref):
        return [("()", value())]
    if type(value) in weakref.ProxyTypes:
        return [("", value.__init__.__self__)]
    parts = getattr(type(value), "guarded_parts", None)  # what pullback makes of functions
    return None if parts is None else parts(value)
