"""Namespaces: modules, classes and objects, of which those names count that code reads."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pullback.compiled.guards.checks import ABSENT, GuardChecks, Ref, getter, own_attributes
from pullback.compiled.guards.values import is_read_unseen, is_trusted
from pullback.lazy.tensor import Tensor

if TYPE_CHECKING:
    from pullback.compiled.guards.walk import GuardWalk


@dataclass(eq=False)
class Namespace:
    """The mapping of names of a module, class or function.

    Of a `strict` one, only names asked of it count, not every attribute that code reads. Functions
    of a `trusted` one are not examined. A name that a class lacks may be added later, and then
    hides that of a base class.
    """

    prefix: str
    mapping: Any
    strict: bool = False
    trusted: bool = False
    cls: type | None = None
    whole: bool = False  # whether all names count, as for `vars`
    at: int = 0  # how many names of the walk were looked up
    asked: dict[str, Any] = field(default_factory=dict)
    _read: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.owner = self.mapping if self.cls is None else self.cls
        # whether absent names are checked one by one
        self.complete = self.strict or self.cls is not None

    def read(self, walk: GuardWalk) -> None:
        """Visit the values of names that were not read yet."""
        names = [*self.asked.items(), *([] if self.strict else walk.unread(self))]
        if walk.reflects and not self.strict and not self.trusted:
            self.whole = True
            names += [(name, None) for name in self.mapping if not name.startswith("__")]
        for name, line in names:
            if name in self._read or not (self.complete or name in self.mapping):
                continue
            value = self.mapping.get(name, ABSENT)
            if not walk.place(self.owner, name, value):
                continue
            self._read[name] = None
            if self.trusted and callable(value) and is_trusted(value):
                walk.note(f"{self.prefix}{name}", line, Ref(value), name)
            elif value is not ABSENT:
                walk.visit(f"{self.prefix}{name}", line, value)

    def add_checks(self, checks: GuardChecks) -> None:
        checks.names(self.mapping, self._read)
        if (self.whole or not self.complete) and not self.trusted:
            checks.size(self.mapping)


class TensorNamespace:
    """The methods and properties of tensors that code reads."""

    def __init__(self) -> None:
        self.at = 0
        self._read: dict[str, None] = {}

    def read(self, walk: GuardWalk) -> None:
        for name, line in walk.unread(self):
            value = getattr(Tensor, name, ABSENT)
            # `__dict__`, `mro` and the like are new objects at each access
            if value is not ABSENT and value is getattr(Tensor, name):
                self._read[name] = None
                if callable(value) and not is_trusted(value):  # added by a user
                    walk.visit(f"Tensor.{name}", line, value)
                else:
                    walk.note(f"Tensor.{name}", line, Ref(value), name)

    def add_checks(self, checks: GuardChecks) -> None:
        if self._read:
            checks.fetched(getter(attrgetter, tuple(self._read)), Tensor)


class InstanceNamespace:
    """The attributes of an object that code reads, or all of them."""

    def __init__(self, prefix: str, x: Any) -> None:
        self.prefix, self.x, self.at = prefix, x, 0
        self.whole = is_read_unseen(type(x))
        self._own: dict[str, None] = {}
        self._slots: dict[str, None] = {}
        self._absent: dict[str, None] = {}

    def read(self, walk: GuardWalk) -> None:
        own = own_attributes(self.x) or {}
        self.whole = self.whole or walk.reflects
        names = list(walk.unread(self))
        if self.whole:
            slots = [base.__dict__.get("__slots__", ()) for base in type(self.x).__mro__]
            named = [(s,) if isinstance(s, str) else s for s in slots]
            names += [(name, None) for name in [*own, *chain(*named)]]
        for name, line in names:
            if name in self._own or name in self._slots or name in self._absent:
                continue
            found = getattr(type(self.x), name, None)
            is_slot = isinstance(found, types.MemberDescriptorType)
            value = getattr(self.x, name, ABSENT) if is_slot else own.get(name, ABSENT)
            if isinstance(found, property) or not walk.place(self.x, name, value):
                continue
            kept = self._slots if is_slot else self._absent if value is ABSENT else self._own
            kept[name] = None
            if value is not ABSENT:
                walk.visit(f"{self.prefix}{name}", line, value)

    def add_checks(self, checks: GuardChecks) -> None:
        checks.instance(self.x, tuple(self._own), tuple(self._slots), self._absent, self.whole)
