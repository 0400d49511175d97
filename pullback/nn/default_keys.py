"""The stream of keys that layers use where no key is given.

It is state: a compiled function that draws from it gets other keys at each call.
"""

from __future__ import annotations

import threading

import numpy as np

from pullback.functions.creation import created_from_array
from pullback.graph.ambient import thread
from pullback.graph.argument_checks import with_argument_checks
from pullback.lazy.state_writes import write_state
from pullback.lazy.tensor import Tensor
from pullback.ops.random.split_fold_keys import SplitKey
from pullback.random.keys import key, split

_lock = threading.RLock()
_state: list[Tensor] = []  # the key that the next one is split from


@with_argument_checks
def seed(value: int) -> None:
    """Start the stream of keys of layers that get none: for their parameters, and for dropout.

    A process begins with seed 0.

    >>> pb.nn.seed(1)
    >>> a = pb.nn.Linear(2, 3)
    >>> pb.nn.seed(1)
    >>> b = pb.nn.Linear(2, 3)
    >>> a.weight.tolist() == b.weight.tolist()
    True
    """
    with _lock:
        write_state(_default_key_stream(), key(value))


def default_key() -> Tensor:
    """Return the next key of the default stream."""
    with _lock:  # two threads must not get the same key
        state = _default_key_stream()
        following, drawn = split(state) if thread.tracing_from else _split_default_key(state)
        write_state(state, following)
    return drawn


def _split_default_key(state: Tensor) -> tuple[Tensor, Tensor]:
    """Split a key on the host, so that no history of keys is pending."""
    following, drawn = SplitKey((2,)).numpy(np.asarray(state.detach()))
    return created_from_array(following), created_from_array(drawn)


def _default_key_stream() -> Tensor:
    """The tensor with the key; it is from outside of every function, whenever it is made."""
    if not _state:
        made = created_from_array(np.zeros(2, np.uint32))
        made._node.number = 0
        _state.append(made)
    return _state[0]
