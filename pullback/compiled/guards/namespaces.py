"""Namespaces: modules, classes and objects, of which those names count that code reads."""

from __future__ import annotations

import types
from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pullback.compiled.guards.guard_checks import (
    ABSENT,
    GuardCheckRef,
    GuardChecks,
    guard_checked_dict,
)
from pullback.compiled.guards.value_traits import is_guarded_value_read_unseen, is_trusted_value

if TYPE_CHECKING:
    from pullback.compiled.guards.guard_walk import GuardWalk


class Namespace:
    """The names of a module, function or class, or of an object (then with its `slots`).

    Of a `strict` one, only names `asked` of it count, not every attribute that code reads.
    Functions of a `trusted` one are not examined. A name that a class or object (the `owner`)
    lacks may be added later, and then hides that of a base class: it is checked too.
    """

    whole = False  # whether all names count, as for `vars`
    at = 0  # how many names of the walk were looked up

    def __init__(
        self, prefix: str, mapping: Mapping[str, Any], owner: Any = None, *,
        slots: dict[str, None] | None = None, strict: bool = False, trusted: bool = False,
    ) -> None:  # fmt: skip
        self.prefix, self.mapping, self.slots = prefix, mapping, slots
        self.strict, self.trusted = strict, trusted
        self.owner = mapping if owner is None else owner
        self.complete = strict or owner is not None  # whether absent names are checked one by one
        self.asked: dict[str, Any] = {}
        self.get: Callable[[str, Any], Any] = mapping.get
        self._read: dict[str, None] = {}

    def read(self, walk: GuardWalk) -> None:
        """Visit the values of names that were not read yet."""
        names = [*self.asked.items(), *([] if self.strict else walk.unread(self))]
        if self.whole or (walk.reflects and not self.strict and not self.trusted):
            self.whole = True
            hidden = "__" if self.slots is None else ()  # such as `__builtins__`
            names += [(name, None) for name in self.mapping if not name.startswith(hidden)]
            names += [(name, None) for name in self.slots or ()]
        for name, line in names:
            if name in self._read:
                continue
            value = self._value(name)
            if value is ABSENT and not self.complete:
                continue
            # skip values that are new at each access, such as bound class methods
            if value is not self._value(name) or not walk.place(self.owner, name, value):
                continue
            self._read[name] = None
            known = self.trusted and callable(value) and is_trusted_value(value)
            if known and not isinstance(value, ABCMeta):
                walk.note(f"{self.prefix}{name}", line, GuardCheckRef(value), name)
            elif value is not ABSENT:
                walk.visit(f"{self.prefix}{name}", line, value)

    def _value(self, name: str) -> Any:
        if self.slots and name in self.slots:
            return getattr(self.owner, name, ABSENT)
        return self.get(name, ABSENT)

    def add_checks(self, checks: GuardChecks) -> None:
        if self.slots is not None:
            checks.attributes(self.owner, self._read, self.slots, self.whole)
            return
        checks.names(self.get, self._read)
        if (self.whole or not self.complete) and not self.trusted:
            checks.equal(len, self.mapping)


def namespace_of_object(prefix: str, x: Any) -> Namespace:
    """Return the namespace of an object."""
    kinds = [vars(base).items() for base in type(x).__mro__]
    member = types.MemberDescriptorType
    slots = {name: None for kind in kinds for name, d in kind if isinstance(d, member)}
    space = Namespace(prefix, guard_checked_dict(x) or {}, x, slots=slots)
    space.whole = is_guarded_value_read_unseen(type(x))
    return space
