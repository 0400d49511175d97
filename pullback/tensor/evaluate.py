"""Evaluation: from targets to programs, and from programs to values.

Collecting, keying and binding happen under one lock; compiling and running outside it.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback.ir.errors import EngineError, HostReadError, PullbackError
from pullback.ir.node import Node
from pullback.ir.where import user_line
from pullback.tensor import checks
from pullback.tensor.cache import Cache, CacheInfo, Entry
from pullback.tensor.collect import Work, base, pending_ancestors, related
from pullback.tensor.history import realise
from pullback.tensor.program import build, engine, pack
from pullback.tensor.record import PENDING_LIMIT, pending
from pullback.tensor.settings import current
from pullback.tensor.tensor import Tensor

_lock = threading.RLock()
_cache = Cache()
_programs_run = 0


class InFlight:
    """In place of a value: another thread is computing it."""

    def __init__(self) -> None:
        self.done = threading.Event()


# -- what users call ------------------------------------------------------------------------------


def evaluate(*tensors: Any) -> None:
    """Start computing tensors (or trees of them) now, in one program where they share work.

    >>> import pullback as pb
    >>> x = pb.tensor([1.0, 2.0])
    >>> y, z = x + 1, x * 2
    >>> pb.evaluate(y, z)
    """
    from pullback.tensor.tree import leaves

    found = [t for t in leaves(tensors) if isinstance(t, Tensor)]
    _forbid_placeholders("evaluate")
    compute([t._node for t in found])


def read(tensor: Tensor) -> np.ndarray:
    """The value of a tensor on the host, read-only."""
    node = tensor._node
    _forbid_placeholders("reading a value")
    for token in node.tokens:
        if token.alive and not token.leaf:
            token.reads.append(user_line())
    if node.value is None:
        compute([node])
    value = settled(node)
    if checks.any_unchecked():
        checks.examine(base(node))
        value = settled(node)
    array = to_host(value)
    array.flags.writeable = False
    return array


def submit_pending() -> None:
    """Start everything that this thread has pending: a differentiation root is never pending."""
    if pending.handles and not pending.placeholders:
        nodes = _live_pending()
        if nodes:
            compute(nodes)


def cache_info() -> CacheInfo:
    """Hits, misses and compiles of the program cache, and the cause of every miss."""
    with _lock:
        return _cache.info()


def clear_cache() -> None:
    """Forget all compiled programs and counters."""
    global _cache
    with _lock:
        _cache = Cache()


@dataclass(frozen=True)
class EngineInfo:
    """What the engine in use is, and what it did."""

    engine: str
    platform: str
    programs_run: int
    live_nodes: int


def engine_info() -> EngineInfo:
    """The engine in use, programs run so far, and how many nodes are alive."""
    live = sum(1 for o in gc.get_objects() if type(o) is Node)
    mode = current()
    platform = engine(mode.engine, mode.device).platform
    return EngineInfo(mode.engine, platform, _programs_run, live)


def device() -> str:
    """The device that values are computed on, as `cpu:0`."""
    mode = current()
    if mode.device:
        return mode.device
    return f"{_platform(mode.engine)}:0"


def _platform(name: str) -> str:
    platform = engine(name, None).platform
    return "cpu" if platform == "numpy" else platform


# -- choosing what to compute ---------------------------------------------------------------------


def compute(targets: Sequence[Node]) -> None:
    """Give every target a value (or one in flight), with live promises that share their work."""
    while True:
        with _lock:
            needed = list(dict.fromkeys(base(t) for t in targets if t.value is None))
            needed = [n for n in needed if n.value is None]
            wanted = needed
            if needed:
                extra = [n for n in _live_pending() if n not in needed]
                if extra:
                    wanted = [*needed, *related(needed, extra)]
        if needed:
            _compute_with_fallback(needed, wanted)
        with _lock:
            _hand_on(targets)
            if all(t.value is not None for t in targets):
                return


def _compute_with_fallback(needed: list[Node], wanted: list[Node]) -> None:
    """Optional outputs must not make required ones fail: on an error, the required ones alone."""
    try:
        _launch_all(needed, wanted)
    except PullbackError:
        if len(wanted) == len(needed):
            raise
        _launch_all(needed, needed)


def _hand_on(targets: Sequence[Node]) -> None:
    """An alias has the value of the node behind it."""
    for node in targets:
        if node.value is None:
            value = base(node).value
            if value is not None:
                realise(node, value)


def _live_pending() -> list[Node]:
    """The nodes of this thread's live promises, in record order; the dead are forgotten."""
    live, nodes = [], {}
    for ref in pending.handles:
        tensor = ref()
        if tensor is not None and tensor._node.value is None:
            node = base(tensor._node)
            if node.value is not None:
                realise(tensor._node, node.value)
            elif not isinstance(node.type, tuple):
                live.append(ref)
                nodes[node] = None
    pending.handles = live
    return sorted(nodes, key=lambda n: n.number)


