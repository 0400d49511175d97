"""The stream of keys that layers use where no key is given.

It is state: a compiled function that draws from it gets other keys at each call.
"""

from __future__ import annotations

import threading

import numpy as np

from pullback.graph.arguments import validated
from pullback.lazy.host_data import asarray
from pullback.lazy.state_writes import write_state
from pullback.lazy.tensor import Tensor
from pullback.random.keys import key, split

_lock = threading.RLock()
_state: list[Tensor] = []  # the key that the next one is split from


@validated
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
        write_state(_stream(), key(value))


def default_key() -> Tensor:
    """Return the next key of the default stream."""
    with _lock:  # two threads must not get the same key
        state = _stream()
        following, drawn = split(state)
        write_state(state, following)
    return drawn


def _stream() -> Tensor:
    if not _state:
        _state.append(asarray(np.asarray(key(0))))
    return _state[0]
