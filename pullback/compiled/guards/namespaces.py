"""Holders: namespaces and objects, of which the names count that code asks for."""

from __future__ import annotations

import types
from typing import Any

from pullback.compiled.guards.checks import EMPTY, Probes, Ref, own_attributes
from pullback.compiled.guards.values import all_attributes, is_trusted
from pullback.lazy.tensor import Tensor


class Namespace:
    """A namespace: a module's, a class's, a function's own.

    One that is `strict` is asked for names of its own alone, not for every attribute; another is
    `whole` where code asks for all there is (`vars`). Functions of one that is `trusted` are taken
    as they are. A name that a class does not have may be added later, and hide that of a base.
    """

    def __init__(
        self,
        prefix: str,
        mapping: Any,
        strict: bool = False,
        trusted: bool = False,
        cls: Any = None,
    ) -> None:
        self.prefix, self.mapping, self.strict, self.trusted = prefix, mapping, strict, trusted
        self.owner = mapping if cls is None else cls
        self.complete = strict or cls is not None
        self.whole = False  # whether all that is there counts
        self.asked: dict[str, Any] = {}
        self.at = 0
        self._read: dict[str, None] = {}  # names that were looked at

    def read(self, walk: Any) -> None:
        """Visit what has been asked for and was not visited yet."""
        names = [*self.asked.items(), *([] if self.strict else walk.unread(self))]
        if walk.reflects and not self.strict and not self.trusted:
            self.whole = True
            names += [(name, None) for name in self.mapping if not name.startswith("__")]
        for name, line in names:
            if name in self._read or not (self.complete or name in self.mapping):
                continue
            value = self.mapping.get(name, EMPTY)
            if not walk.at(self.owner, name, value):
                continue
            self._read[name] = None
            if self.trusted and callable(value) and is_trusted(value):
                walk.note(f"{self.prefix}{name}", line, Ref(value), name)
            elif value is not EMPTY:
                walk.visit(f"{self.prefix}{name}", line, value)

    def watch(self, probes: Probes) -> None:
        probes.mapping(self.mapping, self._read)
        if (self.whole or not self.complete) and not self.trusted:
            probes.size(self.mapping)


class TensorMethods:
    """The methods and properties of tensors that code names."""

    def __init__(self) -> None:
        self.at = 0
        self._read: dict[str, None] = {}

    def read(self, walk: Any) -> None:
        for name, line in walk.unread(self):
            value = getattr(Tensor, name, EMPTY)
            # `__dict__`, `mro` and the like are made anew each time: they belong to every class
            if value is not EMPTY and value is getattr(Tensor, name):
                self._read[name] = None
                if callable(value) and not is_trusted(value):  # the user's own, put there
                    walk.visit(f"Tensor.{name}", line, value)
                else:
                    walk.note(f"Tensor.{name}", line, Ref(value), name)

    def watch(self, probes: Probes) -> None:
        probes.attributes(Tensor, self._read)


class Instance:
    """An object, of which the attributes count that code asks for, or all."""

    def __init__(self, prefix: str, x: Any) -> None:
        self.prefix, self.x = prefix, x
        self.all = all_attributes(type(x))
        self.at = 0
        self._own: dict[str, None] = {}
        self._slots: dict[str, None] = {}
        self._absent: dict[str, None] = {}

    def read(self, walk: Any) -> None:
        own = own_attributes(self.x) or {}
        self.all = self.all or walk.reflects
        names = list(walk.unread(self))
        if self.all:
            names += [(name, None) for name in [*own, *_slots_of(type(self.x))]]
        for name, line in names:
            if name in self._own or name in self._slots or name in self._absent:
                continue
            found = getattr(type(self.x), name, None)
            is_slot = isinstance(found, types.MemberDescriptorType)
            value = getattr(self.x, name, EMPTY) if is_slot else own.get(name, EMPTY)
            if isinstance(found, property) or not walk.at(self.x, name, value):
                continue
            kept = self._slots if is_slot else self._absent if value is EMPTY else self._own
            kept[name] = None
            if value is not EMPTY:
                walk.visit(f"{self.prefix}{name}", line, value)

    def watch(self, probes: Probes) -> None:
        probes.instance(self.x, self._own, self._slots, self._absent, self.all)


def _slots_of(cls: type) -> list[str]:
    found = [base.__dict__.get("__slots__", ()) for base in cls.__mro__]
    return [name for slots in found for name in ([slots] if isinstance(slots, str) else slots)]
