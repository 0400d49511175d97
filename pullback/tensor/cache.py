"""The cache of compiled programs, by structural key, with the cause of every miss."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from pullback.ir.node import Node
from pullback.ir.types import Type
from pullback.ops.base import Op
from pullback.tensor.collect import Work

MOST_PROGRAMS = 1024
_MOST_CAUSES = 1000


@dataclass(frozen=True)
class Cause:
    """Why a program was compiled.

    `kind` is first, shape, dtype, sharding, device, static, structure, outputs, split or evicted;
    `path` names the part that differs, `before` and `after` how.
    """

    kind: str
    where: Any
    path: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        change = f": {self.path} was {self.before}, is {self.after}" if self.path else ""
        return f"{self.kind} at {self.where}{change}"


@dataclass(frozen=True)
class CacheInfo:
    """Counters of the program cache since the process began (or `clear_cache`)."""

    hits: int
    misses: int
    compiles: int
    causes: list[Cause]
    programs: int


@dataclass
class Entry:
    """All programs of one structure: they differ in which nodes they hand out."""

    key: tuple
    variants: dict[tuple[int, ...], Any] = field(default_factory=dict)
    seen: set[tuple[int, ...]] = field(default_factory=set)
    lock: Any = field(default_factory=threading.Lock)
    scalars: tuple[Any, list[int], Any] | None = None  # of the last run: program, words, argument


class Cache:
    """Entries by key, least recently used first. Callers hold the evaluation lock."""

    def __init__(self) -> None:
        self.entries: OrderedDict[tuple, Entry] = OrderedDict()
        self.hits = self.misses = self.compiles = 0
        self.causes: list[Cause] = []
        self._last_at: dict[Any, tuple] = {}  # the key that was compiled last for a user's line
        self._latest: Entry | None = None
        self._evicted: set[int] = set()
        self._seen: set[int] = set()

    def find(self, key: tuple) -> Entry | None:
        entry = self.entries.get(key)
        if entry is not None and entry is not self._latest:  # hashing a long key takes time
            self.entries.move_to_end(key)
            self._latest = entry
        return entry

    def add(self, key: tuple) -> Entry:
        entry = self._latest = self.entries[key] = Entry(key)
        while len(self.entries) > MOST_PROGRAMS:
            old, _ = self.entries.popitem(last=False)
            if len(self._evicted) > 10 * MOST_PROGRAMS:
                self._evicted.clear()
            self._evicted.add(hash(old))
        return entry

    def first_sight(self, key: tuple) -> bool:
        """Whether this key was not asked for before."""
        mark = hash(key)
        if mark in self._seen:
            return False
        if len(self._seen) > MOST_PROGRAMS:
            self._seen.clear()
        self._seen.add(mark)
        return True

    def missed(self, work: Work, key: tuple, known: Entry | None, split: bool) -> None:
        """Count a miss, and say why."""
        self.misses += 1
        place = _place(work)
        before = self._last_at.get(place)
        if len(self._last_at) > MOST_PROGRAMS:
            self._last_at.clear()
        self._last_at[place] = key
        if known is not None:
            cause = Cause("outputs", place, "outputs", "another set of live tensors", "this one")
        elif hash(key) in self._evicted:
            cause = Cause("evicted", place)
        elif before is None:
            cause = Cause("split" if split else "first", place)
        else:
            cause = _difference(before, key, work, place, split)
        self.causes.append(cause)
        del self.causes[:-_MOST_CAUSES]

    def info(self) -> CacheInfo:
        programs = sum(len(e.variants) for e in self.entries.values())
        return CacheInfo(self.hits, self.misses, self.compiles, list(self.causes), programs)


def _place(work: Work) -> Any:
    """The user's line of the last op: what a reader thinks of as the computation."""
    for node in reversed(work.nodes):
        if node.where is not None:
            return node.where
    return None


def _difference(before: tuple, after: tuple, work: Work, place: Any, split: bool) -> Cause:
    """Compare two keys of the same line: the first thing that differs names the cause."""
    if before[:2] != after[:2]:
        return Cause("device", place, "engine", str(before[:2]), str(after[:2]))
    node_number = -1
    for old, new in zip(before[2:], after[2:], strict=False):
        if isinstance(new, Op):
            node_number += 1
        if old is new or (isinstance(old, int) and isinstance(new, int) and old == new):
            continue
        node = work.nodes[max(node_number, 0)]
        where = node.where or place
        if isinstance(old, Type) and isinstance(new, Type):
            kind = "dtype" if old.dtype is not new.dtype else "shape"
            return Cause(kind, where, f"operand of {_name(node)}", str(old), str(new))
        if isinstance(old, Op) and isinstance(new, Op) and type(old) is type(new):
            return Cause("static", where, _name(node), repr(old), repr(new))
        return Cause("split" if split else "structure", where, _name(node), _show(old), _show(new))
    longer = f"{len(work.nodes)} ops"
    return Cause("split" if split else "structure", place, "program", "of other length", longer)


def _name(node: Node) -> str:
    return f"{node.op.title} ({node.where})" if node.where is not None else node.op.title


def _show(part: Any) -> str:
    if isinstance(part, int):
        return "another operand" if part < 0 else f"the result of op {part}"
    return str(part)
