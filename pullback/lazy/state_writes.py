"""State: tensors that a function may write although they come from outside it.

The statistics of a normalisation layer and the key of a stream of random numbers change at each
use. A compiled function runs once, on placeholders: what it writes to state becomes a result of
its program, and is written again after each call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullback.errors import ArgumentError, InPlaceError
from pullback.graph.ambient import thread
from pullback.graph.memo import remember
from pullback.graph.node import Node
from pullback.lazy.operators import node_of
from pullback.lazy.pending import compute_pending
from pullback.lazy.record import record_as_constant, register
from pullback.lazy.tensor import Tensor

_MOST_PENDING_WRITES = 256  # more than a step makes


class StateWrites:
    """What a function that runs on placeholders wrote to state from outside."""

    def __init__(self, first: int) -> None:
        self.first = first  # node numbers below are from outside
        self.before: dict[Tensor, Node] = {}  # what each tensor had

    def write(self, state: Tensor, node: Node) -> None:
        self.before.setdefault(state, state._node)
        state._node = node

    def take_back(self) -> list[tuple[Tensor, Node]]:
        """Return the tensors and what was written to them; give them back what they had."""
        written = [(state, state._node) for state in self.before]
        for state, node in self.before.items():
            state._node = node
        return written


@contextmanager
def collect_state_writes() -> Iterator[StateWrites]:
    """Allow the function that is run on placeholders now to write to state from outside."""
    before, thread.state_writes = thread.state_writes, StateWrites(thread.tracing_from)
    try:
        yield thread.state_writes
    finally:
        thread.state_writes.take_back()
        thread.state_writes = before


def write_state(state: Tensor, value: Tensor) -> None:
    """Set the value of a state tensor, as a constant of derivatives."""
    if (value.shape, value.dtype) != (state.shape, state.dtype):
        what = f"the new value must be {state._node.type}, got {value._node.type}"
        raise ArgumentError(f"state: {what}")
    node = record_as_constant(node_of(value))
    writes = thread.state_writes
    if not thread.tracing_from or _state_made_inside(state, writes):
        if not thread.tracing_from:
            _bound_state_writes(state)
        state._node = node
        if node.value is None:
            register(state)
    elif writes is not None and writes.first == thread.tracing_from:
        writes.write(state, node)
    else:
        raise InPlaceError(
            "state: the body of vmap, of a loop or of cond cannot change state from outside",
            hint="Pass the module to the function as an argument and return it, pass keys, or\n"
            "switch the module to evaluation with `model.eval()`.",
        )


def _bound_state_writes(state: Tensor) -> None:
    """Compute a state that is written again and again and never read: it would not end to grow.

    Such is a counter of batches; most state is computed with the result that it belongs to.
    """
    counts = thread.state_pending
    if state._node.value is not None:
        counts.pop(id(state), None)
        return
    remember(counts, id(state), counts.get(id(state), 0) + 1, bound=10_000)
    if counts[id(state)] >= _MOST_PENDING_WRITES:
        compute_pending([state._node])
        del counts[id(state)]


def _state_made_inside(state: Tensor, writes: StateWrites | None) -> bool:
    """Whether the innermost function on placeholders made the tensor, or has its own copy."""
    if writes is not None and state in writes.before:
        return False
    return state._node.number >= thread.tracing_from
