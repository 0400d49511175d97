"""Kinds of values, as the guards see them."""

from __future__ import annotations

import enum
import functools
import sys
import types
from typing import Any

import numpy as np

from pullback.ir.dtypes import DType
from pullback.ir.interned import exact
from pullback.ir.types import Type
from pullback.ir.where import is_internal_file

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
_CACHED = type(functools.lru_cache(len))
_MAKING = frozenset(("__init__", "__new__", "__post_init__"))


def is_plain(value: Any) -> bool:
    """Whether a value never changes and is compared by type and bits."""
    if type(value) in _SIMPLE:
        return True
    if type(value) is tuple:
        return all(map(is_plain, value))
    if isinstance(value, slice):
        return all(map(is_plain, (value.start, value.stop, value.step)))
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


def is_trusted(x: Any) -> bool:
    """Whether a function, class or module is Python's, NumPy's, pullback's and the like."""
    if isinstance(x, types.FunctionType) and is_internal(x):
        return True
    name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
    top = (name or "builtins").partition(".")[0]
    return top in _STANDARD or (top in _TRUSTED and not _is_session(x))


def _is_session(x: Any) -> bool:
    """Whether something was written at a prompt or in an example inside a library's module."""
    code = getattr(x, "__code__", None)
    return code is not None and code.co_filename.startswith("<")


def all_attributes(cls: type) -> bool:
    """Whether every attribute of an instance counts: pullback's code reads it, unseen by us."""
    return any(base.__module__.partition(".")[0] == "pullback" for base in cls.__mro__)


def executes(cls: type, name: str, named: bool) -> bool:
    """Whether operators, calls or (of a class that code names) construction run a method."""
    if not (name.startswith("__") and name.endswith("__")) or name in _ASIDE:
        return False
    f = cls.__dict__[name]
    if not isinstance(f, types.FunctionType) or f.__code__.co_filename == "<string>":
        return False  # written by `dataclass`: it reads fields, and computes nothing
    return named or name not in _MAKING


def unwrapped(value: Any) -> list[tuple[str, Any]] | None:
    """The parts of a callable that is made of others; None for anything else."""
    if isinstance(value, types.MethodType):
        return [("", value.__func__), (".self", value.__self__)]
    if isinstance(value, functools.partial):
        return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
    if isinstance(value, (staticmethod, classmethod)):
        return [("", value.__func__)]
    if isinstance(value, property):
        return [("", f) for f in (value.fget,) if f is not None]
    if isinstance(value, functools.cached_property):
        return [("", value.func)]
    if isinstance(value, _CACHED):
        return [("", value.__wrapped__)]
    parts = getattr(type(value), "guarded_parts", None)  # what pullback makes of functions
    return None if parts is None else parts(value)
