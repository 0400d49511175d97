"""Pending work: when values are computed, and which others are computed with them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pullback.engines.engine_registry import engine_spans_processes
from pullback.engines.mesh import mesh_for_engine
from pullback.errors import OutOfMemory, PullbackError, RecompileError
from pullback.graph.ambient import PENDING_LIMIT, thread
from pullback.graph.graph import by_number
from pullback.graph.native import native
from pullback.graph.node import Node
from pullback.lazy import runtime_checks
from pullback.lazy.collect import collect_pending_ancestors, collect_related, collected_base
from pullback.lazy.history import set_value_and_history
from pullback.lazy.launch import launch, launch_in_pieces, lock
from pullback.lazy.settings import current
from pullback.lazy.values import ValueInFlight, awaited_value

if TYPE_CHECKING:
    from pullback.lazy.tensor import Tensor


def submit_pending_for(nodes: Sequence[Node]) -> None:
    """Start what nodes depend on. A failure is stored, and raised when they are read."""
    try:
        compute_pending(nodes)
    except RecompileError:
        raise
    except Exception:
        _compute_pending_apart([collected_base(n) for n in nodes])


def submit_pending() -> None:
    """Start everything pending on this thread."""
    if thread.handles and not thread.tracing_from:
        with lock:
            nodes = live_pending()
        submit_pending_for(nodes)


def compute_pending(targets: Sequence[Node]) -> None:
    """Start computing the targets, with live pending tensors that are related to them."""
    while True:
        with lock:
            _resolve_pending_aliases(targets)
            sources = list(dict.fromkeys(collected_base(t) for t in targets if t.value is None))
            if not sources:
                return
            needed = [s for s in sources if s.value is None]
            mesh = mesh_for_engine([n.type for n in needed[:1]])  # a program runs on one mesh
            needed = [n for n in needed if mesh_for_engine([n.type]) is mesh]
            known = set(needed)
            # Processes may have different live tensors, and those of a trace have no values
            alone = thread.tracing_from or engine_spans_processes(current(), mesh)
            live = [] if alone else live_pending()
            others = [n for n in live if n not in known and mesh_for_engine([n.type]) is mesh]
            extra, nodes = collect_related(needed, others)
            wanted = [*needed, *extra]
        if not needed:  # another thread is computing them
            for source in sources:
                awaited_value(source)
            continue
        try:
            launch(needed, wanted, nodes)
            thread.handles = pending_handles(thread.handles)
        except PullbackError:
            # Optional outputs must not make required ones fail
            if len(wanted) == len(needed):
                raise
            launch(needed, needed)
            _compute_pending_apart(wanted[len(needed) :])


def _compute_pending_apart(nodes: Sequence[Node]) -> None:
    """Compute nodes that were not read yet; a failure is stored, and raised when they are read."""
    for node in nodes:
        if node.value is None:
            try:
                launch([node], [node])
            except (OutOfMemory, RecompileError):
                return  # they stay pending, and may succeed later
            except PullbackError as error:
                node.value = runtime_checks.RuntimeFailure(error)
            except Exception:
                continue  # raised when it is read


def _resolve_pending_aliases(targets: Sequence[Node]) -> None:
    """Give aliases the values of the nodes behind them."""
    for node in targets:
        if node.value is None:
            _copy_pending_value(collected_base(node), node)


def _copy_pending_value(source: Node, alias: Node) -> bool:
    """Give an alias the value of its source; return whether it has one."""
    if source.value is None or isinstance(source.value, ValueInFlight):
        return False
    set_value_and_history(alias, source.value)
    runtime_checks.follow_runtime_checks(source, alias)
    return True


def live_pending() -> list[Node]:
    """Return the pending nodes of this thread's live tensors, in recording order."""
    live = []
    nodes: dict[Node, None] = {}
    for ref in pending_handles(thread.handles):
        tensor = ref()
        if tensor is None or isinstance(tensor._node.type, tuple):
            continue
        node = collected_base(tensor._node)
        if node is tensor._node or not _copy_pending_value(node, tensor._node):
            live.append(ref)
            if node.value is None:
                nodes[node] = None
    thread.handles = live
    bound_handles(PENDING_LIMIT)
    return sorted(nodes, key=by_number)


def bound_handles(limit: int) -> None:
    """Set how many handles may be recorded before they are looked through."""
    thread.handles_limit = limit
    thread.settle_above = -1 if thread.root_from else limit


def _pending_handles(handles: list[weakref.ref[Tensor]]) -> list[weakref.ref[Tensor]]:
    """Return the references that lead to a tensor whose value is not computed."""
    tensors = [ref() for ref in handles]
    return [
        ref
        for ref, tensor in zip(handles, tensors, strict=True)
        if tensor is not None and tensor._node.value is None
    ]


pending_handles = _pending_handles if native is None else native.pending_handles


def compute_pending_alone(node: Node) -> None:
    """Eager mode: compute one node as it is recorded."""
    while node.value is None:
        with lock:
            target = collected_base(node)
        if target.value is None:
            launch([target], [target])
        awaited_value(target)
        with lock:
            _resolve_pending_aliases([node])


def compute_pending_together(nodes: Sequence[Node]) -> None:
    """Eager mode: compute the results of one op, in one program."""
    launch(list(nodes), list(nodes))
    for node in nodes:
        awaited_value(node)


def bound_pending() -> None:
    """Compute what is pending, because it is too much; the last iteration of a loop stays."""
    with lock:
        live = live_pending()
        nodes = collect_pending_ancestors(live)
    if thread.tracing_from:
        bound_handles(2 * len(live) + PENDING_LIMIT)
    elif len(live) > PENDING_LIMIT // 2:
        compute_pending(live)
    elif len(nodes) > PENDING_LIMIT:
        launch_in_pieces(nodes, live, keep_tail=True)
    else:  # most pending nodes have no handle: look again sooner
        bound_handles(PENDING_LIMIT - len(nodes) + len(live))
