"""Donors: leaves whose memory the results of a program of pending work may take.

A program is compiled for certain donors. Another program, without donors or with those that are
dead at the time, is compiled only when what was lost by using the first one exceeds the cost of
compiling: a set of outputs has at most these two programs, however handles come and go.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes ten times as long, for enums
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pullback.engines.protocols import Engine
from pullback.errors import EngineError
from pullback.graph.node import Node
from pullback.graph.op_kinds import PerElementKind, ResultSourceKind, Transparent
from pullback.lazy.cache import CachedVariant, CacheEntry
from pullback.lazy.collect import CollectedWork
from pullback.lazy.ownership import COUNTS_ALL, ONE, leaves_without_owner, owner_references
from pullback.lazy.runtime_checks import RuntimeFailure
from pullback.lazy.settings import Settings
from pullback.lazy.values import ValueInFlight, leaf_value_buffer
from pullback.ops.index.dynamic_slice import BlockWrite
from pullback.ops.index.scatter import Scatter
from pullback.ops.sources import SCALAR

_SMALLEST = 4096  # bytes of a leaf, a page of memory: below it, nothing is won
LEAST = 2**20  # bytes of all leaves: below it, memory comes from caches, and looking costs more
# A node takes about 2 ms to compile; writing to new memory instead of old takes 0.25 ms for a MiB
_BYTES_PER_NODE = 8 * 2**20
_SIGINT = int(_signal.SIGINT)
_MOST_STEPS = 12  # from a result of an update back to the leaf that it updates


class Donors(NamedTuple):
    """The variant of a program to run, and the leaves that it may overwrite as they are."""

    variant: CachedVariant
    dead: frozenset[int]
    compile: bool  # whether the variant is new


def choose_donors(
    entry: CacheEntry | None, work: CollectedWork, outputs: tuple[int, ...], engine: Engine,
    mode: Settings, held_in: list[Node],
) -> Donors:  # fmt: skip
    """Choose the variant that computes the outputs; `held_in` is the caller's list of the work."""
    known = [] if entry is None else [v for v in entry.variants if v.outputs == outputs]
    plain = CachedVariant(outputs)
    found = None if entry is None else entry.donors.get(outputs)
    if found is None:
        found = DonorCandidates(work, outputs, engine)
        if entry is not None:
            entry.donors[outputs] = found
    # With `check_nan`, the arguments are needed again after the run
    if not found.size or mode.one_by_one or mode.check_nan:
        return Donors(plain, frozenset(), plain not in known)
    dead = frozenset(_dead_donors(work, list(found.size), outputs, engine, held_in))
    if not known:
        return Donors(found.variant([*found.updated, *(dead - found.updated)]), dead, True)
    current, better, lost = found.compare(known, dead)
    if lost <= 0 or (better not in known and not (found.is_worth(lost) and mode.may_compile)):
        return Donors(current, dead, False)
    return Donors(better, dead, better not in known)