def execute_alone(node: Node) -> None:
    """Eager mode: compute one node as it is recorded."""
    with _lock:
        needed = [n for n in [base(node)] if n.value is None]
    if needed:
        _launch_all(needed, needed)
    _hand_on([node])


def bound_pending() -> None:
    """Too much is pending: compute all of it but the last phase of a loop."""
    with _lock:
        live = _live_pending()
        nodes = sorted(pending_ancestors(live), key=lambda n: n.number)
    if pending.placeholders:
        return
    if len(live) > PENDING_LIMIT // 2:
        compute(live)
    elif len(nodes) > PENDING_LIMIT:
        _launch_split(nodes, live, keep_tail=True)


# -- running --------------------------------------------------------------------------------------


def _launch_all(needed: list[Node], wanted: list[Node]) -> None:
    with _lock:
        work = pending_ancestors(wanted)
        if len(work) <= PENDING_LIMIT:
            launch = _prepare(work, needed, wanted)
        else:
            launch = None
            nodes = sorted(work, key=lambda n: n.number)
    if launch is not None:
        launch.run()
    else:
        _launch_split(nodes, wanted)


def _launch_split(nodes: list[Node], wanted: list[Node], keep_tail: bool = False) -> None:
    """Compute a large graph in pieces, cut where a loop begins its body again."""
    outputs = set(wanted)
    while nodes:
        with _lock:
            if len(nodes) <= PENDING_LIMIT:
                if keep_tail:
                    return
                cut = len(nodes)
            else:
                cut = phase(nodes)
            piece = nodes[:cut]
            inside = set(piece)
            used = {base(x) for n in nodes[cut:] for x in n.inputs}
            out = [n for n in piece if (n in used or n in outputs) and n.value is None]
            launch = _prepare(inside, out, out, split=True) if out else None
        if launch is not None:
            launch.run()
        nodes = [n for n in nodes[cut:] if n.value is None]


def phase(nodes: list[Node]) -> int:
    """Where to cut: before the last node that was recorded where the first one was."""
    first = nodes[0]
    for i in range(min(PENDING_LIMIT, len(nodes) - 1), 0, -1):
        n = nodes[i]
        if n.op is first.op and n.where == first.where and n.backward == first.backward:
            return i
    return PENDING_LIMIT


def _prepare(
    nodes: set[Node], needed: list[Node], wanted: list[Node], split: bool = False
) -> _Launch:
    """Find the program for some work, and mark what it will compute. Called under the lock."""
    work = Work(n for n in nodes if n.value is None)
    mode = current()
    key = (mode.engine, mode.device, *work.key)
    need = sorted(work.index[n] for n in needed)
    want = tuple(sorted(work.index[n] for n in wanted))
    entry = _cache.find(key)
    if entry is None and len(wanted) > len(needed):
        smaller = _smaller(needed, mode)
        if smaller is not None and hash(key) not in _seen_once:
            _seen_once.add(hash(key))
            return smaller
    chosen = None if entry is None else _variant(entry, need, want)
    if chosen is None:
        _cache.missed(work, f"{mode.engine}:{mode.device}", entry, split)
        entry = entry or _cache.add(key)
        chosen = want
    else:
        _cache.hits += 1
    assert entry is not None
    return _Launch(work, entry, chosen, engine(mode.engine, mode.device))


