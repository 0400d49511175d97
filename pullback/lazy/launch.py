"""Launch pending work: find or compile its program, and run it on the buffers of the leaves.

Collecting, keying and binding happen under one lock; compiling and running do not.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from pullback.engines import fork
from pullback.engines.engine_registry import engine_for
from pullback.engines.mesh import mesh_for_engine
from pullback.engines.protocols import Engine, EngineProgram
from pullback.errors import Location, PullbackError, RecompileError
from pullback.graph import op_table
from pullback.graph.graph import Graph
from pullback.graph.native import native
from pullback.graph.node import Node
from pullback.lazy import runtime_checks
from pullback.lazy.cache import (
    Cache,
    CacheCallCount,
    CacheEntry,
    CacheMissCause,
    announce_cache_miss,
)
from pullback.lazy.collect import CollectedWork, collect_pending_ancestors, collected_base
from pullback.lazy.donors import DonorLeaves, Donors, InterruptsHeldForDonors, choose_donors
from pullback.lazy.history import set_values_and_history
from pullback.lazy.pieces import (
    gathered_for_pieces,
    is_in_pieces,
    piece_phase,
    piece_size,
    piece_with_results,
)
from pullback.lazy.program import build_program, pack_lazy_program_scalars
from pullback.lazy.settings import Settings, current
from pullback.lazy.values import ValueInFlight, leaf_value_buffer, value_to_host

lock = threading.RLock()
fork.hold_during_fork(lock)


class LaunchState:
    """The program cache, and the number of programs run."""

    if native is not None:
        programs_run = CacheCallCount()

    def __init__(self) -> None:
        self.cache = Cache()
        self.programs_run = 0

    def forget(self) -> None:
        """Start with an empty cache."""
        with lock:
            self.cache = Cache()


state = LaunchState()
op_table.on_replaced.append(state.forget)


def launch(needed: list[Node], wanted: list[Node], nodes: list[Node] | None = None) -> None:
    """Compute `wanted`, of which `needed` are required; `nodes` are their pending ancestors."""
    prepared = None
    try:
        with lock:  # another thread may have started some of it
            needed = [n for n in needed if n.value is None]
            wanted = [n for n in wanted if n.value is None]
            if not needed:
                return
            nodes = collect_pending_ancestors(wanted) if nodes is None else nodes
            if not is_in_pieces(nodes, wanted):
                prepared = _prepare_launch(nodes, needed, wanted)
        if prepared is not None:
            prepared.run()
        else:
            launch_in_pieces(nodes, wanted)
    finally:
        if prepared is not None:
            prepared.release()


def launch_in_pieces(nodes: list[Node], wanted: list[Node], keep_tail: bool = False) -> None:
    """Compute a graph in pieces, cut between iterations; `keep_tail` leaves the last pending."""
    outputs = set(wanted)
    gathered = gathered_for_pieces(nodes)
    while nodes:
        with lock:
            size = piece_size(nodes, outputs, gathered)
            if len(nodes) <= size and keep_tail:
                return
            cut = piece_phase(nodes, size) if len(nodes) > size else len(nodes)
            piece, rest = piece_with_results(nodes[:cut], nodes[cut:])
            used = {collected_base(x) for n in rest for x in n.inputs}
            out = [n for n in piece if (n in used or n in outputs) and n.value is None]
            out = [n for n in out if not isinstance(n.type, tuple)]
            prepared = _prepare_launch(piece, out, out, split=True) if out else None
        if prepared is not None:
            try:
                prepared.run()
            finally:
                prepared.release()
        nodes = [n for n in rest if n.value is None]


def _prepare_launch(
    nodes: list[Node], needed: list[Node], wanted: list[Node], split: bool = False
) -> Launch:
    """Find the program for some work, and mark the nodes as in flight. Called under the lock."""
    work = CollectedWork([n for n in nodes if n.value is None])
    mode = current()
    key = _launch_key(mode, work, work.key)
    entry, anywhere = state.cache.entries.get(key), False
    if entry is None and (loose := work.anywhere()):
        loose = _launch_key(mode, work, loose)
        entry = state.cache.entries.get(loose)
        # The first time, a program is compiled for one position, which is never slower.
        if entry is None and not state.cache.first_sight(loose):
            entry = state.cache.add(loose)
        anywhere = entry is not None
    if entry is None and len(wanted) > len(needed) and state.cache.first_sight(key):
        smaller = _launch_required_alone(needed, mode)
        if smaller is not None:
            return smaller
    need = {work.index[n] for n in needed}
    want = tuple(sorted(work.index[n] for n in wanted))
    chosen = None if entry is None else _launch_variant(entry, need, want)
    engine = engine_for(mode, mesh_for_engine([n.type for n in wanted]))
    if chosen != want and getattr(engine, "spans_processes", False):
        chosen = None  # processes may have cached different variants
    donors = choose_donors(entry, work, chosen or want, engine, mode, nodes)
    cause = None
    if donors.compile:
        known = entry if entry is not None and entry.variants else None
        cause = state.cache.missed(work, key, donors.variant, known, split)
        if not mode.may_compile:
            raise refuse_launch("evaluate", cause)
        state.cache.note(cause, work, key)
        entry = entry or state.cache.add(key)
    else:
        state.cache.hit(entry, donors.variant)  # type: ignore[arg-type]
    return Launch(work, entry, donors, engine, mode, need, cause, anywhere)  # type: ignore[arg-type]


def _launch_key(mode: Settings, work: CollectedWork, structure: tuple) -> tuple:
    """Return the key of some work in the cache; with its lines, if a profile is to name them."""
    key = (mode.target, *structure)
    return (*key, ProfiledLaunchLines([n.where for n in work.nodes])) if mode.profiled else key


class ProfiledLaunchLines(tuple[Location, ...]):
    """The lines of a program that is profiled, as a part of its key."""

    __slots__ = ()

    def __str__(self) -> str:
        return "at other lines"


def refuse_launch(what: str, cause: CacheMissCause) -> RecompileError:
    """Return the error that `no_recompile` raises."""
    message = f"{what}: a program would be compiled inside no_recompile: {cause}"
    return RecompileError(message, where=cause.where, cause=cause)


def _launch_required_alone(needed: list[Node], mode: Settings) -> Launch | None:
    """Return a launch of a cached program for the required outputs alone, if there is one."""
    work = CollectedWork(collect_pending_ancestors(needed))
    entry = state.cache.entries.get(_launch_key(mode, work, work.key))
    want = tuple(sorted(work.index[n] for n in needed))
    chosen = None if entry is None else _launch_variant(entry, set(want), want)
    if chosen is None:
        return None
    engine = engine_for(mode, mesh_for_engine([n.type for n in needed]))
    donors = choose_donors(entry, work, chosen, engine, mode, work.nodes)
    if donors.compile:
        return None
    state.cache.hit(entry, donors.variant)  # type: ignore[arg-type]
    return Launch(work, entry, donors, engine, mode, set(want))  # type: ignore[arg-type]


def _launch_variant(
    entry: CacheEntry, need: set[int], want: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Choose the outputs of a variant of a cache entry: the exact ones, or some that also serve.

    One with more outputs does no more work. One with fewer leaves out optional outputs, and serves
    the first time that a larger set is wanted.
    """
    known = [v.outputs for v in entry.variants]
    if want in known:
        return want
    wanted = set(want)
    more = [v for v in known if wanted <= set(v)]
    if more:
        return min(more, key=len)
    fewer = [v for v in known if need <= set(v) and set(v) <= wanted]
    if fewer and want not in entry.seen:
        entry.seen.add(want)
        return max(fewer, key=len)
    return None