class DonorCandidates:
    """The leaves that outputs may overwrite, and what was lost because programs did not do it.

    These are leaves from which an output of their type is computed element by element: another
    output would have to be computed elsewhere and copied. `updated` are those that a step of
    training updates, from which a loop will go on: in the first step, the caller of the loop may
    hold them, or they are arrays of the host. The program is made for the following steps.
    """

    def __init__(self, work: CollectedWork, outputs: tuple[int, ...], engine: Engine) -> None:
        self._outputs = outputs
        self._room = Counter(work.nodes[k].type for k in outputs)  # of each type
        self._types = [x.type for x in work.leaves]
        self._lost, self._cost = 0, _BYTES_PER_NODE * len(work.nodes)
        self.size: dict[int, int] = {}
        self.updated: set[int] = set()
        types = {t for t in self._room if t.nbytes >= _SMALLEST} & {*self._types}
        if not types or not (engine.overwrites and COUNTS_ALL):
            return
        for k in outputs:
            if work.nodes[k].type in types:
                self._add(work, _same_donor_elements(work.nodes[k]))
        if sum(self.size.values()) < LEAST:
            self.size = {}

    def _add(self, work: CollectedWork, near: set[Node]) -> None:
        """Add the leaves among the nodes that an output is computed from."""
        leaves = [x for x in near if x.value is not None and x in work.index]
        found = {~work.index[x] // 2: x for x in leaves if x.op is not SCALAR}
        self.size |= {i: x.type.nbytes for i, x in found.items()}
        if any(x.backward for x in near):
            self.updated |= {i for i, x in found.items() if not x.backward}

    def variant(self, donors: Iterable[int]) -> CachedVariant:
        """Return the variant with these donors, of each type at most as many as there is room."""
        room, found = self._room.copy(), []
        for i in donors:
            room[self._types[i]] -= 1
            if room[self._types[i]] >= 0:
                found.append(i)
        return CachedVariant(self._outputs, tuple(sorted(found)))

    def compare(
        self, known: list[CachedVariant], dead: frozenset[int]
    ) -> tuple[CachedVariant, CachedVariant, int]:
        """Return the variant to use, another one, and the bytes that the other one would save."""
        donating = next((v for v in known if v.donated), None)
        if donating is None:
            better = self.variant(dead)
            return CachedVariant(self._outputs), better, self._bytes(better.donated)
        copied = [i for i in donating.donated if i not in dead]
        lost = 2 * self._bytes(copied) - self._bytes(donating.donated) if copied else 0
        return donating, CachedVariant(self._outputs), lost

    def _bytes(self, donors: Iterable[int]) -> int:
        return sum(self.size[i] for i in donors)

    def is_worth(self, lost: int) -> bool:
        """Whether a program costs less than what was lost without it, now and before."""
        self._lost += lost
        return self._lost > self._cost


def _dead_donors(
    work: CollectedWork,
    candidates: list[int],
    outputs: tuple[int, ...],
    engine: Engine,
    held: list[Node],
) -> list[int]:
    """Return the candidates that nothing can read any more when the outputs are computed."""
    values = [work.leaves[i].value for i in candidates]
    pairs = zip(candidates, owner_references(values), engine.made(values), strict=True)
    # The node and `values` refer to a buffer
    found = [i for i, count, made in pairs if made and count == ONE + 1]
    return leaves_without_owner(work, found, outputs, [held]) if found else []


def _same_donor_elements(result: Node) -> set[Node]:
    """Return what each element of a result is computed from, in the same place of values of its
    type, as far as gradients."""
    seen, level = {result}, [result]
    for _ in range(_MOST_STEPS):
        fresh = [x for n in level if not n.backward for x in _donor_operands_of(n)]
        fresh = [x for x in fresh if x.type is result.type or isinstance(x.type, tuple)]
        level = [x for x in fresh if x not in seen]
        seen.update(level)
    return seen


def _donor_operands_of(node: Node) -> Sequence[Node]:
    """Return the operands whose memory the result of an op may take without a copy."""
    if isinstance(node.op, (PerElementKind, Transparent, ResultSourceKind)) or isinstance(
        node.type, tuple
    ):
        return node.inputs
    return node.inputs[:1] if isinstance(node.op, (Scatter, BlockWrite)) else ()


class InterruptsHeldForDonors:
    """Holds Ctrl-C back while a run overwrites its arguments: its results must not get lost."""

    def __enter__(self) -> None:
        self._noted: list[int] = []
        self._handler: Any = None
        if threading.current_thread() is threading.main_thread():  # the one that is interrupted
            handler = _signal.getsignal(_SIGINT)
            if callable(handler):
                self._handler = handler
                _signal.signal(_SIGINT, lambda number, _: self._noted.append(number))

    def __exit__(self, *exception: object) -> None:
        if self._handler is not None:
            _signal.signal(_SIGINT, self._handler)
            if self._noted:  # called, not raised: an event loop has noticed the signal itself
                self._handler(_SIGINT, None)


class OverwrittenDonor(RuntimeFailure):
    """The value of a leaf whose memory was given to a program; only if that fails, it is seen."""

    def __init__(self) -> None:
        pass

    def error(self) -> EngineError:
        what = "a value that it depends on was given up for a program that failed while it ran"
        return EngineError(what, hint="Start again from values that you have kept or saved.")


_OVERWRITTEN = OverwrittenDonor()


class DonorLeaves:
    """The buffers of dead leaves that a run may overwrite; a run that fails gives them back."""

    def __init__(self, work: CollectedWork, donors: Donors, mark: ValueInFlight) -> None:
        self._leaves, self._mark = work.leaves, mark
        donated = [(i, work.leaves[i]) for i in donors.variant.donated]
        self._copied = [i for i, _ in donated if i not in donors.dead]
        self._buffers = {leaf: leaf.value for i, leaf in donated if i in donors.dead}

    def take(self) -> None:
        """Take the buffers from the leaves; an interrupt may come at any moment."""
        for leaf in self._buffers:
            leaf.value = self._mark  # nothing refers to it; if anything did, it would wait

    def arguments(self, engine: Engine) -> list[Any]:
        """Return the arguments of a run: donors that are visible elsewhere are copied."""
        taken = self._buffers
        args = [taken[x] if x in taken else leaf_value_buffer(engine, x) for x in self._leaves]
        for i in self._copied:
            args[i] = engine.copy(args[i])
        return args

    def give_back(self) -> None:
        """Let the leaves have their buffers again, unless they were overwritten."""
        for leaf, buffer in self._buffers.items():
            if leaf.value is self._mark:
                leaf.value = _OVERWRITTEN if buffer.is_deleted() else buffer
