"""Properties of values that decide how guards treat them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import math
import os
import sys
import types
from collections import deque
from collections.abc import Collection
from typing import Any

import numpy as np

from pullback.graph.dtypes import DType
from pullback.graph.interned import exact_key
from pullback.graph.source_lines import is_internal_file
from pullback.graph.types import Type
from pullback.tree_nodes import is_node

# Values of these types never change and are compared by type and bits.
PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, DType, Type,
    np.generic, np.dtype, enum.Enum,
)  # fmt: skip
_SIMPLE = frozenset((type(None), bool, int, float, complex, str, bytes))
# Libraries whose code is not examined, besides Python's own.
_TRUSTED = frozenset(
    ("builtins", "pullback", "numpy", "scipy", "jaxlib", "ml_dtypes", "optree", "torch", "jax")
)
# Methods that say how an object is shown or stored, not what it computes.
_IGNORED = frozenset(
    ("__repr__", "__str__", "__format__", "__del__", "__reduce__", "__reduce_ex__", "__getstate__",
     "__setstate__", "__copy__", "__deepcopy__", "__sizeof__", "__init_subclass__",
     "__class_getitem__", "__set_name__", "__hash__")
)  # fmt: skip
_STANDARD = sys.stdlib_module_names - {"test"}
_INSTALLED = frozenset(("site-packages", "dist-packages"))
_LIBRARY = os.path.dirname(os.__file__) + os.sep  # where Python's own modules are
# Methods that `dataclass` writes and that compute nothing. Comparisons read fields: those count.
_GENERATED = frozenset(("__init__", "__setattr__", "__delattr__"))
_BUILTIN = (list, tuple, dict, set, frozenset, deque, str, bytes)  # their contents are visible
_METHODS = (types.FunctionType, classmethod, staticmethod, property)
_CONSTRUCTION = frozenset(("__init__", "__new__", "__post_init__"))


def is_plain_guarded_value(value: Any) -> bool:
    """Whether a value never changes and is compared by bits; a user's subclass may change."""
    if type(value) in _SIMPLE:
        return True
    if type(value) is tuple:
        return all(map(is_plain_guarded_value, value))
    if isinstance(value, slice):
        return all(map(is_plain_guarded_value, (value.start, value.stop, value.step)))
    return isinstance(value, PLAIN) and is_trusted_value(type(value))


def same_plain_values(x: Any, y: Any) -> bool:
    """Whether two values are plain and the same."""
    return type(x) is type(y) and is_plain_guarded_value(x) and exact_key(x) == exact_key(y)


def guarded_value_contents(x: Any, most: float = math.inf) -> tuple | None:
    """Return the type and bytes of an array, `ctypes` value or other buffer; otherwise None.

    The bytes are left out if there are more than `most` elements.
    """
    if isinstance(x, np.ndarray):
        return (x.dtype, x.shape, x.tobytes() if x.size <= most else b"")
    try:
        view = memoryview(x)
    except TypeError:
        return None
    count = view.nbytes // (view.itemsize or 1)
    return (view.format, view.shape, view.tobytes() if count <= most else b"")


def is_installed_value(x: Any) -> bool:
    """Whether a function, class or module belongs to an installed package."""
    if isinstance(x, types.FunctionType):
        return _is_installed_file(x.__code__.co_filename)
    module = x if isinstance(x, types.ModuleType) else sys.modules.get(x.__module__)
    return _is_installed_file(getattr(module, "__file__", None) or "")


@functools.lru_cache(maxsize=4096)
def _is_installed_file(name: str) -> bool:
    return not _INSTALLED.isdisjoint(name.replace(os.sep, "/").split("/"))


def is_trusted_value(x: Any) -> bool:
    """Whether a function, class or module is Python's, NumPy's, pullback's and the like."""
    if isinstance(x, types.FunctionType):
        if is_internal_file(x.__code__.co_filename):
            return True
        name = x.__globals__.get("__name__", "")  # `functools.wraps` changes its `__module__`
    else:
        name = x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)
        name = "builtins" if name is None else name
    top = str(name).partition(".")[0]
    if top in _TRUSTED:  # but for what was typed at a prompt or in an example of such a module
        return not (isinstance(x, types.FunctionType) and x.__code__.co_filename.startswith("<"))
    return top in _STANDARD and _is_standard(getattr(sys.modules.get(top), "__file__", None))


@functools.lru_cache(maxsize=1024)
def _is_standard(file: str | None) -> bool:
    """Whether a module is Python's own, and not a user's file of the same name."""
    return file is None or os.path.abspath(file).startswith(_LIBRARY)


def is_guarded_value_read_unseen(cls: type) -> bool:
    """Whether a library may read any attribute of an instance.

    This holds for what pullback calls, for nodes of trees, and for containers that keep their
    contents in attributes, as `UserDict` does.
    """
    if is_node(cls) or is_called_guarded_value(cls):
        return True
    kept = [b for b in cls.__mro__ if issubclass(b, Collection) and not inspect.isabstract(b)]
    return any(is_trusted_value(b) and not issubclass(b, _BUILTIN) for b in kept)


def is_called_guarded_value(cls: type) -> bool:
    """Whether pullback calls methods of a class: then all of them count."""
    return any(base.__module__.partition(".")[0] == "pullback" for base in cls.__mro__)


def guarded_value_executes(cls: type, name: str, named: bool) -> bool:
    """Whether operators, calls, pullback or (if code names the class) construction run a method."""
    f = cls.__dict__[name]
    if is_called_guarded_value(cls) and isinstance(f, _METHODS):
        return True
    special = name.startswith("__") and name.endswith("__") and name not in _IGNORED
    if not special or not isinstance(f, types.FunctionType):
        return False
    generated = f.__code__.co_filename == "<string>" and dataclasses.is_dataclass(cls)
    if generated and name in _GENERATED:
        return False
    return named or name not in _CONSTRUCTION