_seen_once: set[int] = set()


def _smaller(needed: list[Node], mode: Any) -> _Launch | None:
    """A program that is there already for the required outputs alone, or with some optional."""
    work = Work(pending_ancestors(needed))
    entry = _cache.find((mode.engine, mode.device, *work.key))
    if entry is None:
        return None
    need = tuple(sorted(work.index[n] for n in needed))
    chosen = _variant(entry, list(need), need)
    if chosen is None:
        return None
    _cache.hits += 1
    return _Launch(work, entry, chosen, engine(mode.engine, mode.device))


def _variant(entry: Entry, need: list[int], want: tuple[int, ...]) -> tuple[int, ...] | None:
    """Of the programs of one structure: the exact one; or one with all that is required.

    Such a one may leave optional outputs out the first time a larger set is seen, or compute
    some that died in the meantime.
    """
    if want in entry.variants:
        return want
    more = [v for v in entry.variants if set(v) >= set(want)]
    if more:
        return min(more, key=len)
    fewer = [v for v in entry.variants if set(need) <= set(v) <= set(want)]
    if fewer and want not in entry.seen:
        entry.seen.add(want)
        return max(fewer, key=len)
    return None


class _Launch:
    """One run of one program: what goes in, what comes out."""

    def __init__(self, work: Work, entry: Entry, outputs: tuple[int, ...], engine: Any) -> None:
        self.work, self.entry, self.outputs, self.engine = work, entry, outputs, engine
        self.mark = InFlight()
        self.nodes = [work.nodes[i] for i in outputs]
        for node in self.nodes:
            node.value = self.mark

    def run(self) -> None:
        global _programs_run
        try:
            program = self.entry.variants.get(self.outputs) or self._compile()
            args = [self._argument(x) for x in self.work.leaves]
            if self.work.scalars:
                args.append(pack(self.work.scalars, self.engine))
            values = program.run(args)
        except BaseException as error:
            for node in self.nodes:
                node.value = None
            self.mark.done.set()
            if isinstance(error, PullbackError):
                where = next((n.where for n in reversed(self.nodes) if n.where), None)
                raise error.at(None, where) from None
            raise
        with _lock:
            _programs_run += 1
            for node, value in zip(self.nodes, values, strict=False):
                realise(node, value)
            if program.checks or checks.any_unchecked():
                word = values[-1] if program.checks else None
                checks.started(program, word, self.work.leaves, list(enumerate(self.nodes)))
        self.mark.done.set()

    def _compile(self) -> Any:
        with self.entry.lock:  # the same new program, wanted by two threads, compiles once
            program = self.entry.variants.get(self.outputs)
            if program is None:
                program = self.engine.compile(build(self.work, self.outputs))
                with _lock:
                    _cache.compiles += 1
                    self.entry.variants[self.outputs] = program
            return program

    def _argument(self, leaf: Node) -> Any:
        value = settled(leaf)
        if not self.engine.owns(value):
            value = self.engine.put(to_host(value), leaf.type)
            leaf.value = value
        return value


def settled(node: Node) -> Any:
    """The node's buffer; waits while another thread computes it, raises if computing failed."""
    value = node.value
    while isinstance(value, InFlight):
        value.done.wait()
        value = node.value
    if isinstance(value, checks.Failed):
        raise value.error
    if value is None:
        raise EngineError("a value this one depends on could not be computed", where=node.where)
    return value


def to_host(value: Any) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else engine("xla").get(value)


def _forbid_placeholders(what: str) -> None:
    if pending.placeholders:
        raise HostReadError(
            f"{what}: a function is being traced on placeholders, whose values do not exist yet",
            where=user_line(),
            hint="Return the tensor and read it outside, or compute the value before the trace.",
        )
