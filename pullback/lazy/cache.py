"""The cache of compiled programs by structural key, with the cause of every miss."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple

from pullback.engines.environment import environment_variable
from pullback.engines.protocols import EngineProgram
from pullback.errors import Location
from pullback.graph.html import html_table
from pullback.graph.memo import remember
from pullback.graph.native import native
from pullback.graph.node import Node
from pullback.graph.source_lines import SourceLine
from pullback.graph.types import Type
from pullback.lazy.collect import CollectedWork
from pullback.ops.prelude import Op

MOST_PROGRAMS = 1024
_TRIM_BYTES = 8 * 2**20  # evicted bytes that are worth returning to the system


@dataclass(frozen=True)
class CacheMissCause:
    """Why a program was compiled.

    `kind` is first, shape, dtype, sharding, device, static, structure, outputs, donation, split or
    evicted; for a compiled function also guard (a value that it read has changed) or setting.
    `path` names the part that differs from `before` to `after`.
    """

    kind: str
    where: Location
    path: str = ""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        change = f": {self.path} was {self.before}, is {self.after}" if self.path else ""
        return f"{self.kind} at {self.where}{change}"


_SHOWN_CAUSES = 5  # of the latest misses, in a notebook


@dataclass(frozen=True, repr=False)
class CacheInfo:
    """Counters of the program cache since the process started, or since `clear_cache`.

    A miss is a program that was not in memory. It was compiled (`compiles`), found on disk
    (`disk_hits`), or assembled from segments of other programs. `memory_bytes` estimates the
    size of the programs in memory.
    """

    hits: int
    misses: int
    compiles: int
    causes: list[CacheMissCause]
    programs: int
    disk_hits: int = 0
    disk_misses: int = 0
    memory_bytes: int = 0

    def __repr__(self) -> str:
        """Show the counters, and of the causes their number."""
        shown = ", ".join(f"{name}={value}" for name, value in self._rows())
        return f"CacheInfo({shown})"

    def _repr_html_(self) -> str:
        recent = [(f"miss {i}", cause) for i, cause in enumerate(self.causes, 1)][-_SHOWN_CAUSES:]
        return html_table("CacheInfo", [*self._rows(), *recent])

    def _rows(self) -> list[tuple[str, int]]:
        return [(name, len(v) if name == "causes" else v) for name, v in vars(self).items()]

    @property
    def disk_bytes(self) -> int:
        """The size of all programs on disk, including those of other processes."""
        from pullback.engines.xla.disk_cache import disk_cache  # keeps `import pullback` light

        return disk_cache().used()


class CachedVariant(NamedTuple):
    """The outputs of a program of some structure, and the leaves whose memory they may take."""

    outputs: tuple[int, ...]
    donated: tuple[int, ...] = ()


@dataclass(eq=False)
class CacheEntry:
    """All programs of one structure; they differ in their outputs and in what they overwrite."""

    key: tuple
    variants: dict[CachedVariant, EngineProgram] = field(default_factory=dict)
    seen: set[tuple[int, ...]] = field(default_factory=set)
    donors: dict[tuple[int, ...], Any] = field(default_factory=dict)  # candidates, by outputs
    lock: Any = field(default_factory=threading.Lock)
    scalars: tuple[EngineProgram, list[int], Any] | None = (
        None  # the last program, its words, packed
    )
    users: Any = field(default_factory=weakref.WeakSet)  # compiled functions that hold the program


class CacheCallCount:
    """A number to which calls in C++ are added, which count themselves."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> int:
        return vars(instance)[self._name] + native.fast_calls()

    def __set__(self, instance: Any, value: int) -> None:
        vars(instance)[self._name] = value - native.fast_calls()


