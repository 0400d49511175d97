"""The state of the current thread: what is being recorded, derived, traced or interpreted.

It is declared here, at the bottom, and used by the layers that the comments name. The settings
that users choose are per task and live in `pullback.lazy.settings`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback.errors import Location
    from pullback.graph.node import Node
    from pullback.graph.source_lines import SourceLine
    from pullback.lazy.state_writes import StateWrites
    from pullback.ops.watch import Watch
    from pullback.sharding.mesh import DeviceMesh

# A pending graph with more handles than this is computed in pieces: a loop that never reads a value
# must not grow without bound. A training step of a model with 64 layers stays below it.
PENDING_LIMIT = 20_000


class ThreadState(threading.local):
    """Work in progress on one thread."""

    # graph.node: what nodes that rules emit inherit from the node that the rule is called for
    where: Location = None
    forward_op = ""  # the name of the op whose reverse-mode rule is running
    leaf_tokens = True  # off while backward() runs: its gradients are not differentiable

    # graph.graph: whether programs that differ only in their lines are different
    lines_matter = False

    # ops.interpret
    deadline: float | None = None  # the time.monotonic() at which interpreting stops
    watch: Watch | None = None  # notes what is interpreted

    # lazy.record
    handles_limit = PENDING_LIMIT  # how many handles there may be before they are looked through
    settle_above = PENDING_LIMIT  # the same, or -1 if each new tensor must be looked at
    tracing_from = 0  # the first node number of the innermost function run on placeholders
    # The same of the innermost one that is to run again: values read now would be constants of it
    frozen = 0
    root_from = 0  # the first node number of the outermost derivative, while work is outside
    user_line: SourceLine | None = None  # where it is known already (see `at_one_line`)
    state_writes: StateWrites | None = None  # of the compiled function being traced

    # api
    transform_depth = 0
    prints: Node | None = None  # the end of the chain of prints of the function being traced
    mesh: DeviceMesh | None = None  # of the shard_map whose function is running

    def __init__(self) -> None:
        self.handles: list[weakref.ref] = []  # lazy.record: tensors that had no value when recorded
        self.outside: list[weakref.ref] = []  # those from before the derivative at `root_from`
        self.recorded: dict[tuple, range] = {}  # lazy.roots: nodes of the last derivative at a line
        self.rules_applied: list[str] = []  # transforms.call_rules: the last derivative's ops
        self.axis_sizes: dict[str, int] = {}  # api.named_axes: the named axes that are bound
        self.state_pending: dict[int, int] = {}  # lazy.state_writes: writes of states not computed
        self.custom_calls: list[tuple] = []  # api.custom_rules: calls whose rules are running


thread = ThreadState()


@contextmanager
def ambient_tracing_state(first: int, frozen: bool = True) -> Iterator[None]:
    """Run a function on placeholders; nodes with a number below `first` are from outside."""
    saved = thread.tracing_from, thread.frozen, thread.handles, thread.prints
    start = max(first, 1)
    thread.tracing_from, thread.frozen, thread.handles = start, start if frozen else saved[1], []
    thread.prints = None
    try:
        yield
    finally:
        thread.tracing_from, thread.frozen, thread.handles, thread.prints = saved
