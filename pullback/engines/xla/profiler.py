"""XLA's profiler: how long each instruction of a program ran."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from pullback.engines.xla.bindings import profiler_bindings, trace_reader_binding
from pullback.engines.xla.executable import executable_error
from pullback.errors import EngineError

_recording = threading.Lock()
_END = "end: "  # an event that tells when an instruction ended that another thread began


class HloEvent(NamedTuple):
    """One run of an instruction of a module, in nanoseconds since the profiler started."""

    module: str
    instruction: str
    start: float
    end: float


class ProfilerRecording:
    """A recording of what XLA runs, from `start` to `stop`; there is one at a time."""

    def __init__(self) -> None:
        self._session: Any = None

    def start(self) -> None:
        if not _recording.acquire(blocking=False):  # a second one would be empty
            what = "XLA's profiler is already running"
            raise EngineError(what, hint="Only one profile can run at a time.")
        made = profiler_bindings().ProfileOptions()
        made.python_tracer_level = 0
        made.host_tracer_level = 1
        made.enable_hlo_proto = False
        try:
            self._session = profiler_bindings().ProfilerSession(made)
        except BaseException as error:
            _recording.release()
            if isinstance(error, Exception):
                raise executable_error(error, "profile") from None
            raise

    def stop(self) -> list[HloEvent]:
        """Return the instructions that were run, in no particular order."""
        session, self._session = self._session, None
        try:
            return profiler_events(session.stop())
        finally:
            _recording.release()


def profiler_events(data: bytes) -> list[HloEvent]:
    """Return the runs of instructions in what the profiler wrote."""
    with warnings.catch_warnings():
        # From Python 3.12 on, jaxlib's classes cause a warning when they are first used. Where
        # warnings are errors, that would end the process.
        warnings.simplefilter("ignore", DeprecationWarning)
        trace = trace_reader_binding().from_serialized_xspace(data)
        planes = list(trace.planes)
        # A GPU has a plane of its own; the host's then only shows when kernels were started.
        on_devices = [
            e for p in planes if p.name.startswith("/device:") for e in _profiler_plane_events(p)
        ]
        return on_devices or [e for p in planes for e in _profiler_plane_events(p)]


def _profiler_plane_events(plane: Any) -> list[HloEvent]:
    begun: list[tuple[HloEvent, Any]] = []
    ends: dict[Any, float] = {}
    for line in plane.lines:
        for event in line.events:
            name, start = event.name, event.start_ns
            if name.startswith(_END):
                ends[dict(event.stats).get("_c")] = start
                continue
            if event.duration_ns <= 0:
                continue
            stats = dict(event.stats)
            if "hlo_op" in stats and "hlo_module" in stats:
                end = start + event.duration_ns
                made = HloEvent(str(stats["hlo_module"]), str(stats["hlo_op"]), start, end)
                begun.append((made, stats.get("_p")))
    return [
        e if (end := ends.get(mark)) is None or mark is None else e._replace(end=max(e.end, end))
        for e, mark in begun
    ]


def exclusive_profiler_times(
    events: Iterable[HloEvent], containers: set[tuple[str, str]]
) -> tuple[dict[tuple[str, str], tuple[float, int]], float]:
    """Return seconds and runs of each instruction, and the seconds in which any of them ran.

    The time of instructions that run at the same time, on several devices or threads, is divided
    equally among them, so that the times add up. A container, such as a loop, gets the time in
    which nothing inside it runs.
    """
    all_events = list(events)
    points = [(e.start, 1, i) for i, e in enumerate(all_events)]
    points += [(e.end, 0, i) for i, e in enumerate(all_events)]
    points.sort()
    keys = [(e.module, e.instruction) for e in all_events]
    spent = [0.0] * len(all_events)
    running: dict[int, None] = {}
    around: dict[int, None] = {}
    busy = last = 0.0
    for time, begins, i in points:
        passed = time - last
        if passed > 0 and (running or around):
            busy += passed
            receive = running or [next(reversed(around))]
            for k in receive:
                spent[k] += passed / len(receive)
        last = time
        active = around if keys[i] in containers else running
        if begins:
            active[i] = None
        else:
            active.pop(i, None)
    times: dict[tuple[str, str], tuple[float, int]] = {}
    for key, nanoseconds in zip(keys, spent, strict=True):
        seconds, runs = times.get(key, (0.0, 0))
        times[key] = seconds + nanoseconds / 1e9, runs + 1
    return times, busy / 1e9