class Cache:
    """Entries by key with programs, bounded in number and bytes; callers hold `launch.lock`."""

    if native is not None:
        hits = CacheCallCount()

    def __init__(self) -> None:
        self.entries: dict[tuple, CacheEntry] = {}
        self.hits = self.misses = self.compiles = self.disk_hits = self.disk_misses = 0
        self.nbytes = self._evicted_bytes = 0
        self.causes: deque[CacheMissCause] = deque(maxlen=1000)
        # Least recently used first, with their entry and variant
        self._programs: OrderedDict[EngineProgram, tuple[CacheEntry, CachedVariant]] = OrderedDict()
        self.latest: EngineProgram | None = None  # the last program used, if by a compiled function
        self._last_at: dict[Any, tuple] = {}  # the last key compiled for each line
        self._evicted: dict[tuple[int, CachedVariant], bool] = {}
        self._seen: dict[int, bool] = {}

    def add(self, key: tuple) -> CacheEntry:
        entry = self.entries[key] = CacheEntry(key)
        if len(self.entries) > 2 * MOST_PROGRAMS:  # drop those that could not be compiled
            self.entries = {k: e for k, e in self.entries.items() if e.variants or e is entry}
        return entry

    def hit(self, entry: CacheEntry, variant: CachedVariant) -> None:
        """Count a hit, and mark the program as used."""
        self.hits += 1
        self.latest = None
        self._programs.move_to_end(entry.variants[variant])

    def used(self, program: EngineProgram, hit: bool) -> None:
        """Mark a program as used by a compiled function that holds it."""
        self.hits += hit
        if program is not self.latest and program in self._programs:
            self._programs.move_to_end(program)
            self.latest = program

    def store(
        self, entry: CacheEntry, variant: CachedVariant, program: EngineProgram, limit: int
    ) -> bool:
        """Add a program and evict others beyond `limit` bytes; return whether to trim memory."""
        self.compiles += program.origin in ("missed", "compiler")
        self.disk_hits += program.origin == "disk"
        self.disk_misses += program.origin == "missed"
        if not entry.variants:
            self.entries.setdefault(entry.key, entry)
        entry.variants[variant] = program
        if self.entries.get(entry.key) is not entry:
            return False  # the cache was cleared meanwhile
        self._programs[program] = entry, variant
        self.latest = None
        self.nbytes += program.nbytes
        while self.nbytes > limit or len(self._programs) > MOST_PROGRAMS:
            if len(self._programs) == 1:
                break
            self._evict()
        trim = self._evicted_bytes > max(limit // 8, _TRIM_BYTES)
        if trim:
            self._evicted_bytes = 0
        return trim

    def _evict(self) -> None:
        program, (entry, variant) = self._programs.popitem(last=False)
        self.nbytes -= program.nbytes
        self._evicted_bytes += program.nbytes
        del entry.variants[variant]
        entry.scalars = None  # it may hold the program
        for user in list(entry.users):
            user.drop()
        if not entry.variants:
            del self.entries[entry.key]
        remember(self._evicted, (hash(entry.key), variant), True, bound=10 * MOST_PROGRAMS)

    def first_sight(self, key: tuple) -> bool:
        """Return whether this key is looked up for the first time."""
        mark = hash(key)
        return mark not in self._seen and remember(self._seen, mark, True, bound=MOST_PROGRAMS)

    def missed(
        self,
        work: CollectedWork,
        key: tuple,
        want: CachedVariant,
        known: CacheEntry | None,
        split: bool,
    ) -> CacheMissCause:
        """Return why there is no program for this work."""
        place = _cache_miss_line(work)
        before = self._last_at.get(_cache_line_key(place))
        if (hash(key), want) in self._evicted:
            return CacheMissCause("evicted", place)
        if known is not None and any(v.outputs == want.outputs for v in known.variants):
            return CacheMissCause(
                "donation", place, "memory of inputs", *_DONATION[:: 1 if want.donated else -1]
            )
        if known is not None:
            return CacheMissCause(
                "outputs", place, "outputs", "another set of live tensors", "this one"
            )
        if before is None:
            return CacheMissCause("split" if split else "first", place)
        return _cache_miss_cause(before, key, work, place, split)

    def note(
        self, cause: CacheMissCause, work: CollectedWork | None = None, key: tuple = ()
    ) -> None:
        """Count a miss, and note the key as the last one compiled for the line of the work."""
        self.misses += 1
        if work is not None:
            remember(
                self._last_at, _cache_line_key(_cache_miss_line(work)), key, bound=MOST_PROGRAMS
            )
        self.causes.append(cause)

    def info(self) -> CacheInfo:
        return CacheInfo(
            self.hits, self.misses, self.compiles, list(self.causes), len(self._programs),
            self.disk_hits, self.disk_misses, self.nbytes,
        )  # fmt: skip


def _cache_miss_line(work: CollectedWork) -> Location:
    """Return the line of the last op, which stands for the whole work."""
    return next((n.where for n in reversed(work.nodes) if n.where is not None), None)


def _cache_line_key(place: Location) -> Any:
    """Return a key for a line: code objects of different calls may have the same line."""
    return (place.code, place.line) if isinstance(place, SourceLine) else place


def _cache_miss_cause(
    before: tuple, after: tuple, work: CollectedWork, place: Location, split: bool
) -> CacheMissCause:
    """Return the cause: the first difference between two keys of the same line."""
    if before[0] != after[0]:
        return CacheMissCause("device", place, "engine", str(before[0]), str(after[0]))
    number = -1
    for old, new in zip_longest(before[1:], after[1:], fillvalue=_END):
        number += isinstance(new, Op)
        if old is new or (isinstance(old, int) and old == new):
            continue
        node = work.nodes[max(number, 0)]
        where = node.where or place
        if isinstance(old, Type) and isinstance(new, Type):
            return CacheMissCause(
                *cache_miss_by_type(old, new, where, f"operand of {_cached_op_title(node)}")
            )
        if isinstance(old, Op) and isinstance(new, Op) and type(old) is type(new):
            return CacheMissCause("static", where, _cached_op_title(node), repr(old), repr(new))
        which = "the op at" if isinstance(new, Op) else "after" if new is _END else "operand of"
        path = f"{which} {_cached_op_title(node)}" if which != "the op at" else f"the op at {where}"
        shown = (_show_cache_key_part(old, work), _show_cache_key_part(new, work))
        return CacheMissCause("split" if split else "structure", where, path, *shown)
    return CacheMissCause("structure", place, "the program", "dropped", "the same")


def cache_miss_by_type(old: Type, new: Type, where: Location, path: str) -> tuple:
    """Return the fields of a cause for two types that differ."""
    if old.dtype is not new.dtype:
        return "dtype", where, path, str(old), str(new)
    if old.shape != new.shape:
        return "shape", where, path, str(old), str(new)
    return "sharding", where, path, str(old.sharding), str(new.sharding)


_DONATION = "not reused", "reused"
_END = object()  # fills the shorter of two keys


def _cached_op_title(node: Node) -> str:
    return f"{node.op.title} ({node.where})" if node.where is not None else node.op.title


def _show_cache_key_part(part: Any, work: CollectedWork) -> str:
    """Describe a part of a key; numbers agree in both keys up to the first difference."""
    if part is _END:
        return "the end"
    if isinstance(part, Op):
        return part.title
    if isinstance(part, int):
        if part < 0:
            return f"{'a number' if ~part % 2 else 'input'} {~part // 2}"
        return f"the result of {_cached_op_title(work.nodes[part])}"
    return f"a new input {part}"


def announce_cache_miss(
    cause: CacheMissCause | None, seconds: float, program: EngineProgram
) -> None:
    """Print a line for each compiled program if PULLBACK_LOG contains `compiles`."""
    if "compiles" in environment_variable("PULLBACK_LOG", ()):
        how = "found on disk" if program.origin == "disk" else "compiled"
        print(f"pullback: {how} in {seconds:.3f} s, {cause}", file=sys.stderr)
