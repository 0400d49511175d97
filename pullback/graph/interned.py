"""Interning: equal parameters give the same object, so that identity means equality by bits."""

import dataclasses
import re
import struct
import sys
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

from pullback.errors import ArgumentError
from pullback.graph.boundary import leave_boundary, refused_at_boundary
from pullback.graph.memo import remember

_lock = threading.Lock()
_QUICK_BYTES = 64
_NAMED = object()  # marks a key with keyword arguments
# Keeps recent ops alive: those that a transform makes at each step of a loop, and that nothing
# holds between the steps
_recent: deque[Any] = deque(maxlen=1024)
_LIGHT = {"int", "bool", "str", "bytes", "tuple", "None", "DType", "class"}  # in annotations


def exact_key(value: Any) -> Any:
    """Return a hashable key that distinguishes 0.0 from -0.0 and 1 from True, and equates NaNs."""
    kind = type(value)
    if isinstance(value, tuple):
        return (kind, tuple(map(exact_key, value)))
    if isinstance(value, np.generic):
        return (kind, value.tobytes())
    if isinstance(value, float):
        return (kind, struct.pack("<d", value))
    if hasattr(value, "structure"):  # a graph
        return (kind, value.structure)
    if isinstance(value, complex):
        return (kind, struct.pack("<dd", value.real, value.imag))
    if isinstance(value, slice):  # hashable from Python 3.12 on
        return (kind, exact_key((value.start, value.stop, value.step)))
    return (kind, value)


def _interned_words(annotation: Any) -> list[str]:
    return re.findall(r"\w+", str(annotation))


class Interned(type):
    """Metaclass of immutable values with one instance for each set of parameters.

    Instances are held weakly. A class defines `parameters()`, the tuple of values that identify an
    instance.
    """

    _canonical: dict[Any, weakref.ref]
    _quick: dict[Any, weakref.ref] | None
    _plain: Any = None  # the instance without arguments
    equal_is_same: bool = False  # parameters are small, and `==` compares them exactly

    def __init__(cls, name: str, bases: tuple, namespace: dict, **kwargs: Any) -> None:
        super().__init__(name, bases, namespace, **kwargs)
        cls._canonical, cls._plain = {}, None
        # `==` equates 0.0 and -0.0, and a table of arguments keeps them alive: only classes with
        # small parameters that are compared exactly look up instances by their arguments
        fields: tuple = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        words = {w for f in fields for w in _interned_words(f.type)} - _LIGHT
        aliases = getattr(sys.modules.get(cls.__module__), "__dict__", {})  # such as Padding
        words = {w for name in words for w in _interned_words(aliases.get(name, name))}
        cls._quick = {} if words <= _LIGHT else None

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            if not args and not kwargs:
                if cls._plain is None:
                    cls._plain = cls._intern(args, kwargs)
                return cls._plain
            return cls._intern(args, kwargs)
        except BaseException as error:
            refused = refused_at_boundary(cls.__init__, error, (cls, *args), kwargs)  # type: ignore[misc]
            if refused is None:
                leave_boundary(error)
                raise
        try:
            raise refused
        except ArgumentError as error:
            leave_boundary(error)
            raise

    def _intern(cls, args: tuple, kwargs: dict) -> Any:
        quick = cls._quick
        if quick is not None:
            typed: tuple = (*args, *map(type, args))  # 1 == True
            if kwargs:
                typed = (_NAMED, *typed, *kwargs.items(), *map(type, kwargs.values()))
            try:
                ref = quick.get(typed)
            except TypeError:  # unhashable, such as a list of axes
                quick = ref = None
            if ref is not None and (found := ref()) is not None:
                return found
        made = type.__call__(cls, *args, **kwargs)
        key = made.parameters() if cls.equal_is_same else exact_key(made.parameters())
        try:
            hash(key)
        except TypeError as error:
            what = f"{cls.__name__}: parameters must be hashable, {error}"
            hint = "Use a tuple for a list, and bytes or an operand for an array."
            raise ArgumentError(what, hint=hint) from None
        with _lock:
            known = cls._canonical.get(key)
            found = known() if known is not None else None
            if known is None or found is None:
                found, known = made, weakref.ref(made, _forget_interned(cls._canonical, key))
                cls._canonical[key] = known
            heavy = [x for x in (*args, *kwargs.values()) if isinstance(x, bytes)]
            if quick is not None and all(len(x) <= _QUICK_BYTES for x in heavy):
                remember(quick, typed, known, bound=4096)
                if not cls.equal_is_same:  # types live as long as their nodes
                    _recent.append(found)
        return found


def _forget_interned(table: dict, key: Any) -> Any:
    def callback(ref: weakref.ref) -> None:
        if table.get(key) is ref:
            del table[key]

    return callback
