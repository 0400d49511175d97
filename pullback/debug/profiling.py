"""Where the time of a function goes: by op, by line of user code, and by kernel of XLA."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pullback import tree
from pullback.compiled.function import BoundCompiled, Compiled
from pullback.debug.debugged_function import exact_debugged_lines
from pullback.debug.profile_report import COMPILING, OUTSIDE, ProfileReport, ProfileRow
from pullback.engines.engine_registry import created_engines, engine_for, registered_engine
from pullback.engines.mesh import mesh_for_engine
from pullback.errors import ArgumentError, EngineError, Location, PullbackError
from pullback.graph.ambient import thread
from pullback.graph.argument_checks import with_argument_checks
from pullback.graph.boundary import boundary
from pullback.graph.op_table import TABLE
from pullback.lazy.evaluate import wait
from pullback.lazy.pending import compute_pending, submit_pending
from pullback.lazy.settings import SettingsScope, current
from pullback.lazy.tensor import Tensor, wrap
from pullback.lazy.values import leaf_value_buffer, wait_for_value
from pullback.ops.sources import leaf_source

if TYPE_CHECKING:
    from pullback.engines.xla.engine import XlaEngine
    from pullback.engines.xla.profiled_ops import ProfiledOpsEngine, ProfiledOpTime


@with_argument_checks
def profile(
    f: Callable[..., Any], *, warmup: int = 1, repeat: int = 3
) -> Callable[..., ProfileReport]:
    """Return a function that measures where the time of `f` goes, with XLA's own profiler.

    The result prints as a table, with a row for each op and line of user code. Its times are
    those of one call, and add up: time in which no op is running is a row of its own. `f` is
    called with the same arguments `warmup` times, to compile its programs, and then `repeat` times;
    the times are averaged over the faster half of these calls. `save` writes a flame graph.

    `f` may be any function, also a compiled one. Its programs are compiled again, with locations
    for the profiler, and not stored; programs of other calls are not affected. Arguments that a
    compiled `f` takes as donated are copied before each call.

    >>> def model(w, x):
    ...     return pb.tanh(x @ w).sum()
    >>> found = pb.debug.profile(pb.grad(model))(pb.ones((64, 64)), pb.ones((64, 64)))
    >>> {"matmul", "tanh"} <= set(found.ops)
    True
    >>> round(sum(row.share for row in found.rows), 6)
    1.0
    """
    if warmup < 0 or repeat < 1:
        what = "warmup must not be negative, and repeat must be positive"
        raise ArgumentError(f"debug.profile: {what}, got {warmup} and {repeat}")

    @boundary
    @functools.wraps(f)
    def profiled(*args: Any, **kwargs: Any) -> ProfileReport:
        _refuse_profiling()
        with SettingsScope(profiled=True, may_compile=True), exact_debugged_lines():
            return _Profiling(f, args, kwargs).measure(warmup, repeat)

    return profiled


def _refuse_profiling() -> None:
    if current().engine != "xla":
        what = f"the {current().engine} engine has no profiler"
        raise EngineError(f"debug.profile: {what}", hint='Use pb.config(engine="xla").')
    if thread.tracing_from:
        raise ArgumentError(
            "debug.profile: a function that is being traced has no values to run on",
            hint="Call it outside of compile, grad, vmap and scan; f may use all of them.",
        )


class _ProfilingCall(NamedTuple):
    """The seconds of a call, those of them in which it compiled, or an op was running."""

    seconds: float
    compiling: float
    busy: float
    times: list[ProfiledOpTime]


class _Profiling:
    """Calls of a function under the profiler."""

    def __init__(self, f: Callable[..., Any], args: tuple, kwargs: dict) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs
        registered_engine(
            "xla", current().device
        )  # the devices are there before anything is measured
        self.result: Any = None

    @property
    def engines(self) -> list[ProfiledOpsEngine]:
        return [cast("XlaEngine", e).profiled for e in created_engines("xla")]

    def measure(self, warmup: int, repeat: int) -> ProfileReport:
        warm = sum([self._call() for _ in range(warmup)])
        calls = sorted([self._recorded() for _ in range(repeat)], key=lambda call: call.seconds)
        kept = calls[: (repeat + 1) // 2]  # the others may have been interrupted
        count, total = len(kept), sum([call.seconds for call in kept])
        rows = _profiling_rows([t for call in kept for t in call.times], total, count)
        compiling = sum([call.compiling for call in kept])
        outside = total - compiling - sum([call.busy for call in kept])
        for name, seconds in ((COMPILING, compiling), (OUTSIDE, outside)):
            if seconds > 0:
                rows.append(ProfileRow(name, "", None, seconds / count, seconds / total, 0.0, ()))
        rows.sort(key=lambda row: -row.seconds)
        platform = registered_engine("xla", current().device).platform
        name = getattr(self.f, "__name__", type(self.f).__name__)
        seconds = total / count
        return ProfileReport(name, tuple(rows), seconds, repeat, count, warm, platform, self.result)

    def _recorded(self) -> _ProfilingCall:
        """Call the function under the profiler."""
        from pullback.engines.xla.profiled_ops import profiled_op_times  # heavy: loads jaxlib
        from pullback.engines.xla.profiler import ProfilerRecording

        before = self._compile_seconds()
        recording = ProfilerRecording()
        recording.start()
        try:
            measured = self._call()
        finally:
            events = recording.stop()
        compiling = self._compile_seconds() - before
        times, busy = profiled_op_times(self.engines, events)
        return _ProfilingCall(max(measured, busy + compiling), compiling, busy, times)

    def _compile_seconds(self) -> float:
        return sum([e.compile_seconds for e in self.engines])

    def _call(self) -> float:
        """Call the function, wait until devices are idle, and return the seconds that took."""
        self.result = None  # its buffers could not be reused
        f, args, kwargs = self._prepared()
        start = time.perf_counter()
        self.result = f(*args, **kwargs)
        # What is pending would be computed later, when it is read
        live = [t for ref in thread.handles if (t := ref()) is not None]
        submit_pending()
        wait(self.result)
        for t in live:
            with contextlib.suppress(PullbackError):  # raised when it is read
                wait_for_value(t._node)
        for e in self.engines:
            e.finish()
        return time.perf_counter() - start

    def _prepared(self) -> tuple[Callable[..., Any], tuple, dict[str, Any]]:
        """Return the function and its arguments, with copies of those that it donates."""
        f, args, kwargs = self.f, self.args, self.kwargs
        if isinstance(f, BoundCompiled):
            bound: Any = f
            f, args = bound.__func__, (bound.__self__, *args)
        if isinstance(f, Compiled):
            donated, names = f._options.donated, f._options.donated_names
            args = tuple(
                [_fresh_for_profiling(x) if i in donated else x for i, x in enumerate(args)]
            )
            kwargs = {k: _fresh_for_profiling(x) if k in names else x for k, x in kwargs.items()}
        return f, args, kwargs


def _fresh_for_profiling(x: Any) -> Any:
    """Return a tree with copies of its tensors."""
    leaves, structure = tree.flatten(x)
    return tree.unflatten(
        structure, [_copied_for_profiling(y) if isinstance(y, Tensor) else y for y in leaves]
    )


def _copied_for_profiling(x: Tensor) -> Tensor:
    node = x._node
    compute_pending([node])
    on = engine_for(current(), mesh_for_engine([node.type]))
    return wrap(leaf_source(node.type, on.copy(leaf_value_buffer(on, node))))


def _profiling_rows(times: Sequence[ProfiledOpTime], total: float, repeat: int) -> list[ProfileRow]:
    """Return a row for each op and line."""
    found: dict[tuple[str, str, Any], tuple[Location, dict[str, float], int]] = {}
    for op, added, instruction, seconds, runs in times:
        title = added or (op.title if op else instruction)
        rule = TABLE[op.forward_op].title if op and op.forward_op in TABLE else ""
        where = op.where if op else None
        place = (getattr(where, "file", ""), getattr(where, "line", str(where)))
        _, kernels, count = found.setdefault((title, rule, place), (where, {}, 0))
        kernels[instruction] = kernels.get(instruction, 0.0) + seconds / repeat
        found[title, rule, place] = where, kernels, count + runs
    rows = []
    for (title, rule, _), (where, kernels, count) in found.items():
        parts = sorted(kernels.items(), key=lambda item: -item[1])
        seconds = sum(kernels.values())
        share = seconds * repeat / total
        rows.append(ProfileRow(title, rule, where, seconds, share, count / repeat, tuple(parts)))
    return rows
