"""Roots of derivatives: what they depend on is computed before the derivative begins.

A root is never pending, so that each step of a training loop runs the same program whether its
results are read or not. Other pending work is set aside: reads inside the derivative must not
compile and run it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pullback.graph.ambient import thread
from pullback.graph.node import Node, next_number
from pullback.lazy.collect import base
from pullback.lazy.launch import lock
from pullback.lazy.pending import bound_handles, live_pending, submit


def submit_roots(nodes: Sequence[Node]) -> None:
    """Start what roots depend on, with related work from outside the derivative."""
    nodes = [n for n in nodes if n.value is None]
    if not nodes:
        return
    inside = thread.handles
    if thread.root_from:
        thread.handles = thread.outside
    try:
        submit(nodes)
    finally:
        if thread.root_from:
            thread.outside, thread.handles = thread.handles, inside


def begin_derivative() -> bool:
    """Set pending work aside; return whether there is any. Call `end_derivative` afterwards."""
    with lock:
        live = live_pending()
    if not live:
        return False
    thread.outside, thread.handles = thread.handles, []
    thread.root_from = next_number()
    bound_handles(thread.handles_limit)
    return True


def end_derivative() -> None:
    """Put the work that was set aside back among the pending tensors."""
    thread.handles = thread.outside + thread.handles
    thread.outside, thread.root_from = [], 0
    bound_handles(thread.handles_limit)


def compute_captured(made: Sequence[Node]) -> None:
    """Compute the operands of new nodes that were pending before the derivative began.

    They count as arguments of the function: whether or not the last step of a loop left them
    pending, the next one runs the same program.
    """
    operands = [base(x) for node in made for x in _operands(node)]
    captured = [x for x in operands if x.value is None and x.number < thread.root_from]
    if captured:
        submit_roots(captured)


def _operands(node: Node) -> Sequence[Node]:
    """Return the operands of an op, from its node or from the node of one of its results."""
    first = node.inputs[:1]
    return first[0].inputs if first and isinstance(first[0].type, tuple) else node.inputs