class Launch:
    """One run of a program."""

    mark: ValueInFlight | None = None  # until the nodes are marked: an interrupt may come before
    donated: DonorLeaves | None = None

    def __init__(
        self, work: CollectedWork, entry: CacheEntry, donors: Donors, engine: Engine,
        mode: Settings, need: set[int], cause: CacheMissCause | None = None, anywhere: bool = False,
    ) -> None:  # fmt: skip
        self.cause = cause
        self.positions = work.positions() if anywhere else []
        self.work, self.entry, self.engine, self.mode = work, entry, engine, mode
        self.variant = donors.variant
        self.outputs, self.need = donors.variant.outputs, need
        self.mark = ValueInFlight()
        self.nodes = [work.nodes[i] for i in self.outputs]
        # Under the lock: another thread may evict the program, or compute nodes of the work, which
        # then drop their inputs
        self.program = entry.variants.get(self.variant)
        self.graph = None if self.program else build_program(work, self.outputs, anywhere)
        for node in self.nodes:
            node.value = self.mark
        if self.variant.donated:
            self.donated = DonorLeaves(work, donors, self.mark)
            self.donated.take()

    def run(self) -> None:
        try:
            program = self.program = self.program or self._compile()
            args = self._arguments()
            if self.work.scalars or self.positions:
                args.append(self._packed(program))
            if self.donated is None:
                self._start(program, args)
            else:
                with InterruptsHeldForDonors():
                    self._start(program, args)
        except PullbackError as error:
            raise self._named(error).at(None, self._line(error)) from error.__cause__
        finally:
            self.release()

    def _start(self, program: EngineProgram, args: list[Any]) -> None:
        """Start the program, and give the nodes their values."""
        values = program.run(args)
        failed = self._nonfinite(args, values) if self.mode.check_nan else {}
        with lock:
            state.programs_run += 1
            found = [failed.get(i, v) for i, v in enumerate(values)] if failed else values
            set_values_and_history(self.nodes, found)
            if program.checks or runtime_checks.any_suspects():
                word = values[-1] if program.checks else None
                lines = [self.work.nodes[i].where for i in program.written]
                runtime_checks.runtime_checks_started(
                    program, word, lines, self.work.leaves, self.nodes
                )

    def _arguments(self) -> list[Any]:
        """Return the buffers of the leaves."""
        here, owns = self.engine, self.engine.owns
        if self.donated is not None:
            return self.donated.arguments(here)
        return [x.value if owns(x.value) else leaf_value_buffer(here, x) for x in self.work.leaves]

    def _nonfinite(
        self, args: list[Any], values: list[Any]
    ) -> dict[int, runtime_checks.RuntimeFailure]:
        """Return the results that are not finite: reading one raises at the op that made it so."""
        from pullback.lazy.nonfinite_origins import nonfinite_errors  # only this mode needs it

        def program() -> tuple[Graph, list[Any]]:
            graph, _ = build_program(self.work, self.outputs, bool(self.positions))
            return graph, list(map(value_to_host, args))

        outputs = [value_to_host(v) for v, _ in zip(values, self.nodes)]
        return {
            i: runtime_checks.RuntimeFailure(e)
            for i, e in nonfinite_errors(outputs, program).items()
        }

    def _line(self, error: PullbackError) -> Location:
        """Return the line of the node that failed, or of the last output."""
        number = getattr(self.program, "stands_for", {}).get(error.values.pop("node", None))
        failed = [] if number is None else [self.work.nodes[number]]
        return next((n.where for n in [*failed, *reversed(self.nodes)] if n.where), None)

    def _named(self, error: PullbackError) -> PullbackError:
        """Let an error about an input name the first op that uses it."""
        number, leaves = error.values.get("input"), self.work.leaves
        if number is None:
            return error
        if number >= len(leaves):
            return error.name_input("the numbers in the program")
        users = [n for n in self.work.nodes if leaves[number] in map(collected_base, n.inputs)]
        if not users:
            return error
        name = f"{leaves[number].type}, an operand of {users[0].op.title}"
        return error.name_input(name).at(None, users[0].where)

    def release(self) -> None:
        """Finish, after success or failure: nodes without a value are pending again."""
        if self.mark is not None and not self.mark.over:
            for node in self.nodes:
                if node.value is self.mark:
                    node.value = None
            if self.donated is not None:
                self.donated.give_back()
            self.mark.finish()

    __del__ = release  # an interrupt may come between marking the nodes and running

    def _compile(self) -> EngineProgram:
        with self.entry.lock:  # two threads that want the same program compile it once
            program = self.entry.variants.get(self.variant)
            if program is None:
                assert self.graph is not None  # built because there was no program
                graph, stands_for = self.graph
                start = time.perf_counter()
                engine, mode = self.engine, self.mode
                compile = engine.compile_profiled if mode.profiled else engine.compile
                donated = self.variant.donated
                awaited = tuple([k for k, i in enumerate(self.outputs) if i in self.need])
                some = awaited if len(awaited) < len(self.outputs) else ()
                choices = mode.choices._replace(awaited=some)
                program = compile(graph, donated=donated, choices=choices)
                announce_cache_miss(self.cause, time.perf_counter() - start, program)
                # Positions of the checked nodes in the work, not their lines: the program also
                # serves other work of the same structure
                program.stands_for = stands_for if self.engine.name == "reference" else {}
                program.written = [stands_for.get(node) for _, node in program.checks]
                with lock:
                    limit = self.mode.cache_bytes
                    trim = state.cache.store(self.entry, self.variant, program, limit)
                if trim:
                    self.engine.give_back()
            return program

    def _packed(self, program: EngineProgram) -> Any:
        """Return the scalars as one argument; that of the last run, if they are the same."""
        words = [*[word for s in self.work.scalars for word in s.value], *self.positions]
        last = self.entry.scalars
        if last is None or last[0] is not program or last[1] != words:
            last = self.entry.scalars = (
                program,
                words,
                pack_lazy_program_scalars(words, self.engine, program),
            )
        return last[2]
